package agenttwin.tool_calls_test

import data.agenttwin.tool_calls

call(class, key_present) := {
	"action": {"properties": {"idempotency": {"key_present": key_present}}},
	"resource": {"type": "tool", "id": "issue_refund", "properties": {"registered_class": class}},
}

codes := {verdict.code | some verdict in tool_calls.verdicts}

effects := {verdict.effect | some verdict in tool_calls.verdicts}

test_reads_are_allowed if codes == {"read_allowed"} with input as call("read", false)

test_writes_are_allowed if codes == {"write_allowed"} with input as call("write", false)

test_irreversible_with_a_key_is_allowed if {
	codes == {"irreversible_allowed"} with input as call("irreversible", true)
}

test_irreversible_without_a_key_is_denied if {
	codes == {"idempotency_key_required"} with input as call("irreversible", false)
}

test_irreversible_with_an_unknown_key_is_denied if {
	codes == {"idempotency_key_required"} with input as object.remove(call("irreversible", true), ["action"])
}

test_a_key_that_is_only_said_to_be_there_is_none if {
	not "allow" in effects with input as call("irreversible", "yes")
}

test_an_unlisted_tool_is_denied if codes == {"tool_unlisted"} with input as call("harmless", true)

test_a_tool_without_a_class_is_denied if codes == {"tool_unlisted"} with input as {"resource": {"id": "x"}}

test_a_denied_tool_is_denied_whatever_its_class if {
	found := effects with input as call("read", false)
		with data.settings.tools.denied as ["issue_refund"]
	"deny" in found
}

test_registered_tools_are_visible if {
	found := tool_calls.visibility with input as call("read", false)
	{verdict.effect | some verdict in found} == {"allow"}
}

test_unlisted_tools_are_not_visible if {
	found := tool_calls.visibility with input as call("other", false)
	{verdict.effect | some verdict in found} == {"deny"}
}
