# METADATA
# title: What arguments may be
# description: |
#   settings.arguments maps a tool to its arguments and each to what holds: one_of (a list), max and min (decimal
#   text; the argument is decimal text or a whole number), words (none of which its folded text may contain), required.
package agenttwin.arguments

import data.agenttwin.lib.money

bounds := data.settings.arguments[input.resource.id]

text(value) := value if is_string(value)

text(value) := format_int(value, 10) if {
	is_number(value)
	floor(value) == value
}

listed(value, values) if value in values

at_most(value, bound) if money.spent(text(value)) <= money.limit(bound)

at_least(value, bound) if money.limit(text(value)) >= money.spent(bound)

clean(folded, word) if {
	is_string(folded)
	not contains(folded, word)
}

wrong contains {"name": name, "why": "is not one of those allowed"} if {
	some name, bound in bounds
	values := bound.one_of
	value := input.arguments[name]
	not listed(value, values)
}

wrong contains {"name": name, "why": sprintf("is more than %s", [most])} if {
	some name, bound in bounds
	most := bound.max
	value := input.arguments[name]
	not at_most(value, most)
}

wrong contains {"name": name, "why": sprintf("is less than %s", [least])} if {
	some name, bound in bounds
	least := bound.min
	value := input.arguments[name]
	not at_least(value, least)
}

wrong contains {"name": name, "why": "contains a word that is not allowed"} if {
	some name, bound in bounds
	some word in bound.words
	folded := input.normalized.arguments[name]
	not clean(folded, word)
}

given contains name if some name, _ in input.arguments

wrong contains {"name": name, "why": "is missing"} if {
	some name, bound in bounds
	bound.required == true
	names := given
	not listed(name, names)
}

deny contains {
	"code": "argument_out_of_bounds",
	"message": sprintf("the argument %s %s", [each.name, each.why]),
	"rule": "agenttwin.arguments",
} if {
	bounds
	some each in wrong
}
