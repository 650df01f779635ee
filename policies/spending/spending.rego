# METADATA
# title: What an irreversible call costs decides who is asked
# description: |
#   From a threshold on (settings.spending.approve_from, by currency) a person approves; so does one where
#   the cost is not declared or its currency is not listed. Amounts are decimal text.
package agenttwin.spending

amount := decimal(input.action.properties.amount)

threshold := decimal(data.settings.spending.approve_from[input.action.properties.currency])

# Digits and at most one point between them. Engines differ on when they find that a text is no number, so
# nothing else reaches to_number.
decimal(text) := to_number(text) if {
	is_string(text)
	trim(text, "0123456789") in {"", "."}
	not text in {"", "."}
	not startswith(text, ".")
	not endswith(text, ".")
}

require_approval contains reason if {
	input.resource.properties.registered_class == "irreversible"
	some reason in asked
}

asked := {{
	"code": "amount_needs_approval",
	"message": sprintf("it costs %s %s; from %s on a person approves", [
		input.action.properties.amount,
		input.action.properties.currency,
		data.settings.spending.approve_from[input.action.properties.currency],
	]),
	"rule": "agenttwin.spending",
}} if {
	amount >= threshold
} else := set() if {
	amount < threshold
} else := {{
	"code": "currency_unknown",
	"message": "its currency is not one with a threshold, so a person approves",
	"rule": "agenttwin.spending",
}} if {
	amount >= 0
} else := {{
	"code": "cost_unknown",
	"message": "its cost is not declared, so a person approves",
	"rule": "agenttwin.spending",
}}
