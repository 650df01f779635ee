# METADATA
# title: What an irreversible call costs decides who is asked
# description: |
#   From a threshold on (settings.spending.approve_from, by currency) a person approves; so does one where
#   the cost is not declared or its currency is not listed. Amounts are decimal text.
package agenttwin.spending

irreversible if input.resource.properties.registered_class == "irreversible"

amount := decimal(input.action.properties.amount)

priced if amount >= 0

threshold := decimal(data.settings.spending.approve_from[input.action.properties.currency])

known if threshold >= 0

# Digits and at most one point between them. Engines differ on when they find that a text is no number, so
# nothing else reaches to_number.
decimal(text) := to_number(text) if {
	is_string(text)
	trim(text, "0123456789") in {"", "."}
	not text in {"", "."}
	not startswith(text, ".")
	not endswith(text, ".")
}

require_approval contains {
	"code": "amount_needs_approval",
	"message": sprintf("it costs %s %s; from %s on a person approves", [
		input.action.properties.amount,
		input.action.properties.currency,
		data.settings.spending.approve_from[input.action.properties.currency],
	]),
	"rule": "agenttwin.spending",
} if {
	irreversible
	amount >= threshold
}

require_approval contains {
	"code": "cost_unknown",
	"message": "its cost is not declared, so a person approves",
	"rule": "agenttwin.spending",
} if {
	irreversible
	not priced
}

require_approval contains {
	"code": "currency_unknown",
	"message": "its currency is not one with a threshold, so a person approves",
	"rule": "agenttwin.spending",
} if {
	irreversible
	priced
	not known
}
