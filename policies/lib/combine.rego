# METADATA
# title: The strictest verdict wins
# description: |
#   A verdict is {"effect", "code", "message", "rule"}. Nothing is allowed by the absence of a deny: without
#   a positive verdict the answer is deny.
package agenttwin.lib.combine

rank := {"deny": 3, "require_approval": 2, "allow": 1}

strictest(verdicts, terms) := answer if {
	effect := _effect(verdicts)
	answer := object.union(
		{"effect": effect, "reasons": _reasons(verdicts, effect)},
		_terms(effect, terms),
	)
}

_effect(verdicts) := effect if {
	some effect, number in rank
	number == max({rank[verdict.effect] | some verdict in verdicts})
}

_effect(verdicts) := "deny" if count(verdicts) == 0

_reasons(verdicts, effect) := [reason |
	some verdict in verdicts
	verdict.effect == effect
	reason := object.remove(verdict, ["effect"])
] if {
	count(verdicts) > 0
}

_reasons(verdicts, _) := [{
	"code": "nothing_allows",
	"message": "no rule allows this call",
	"rule": "agenttwin.lib.combine",
}] if {
	count(verdicts) == 0
}

_terms(effect, terms) := {"approval": terms} if effect == "require_approval"

_terms(effect, _) := {} if effect != "require_approval"
