package agenttwin.lib.combine_test

import data.agenttwin.lib.combine

nothing := {"deny": set(), "require_approval": set(), "allow": set(), "terms": set(), "limits": set()}

reason := {"code": "because", "message": "", "rule": "r"}

other := object.union(reason, {"code": "other"})

said(words) := combine.strictest(object.union(nothing, words))

test_without_a_reason_the_answer_is_deny if {
	answer := said({})
	answer.effect == "deny"
	answer.reasons[0].code == "nothing_allows"
}

test_limits_alone_allow_nothing if said({"limits": {{"count": 1}}}).effect == "deny"

test_a_reason_to_allow_allows if said({"allow": {reason}}) == {"effect": "allow", "reasons": [reason]}

test_limits_win_over_allow if {
	answer := said({"allow": {reason}, "limits": {{"count": 1}}})
	answer == {"effect": "allow_with_limits", "reasons": [reason], "limits": {"count": 1}}
}

test_approval_wins_over_both_and_brings_its_terms if {
	answer := said({
		"require_approval": {reason},
		"allow": {other},
		"limits": {{"count": 1}},
		"terms": {{"min": 1, "ttl_s": 60}},
	})
	answer == {"effect": "require_approval", "reasons": [reason], "approval": {"min": 1, "ttl_s": 60}}
}

test_deny_wins_over_all_and_only_its_reasons_are_given if {
	answer := said({"deny": {reason}, "require_approval": {other}, "allow": {other}})
	answer == {"effect": "deny", "reasons": [reason]}
}

test_terms_join_to_most_approvers_all_roles_and_the_shortest_time if {
	demand := {"acr": ["gold", "silver"], "max_age_s": 300}
	other := {"acr": ["gold"], "amr": ["hwk"]}
	stepped := combine.joined({{"step_up": demand}, {"step_up": other}, {"min": 2}})
	stepped == {"min": 2, "step_up": {"acr": ["gold"], "amr": ["hwk"], "max_age_s": 300}}
	terms := {{"min": 1, "ttl_s": 600, "roles": ["a"]}, {"min": 2, "execute_s": 30}, {"ttl_s": 60, "roles": ["b"]}}
	combine.joined(terms) == {"min": 2, "ttl_s": 60, "execute_s": 30, "roles": ["a", "b"]}
}

test_limits_intersect_to_the_least_of_each_and_every_rate if {
	one := {"n": 5, "window_s": 60, "key": "agent"}
	two := {"n": 9, "window_s": 60, "key": "tool"}
	found := combine.intersection_of({
		{"timeout_ms": 500, "rate": [one], "max_amount": "50.0", "currency": "EUR"},
		{"timeout_ms": 900, "rate": [two], "max_amount": "9.99", "currency": "EUR", "count": 3},
	})
	object.remove(found, ["rate"]) == {"timeout_ms": 500, "max_amount": "9.99", "currency": "EUR", "count": 3}
	{rate | some rate in found.rate} == {one, two}
}

test_only_hosts_that_all_allow_are_allowed if {
	limits := {{"allowed_hosts": ["a.example", "b.example"]}, {"allowed_hosts": ["b.example"]}, {"count": 1}}
	combine.intersection_of(limits) == {"allowed_hosts": ["b.example"], "count": 1}
}

test_every_limit_on_an_argument_holds if {
	few := {"name": "n", "max": "5"}
	fewer := {"name": "n", "max": "3"}
	found := combine.intersection_of({{"arguments": [few]}, {"arguments": [fewer]}})
	{limit | some limit in found.arguments} == {few, fewer}
}

test_limits_in_two_currencies_are_none_that_can_be_kept if {
	limits := {{"max_amount": "1", "currency": "EUR"}, {"max_amount": "1", "currency": "USD"}}
	combine.intersection_of(limits).currency == "EUR and USD"
}

test_an_amount_that_is_no_decimal_is_none_that_can_be_kept if {
	limits := {{"max_amount": "1", "currency": "EUR"}, {"max_amount": "much", "currency": "EUR"}}
	combine.intersection_of(limits).max_amount == "unreadable"
}
