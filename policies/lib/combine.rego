# METADATA
# title: The strictest word wins
# description: |
#   Sets of reasons {"code", "message", "rule"} become one answer: deny before require_approval before
#   allow_with_limits before allow. Nothing is allowed by the absence of a deny: without a reason to allow the
#   answer is deny. Terms of approval join (most approvers, all roles, shortest time, every demand), limits intersect (least
#   amount, every rate and spend).
package agenttwin.lib.combine

import data.agenttwin.lib.money

# said: {"deny", "require_approval", "allow": sets of reasons, "terms", "limits": sets of objects}
strictest(said) := answer if {
	count(said.deny) > 0
	answer := {"effect": "deny", "reasons": [reason | some reason in said.deny]}
} else := answer if {
	count(said.require_approval) > 0
	answer := {
		"effect": "require_approval",
		"reasons": [reason | some reason in said.require_approval],
		"approval": joined(said.terms),
	}
} else := answer if {
	count(said.allow) > 0
	count(said.limits) > 0
	answer := {
		"effect": "allow_with_limits",
		"reasons": [reason | some reason in said.allow],
		"limits": intersection_of(said.limits),
	}
} else := answer if {
	count(said.allow) > 0
	answer := {"effect": "allow", "reasons": [reason | some reason in said.allow]}
} else := {"effect": "deny", "reasons": [{
	"code": "nothing_allows",
	"message": "no rule allows this call",
	"rule": "agenttwin.lib.combine",
}]}

joined(terms) := object.union_n([
	least("ttl_s", terms),
	least("execute_s", terms),
	stepped({each.step_up | some each in terms}),
	most("min", terms),
	named("roles", {role | some each in terms; some role in each.roles}),
])

# What every demand on the approvers' sign-in asks for.
stepped(demands) := {"step_up": object.union_n([
	least("max_age_s", demands),
	named("amr", {way | some each in demands; some way in each.amr}),
	classes({set_of(each.acr) | some each in demands}),
])} if count(demands) > 0

stepped(demands) := {} if count(demands) == 0

# No class that all of them take makes a demand that nobody can meet, which denies.
classes(taken) := {"acr": [class | some class in intersection(taken)]} if count(taken) > 0

classes(taken) := {} if count(taken) == 0

intersection_of(limits) := object.union_n([
	least("timeout_ms", limits),
	least("max_response_bytes", limits),
	least("count", limits),
	hosts({set_of(each.allowed_hosts) | some each in limits}),
	amounts(limits),
	named("rate", {rate | some each in limits; some rate in each.rate}),
	named("arguments", {limit | some each in limits; some limit in each.arguments}),
	named("spend", {spend | some each in limits; some spend in each.spend}),
])

least(key, objects) := {key: min(found)} if {
	found := {each[key] | some each in objects}
	count(found) > 0
} else := {}

most(key, objects) := {key: max(found)} if {
	found := {each[key] | some each in objects}
	count(found) > 0
} else := {}

named(key, found) := {key: [each | some each in found]} if count(found) > 0

named(_, found) := {} if count(found) == 0

set_of(items) := {item | some item in items}

# No host that all of them allow makes a limit that no gateway can keep, which denies.
hosts(allowed) := {"allowed_hosts": [host | some host in intersection(allowed)]} if count(allowed) > 0

hosts(allowed) := {} if count(allowed) == 0

# Two currencies in one answer make a limit that no gateway can keep, which denies.
amounts(limits) := object.union(currency, amount) if {
	currencies := {each.currency | some each in limits}
	currency := {"currency": concat(" and ", currencies)}
	count(currencies) > 0
	amount := least_amount({each.max_amount | some each in limits})
} else := {}

least_amount(texts) := {"max_amount": text} if {
	some text in texts
	every other in texts {
		money.limit(text) <= money.limit(other)
	}
} else := {"max_amount": "unreadable"} if {
	count(texts) > 0
} else := {}
