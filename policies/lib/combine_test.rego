package agenttwin.lib.combine_test

import data.agenttwin.lib.combine

terms := {"min": 1}

verdict(effect) := {"effect": effect, "code": sprintf("because_%s", [effect]), "message": "", "rule": "r"}

test_without_a_verdict_the_answer_is_deny if {
	answer := combine.strictest(set(), terms)
	answer.effect == "deny"
	answer.reasons[0].code == "nothing_allows"
}

test_one_allow_allows if {
	answer := combine.strictest({verdict("allow")}, terms)
	answer == {"effect": "allow", "reasons": [{"code": "because_allow", "message": "", "rule": "r"}]}
}

test_approval_wins_over_allow_and_brings_its_terms if {
	answer := combine.strictest({verdict("allow"), verdict("require_approval")}, terms)
	answer.effect == "require_approval"
	answer.approval == terms
}

test_deny_wins_over_all_and_only_its_reasons_are_given if {
	answer := combine.strictest({verdict("allow"), verdict("require_approval"), verdict("deny")}, terms)
	answer.effect == "deny"
	count(answer.reasons) == 1
	not answer.approval
}

test_a_verdict_of_an_unknown_effect_alone_gives_no_answer if {
	not combine.strictest({verdict("permit")}, terms)
}
