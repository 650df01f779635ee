package agenttwin.approvals_test

import data.agenttwin.approvals

call(prior) := {
	"resource": {"id": "issue_refund"},
	"context": {"session": {"prior_tools": prior}},
}

codes := {"ask": {each.code | some each in approvals.require_approval}, "deny": {each.code | some each in approvals.deny}}

nothing := {"ask": set(), "deny": set()}

found(prior, before) := words if {
	words := codes with input as call(prior)
		with data.settings.tools.requires_before as {"issue_refund": before}
}

test_what_was_called_before_satisfies if found(["get_policy"], {"tool": "get_policy"}) == nothing

test_what_was_not_called_denies if {
	found(["get_order"], {"tool": "get_policy"}) == {"ask": set(), "deny": {"required_call_missing"}}
}

test_or_asks_where_the_table_says_so if {
	before := {"tool": "get_policy", "otherwise": "require_approval"}
	found([], before) == {"ask": {"required_call_missing"}, "deny": set()}
}

test_a_misspelt_consequence_denies if {
	before := {"tool": "get_policy", "otherwise": "approve"}
	found([], before) == {"ask": set(), "deny": {"required_call_missing"}}
}

test_an_entry_without_a_tool_denies if {
	found([], {"tol": "x"}) == {"ask": set(), "deny": {"settings_malformed"}}
}

test_no_session_counts_as_nothing_called if {
	words := codes with input as {"resource": {"id": "issue_refund"}}
		with data.settings.tools.requires_before as {"issue_refund": {"tool": "get_policy"}}
	words.deny == {"required_call_missing"}
}

test_tools_without_an_entry_are_not_concerned if codes == nothing with input as call([])

test_listed_tools_are_always_approved if {
	words := codes with input as call([])
		with data.settings.tools.always_approve as ["issue_refund"]
	words.ask == {"tool_needs_approval"}
}
