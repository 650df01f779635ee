package agenttwin.visibility_test

import data.agenttwin.visibility

tool(class) := {"resource": {"id": "issue_refund", "properties": {"registered_class": class}}}

test_registered_tools_are_visible if {
	count(visibility.allow) == 1 with input as tool("irreversible")
	count(visibility.deny) == 0 with input as tool("irreversible")
}

test_unlisted_tools_are_not if visibility.allow == set() with input as tool("other")

test_denied_tools_are_not if {
	count(visibility.deny) == 1 with input as tool("read")
		with data.settings.tools.denied as ["issue_refund"]
}
