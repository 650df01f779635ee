package agenttwin.v1_test

import data.agenttwin.v1

none := {"calls": 0, "refused": 0, "classes": {"read": 0, "write": 0, "irreversible": 0}, "tools": {}}

judged(tool, class, counters) := answer if {
	answer := v1.decide with input as {
		"resource": {"type": "tool", "id": tool, "properties": {"registered_class": class}},
		"context": {"counters": object.union({"session": none, "hour": none, "minute": none}, counters)},
	}
}

code(answer) := answer.reasons[0].code

test_nothing_before_is_within_limits if judged("send_mail", "write", {}).effect == "allow"

test_mail_after_the_list_of_customers_is_denied if {
	read := object.union(none, {"calls": 1, "tools": {"list_customers": 1}})
	code(judged("send_mail", "write", {"session": read})) == "export_after_reading"
	judged("add_note", "write", {"session": read}).effect == "allow"
}

test_the_twenty_first_write_of_an_hour_is_denied if {
	wrote := object.union(none, {"calls": 20, "classes": {"read": 0, "write": 20, "irreversible": 0}})
	code(judged("add_note", "write", {"hour": wrote})) == "too_many_writes"
	judged("get_order", "read", {"hour": wrote}).effect == "allow"
}

test_an_agent_that_probes_is_denied if {
	code(judged("get_order", "read", {"minute": object.union(none, {"refused": 10})})) == "refused_too_often"
}

test_without_the_counters_nothing_is_allowed if not v1.decide with input as {"resource": {"type": "tool", "id": "x"}}
