# METADATA
# title: The strictest word wins
# description: |
#   Three sets of reasons {"code", "message", "rule"} become one answer. Nothing is allowed by the absence of
#   a deny: without a reason to allow the answer is deny.
package agenttwin.lib.combine

strictest(deny, require_approval, allow, terms) := answer if {
	count(deny) > 0
	answer := {"effect": "deny", "reasons": [reason | some reason in deny]}
} else := answer if {
	count(require_approval) > 0
	answer := {
		"effect": "require_approval",
		"reasons": [reason | some reason in require_approval],
		"approval": terms,
	}
} else := answer if {
	count(allow) > 0
	answer := {"effect": "allow", "reasons": [reason | some reason in allow]}
} else := {"effect": "deny", "reasons": [{
	"code": "nothing_allows",
	"message": "no rule allows this call",
	"rule": "agenttwin.lib.combine",
}]}
