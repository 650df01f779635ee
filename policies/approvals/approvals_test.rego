package agenttwin.approvals_test

import data.agenttwin.approvals

call(prior) := {
	"resource": {"id": "issue_refund"},
	"context": {"session": {"prior_tools": prior}},
}

found(prior, before) := verdicts if {
	verdicts := {[verdict.effect, verdict.code] | some verdict in approvals.verdicts} with input as call(prior)
		with data.settings.tools.requires_before as {"issue_refund": before}
}

test_what_was_called_before_satisfies if found(["get_policy"], {"tool": "get_policy"}) == set()

test_what_was_not_called_denies if {
	found(["get_order"], {"tool": "get_policy"}) == {["deny", "required_call_missing"]}
}

test_or_asks_where_the_table_says_so if {
	before := {"tool": "get_policy", "otherwise": "require_approval"}
	found([], before) == {["require_approval", "required_call_missing"]}
}

test_a_misspelt_consequence_denies if {
	found([], {"tool": "get_policy", "otherwise": "approve"}) == {["deny", "required_call_missing"]}
}

test_an_entry_without_a_tool_denies if found([], {"tol": "x"}) == {["deny", "settings_malformed"]}

test_no_session_counts_as_nothing_called if {
	codes := {verdict.code | some verdict in approvals.verdicts} with input as {"resource": {"id": "issue_refund"}}
		with data.settings.tools.requires_before as {"issue_refund": {"tool": "get_policy"}}
	codes == {"required_call_missing"}
}

test_tools_without_an_entry_are_not_concerned if {
	approvals.verdicts == set() with input as call([])
}

test_listed_tools_are_always_approved if {
	codes := {verdict.code | some verdict in approvals.verdicts} with input as call([])
		with data.settings.tools.always_approve as ["issue_refund"]
	codes == {"tool_needs_approval"}
}
