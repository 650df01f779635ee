package agenttwin.tool_calls_test

import data.agenttwin.tool_calls

call(class, key_present) := {
	"action": {"properties": {"idempotency": {"key_present": key_present}}},
	"resource": {"type": "tool", "id": "issue_refund", "properties": {"registered_class": class}},
}

codes := {"allow": {each.code | some each in tool_calls.allow}, "deny": {each.code | some each in tool_calls.deny}}

allowed(code) := {"allow": {code}, "deny": set()}

denied(code) := {"allow": set(), "deny": {code}}

test_reads_are_allowed if codes == allowed("read_allowed") with input as call("read", false)

test_writes_are_allowed if codes == allowed("write_allowed") with input as call("write", false)

test_irreversible_with_a_key_is_allowed if {
	codes == allowed("irreversible_allowed") with input as call("irreversible", true)
}

test_irreversible_without_a_key_is_denied if {
	codes == denied("idempotency_key_required") with input as call("irreversible", false)
}

test_irreversible_with_an_unknown_key_is_denied if {
	keyless := object.remove(call("irreversible", true), ["action"])
	codes == denied("idempotency_key_required") with input as keyless
}

test_a_key_that_is_only_said_to_be_there_is_none if {
	tool_calls.allow == set() with input as call("irreversible", "yes")
}

test_an_unlisted_tool_is_denied if codes == denied("tool_unlisted") with input as call("harmless", true)

test_a_tool_without_a_class_is_denied if {
	codes == denied("tool_unlisted") with input as {"resource": {"id": "x"}}
}

test_a_denied_tool_is_denied_whatever_its_class if {
	found := codes with input as call("read", false)
		with data.settings.tools.denied as ["issue_refund"]
	found.deny == {"tool_denied"}
}
