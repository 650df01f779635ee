package agenttwin.limits_test

import data.agenttwin.limits

tool(id, class) := {"resource": {"id": id, "properties": {"registered_class": class}}}

settings := {"classes": {"read": {"timeout_ms": 900}}, "tools": {"fetch": {"count": 3}}}

found(id, class) := sets if {
	sets := limits.limits with input as tool(id, class) with data.settings.limits as settings
}

test_what_names_neither_class_nor_tool_has_no_limit if found("pay", "irreversible") == set()

test_a_class_has_its_limits if found("get", "read") == {{"timeout_ms": 900}}

test_those_of_the_tool_hold_beside_them if found("fetch", "read") == {{"timeout_ms": 900}, {"count": 3}}
