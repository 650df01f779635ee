package agenttwin.v1_test

import data.agenttwin.v1

test_any_tool_call_is_allowed if {
	answer := v1.decide with input as {"resource": {"type": "tool", "id": "x"}}
	answer.effect == "allow"
}

test_what_is_no_tool_has_no_answer if not v1.decide with input as {}
