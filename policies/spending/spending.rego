# METADATA
# title: What a call costs decides who is asked, and how much may be spent in all
# description: |
#   From settings.spending.approve_from on a person approves an irreversible call, from two_approve_from on two do,
#   from never_from on nobody can; all by currency. One whose cost is not declared, or in a currency that is not
#   listed, waits for a person too. settings.spending.windows are limits over time, which the gateway keeps.
#   settings.spending.tools holds the same three tables for single tools.
package agenttwin.spending

import data.agenttwin.lib.money

currency := input.action.properties.currency

# What the gateway says it costs: decimal text, or null.
text := input.action.properties.amount

amount := money.spent(text)

# The tool's own table where it has one, else the one for all tools.
own := data.settings.spending.tools[input.resource.id]

approve_text := own.approve_from[currency] if {
	own.approve_from
} else := data.settings.spending.approve_from[currency]

two_text := own.two_approve_from[currency] if {
	own.two_approve_from
} else := data.settings.spending.two_approve_from[currency]

never_text := own.never_from[currency] if {
	own.never_from
} else := data.settings.spending.never_from[currency]

approve_from := money.limit(approve_text)

irreversible if input.resource.properties.registered_class == "irreversible"

require_approval contains reason if {
	irreversible
	some reason in asked
}

asked := {{
	"code": "amount_needs_approval",
	"message": sprintf("it costs %s %s; from %s on a person approves", [text, currency, approve_text]),
	"rule": "agenttwin.spending",
}} if {
	amount >= approve_from
} else := set() if {
	amount < approve_from
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

terms contains {"min": 2} if {
	irreversible
	from := two_text
	amount >= money.limit(from)
}

deny contains {
	"code": "amount_too_large",
	"message": sprintf("it costs %s %s; from %s on it is never made", [text, currency, never_text]),
	"rule": "agenttwin.spending",
} if {
	from := never_text
	amount >= money.limit(from)
}

# A ceiling that cannot be read is no permission.
deny contains {
	"code": "settings_malformed",
	"message": sprintf("settings.spending.never_from: what it says for %s is no decimal text", [currency]),
	"rule": "agenttwin.spending",
} if {
	from := never_text
	not money.decimal(from)
}

deny contains {
	"code": "settings_malformed",
	"message": sprintf("settings.spending.two_approve_from: what it says for %s is no decimal text", [currency]),
	"rule": "agenttwin.spending",
} if {
	from := two_text
	not money.decimal(from)
}

limits contains {"currency": currency, "spend": [{
	"limit": window.limit,
	"window_s": window.window_s,
	"scope": window.scope,
}]} if {
	some window in data.settings.spending.windows
	window.currency == currency
}
