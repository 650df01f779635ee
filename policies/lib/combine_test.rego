package agenttwin.lib.combine_test

import data.agenttwin.lib.combine

terms := {"min": 1}

reason := {"code": "because", "message": "", "rule": "r"}

test_without_a_reason_the_answer_is_deny if {
	answer := combine.strictest(set(), set(), set(), terms)
	answer.effect == "deny"
	answer.reasons[0].code == "nothing_allows"
}

test_a_reason_to_allow_allows if {
	answer := combine.strictest(set(), set(), {reason}, terms)
	answer == {"effect": "allow", "reasons": [reason]}
}

test_approval_wins_over_allow_and_brings_its_terms if {
	answer := combine.strictest(set(), {reason}, {object.union(reason, {"code": "other"})}, terms)
	answer == {"effect": "require_approval", "reasons": [reason], "approval": terms}
}

test_deny_wins_over_all_and_only_its_reasons_are_given if {
	other := {object.union(reason, {"code": "other"})}
	answer := combine.strictest({reason}, other, other, terms)
	answer == {"effect": "deny", "reasons": [reason]}
}
