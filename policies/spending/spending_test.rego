package agenttwin.spending_test

import data.agenttwin.spending

call(class, amount, currency) := {
	"action": {"properties": {"amount": amount, "currency": currency}},
	"resource": {"properties": {"registered_class": class}},
}

codes := {reason.code | some reason in spending.require_approval}

thresholds := {"EUR": "100.00", "JPY": "15000"}

asked(class, amount, currency) := found if {
	found := codes with input as call(class, amount, currency)
		with data.settings.spending.approve_from as thresholds
}

test_below_the_threshold_nobody_is_asked if asked("irreversible", "99.99", "EUR") == set()

test_at_the_threshold_a_person_is_asked if asked("irreversible", "100", "EUR") == {"amount_needs_approval"}

test_above_it_too if asked("irreversible", "100.01", "EUR") == {"amount_needs_approval"}

test_each_currency_has_its_own if {
	asked("irreversible", "14999", "JPY") == set()
	asked("irreversible", "15000", "JPY") == {"amount_needs_approval"}
}

test_an_unlisted_currency_asks if asked("irreversible", "1", "XAU") == {"currency_unknown"}

test_no_currency_asks if asked("irreversible", "1", null) == {"currency_unknown"}

test_no_cost_asks if asked("irreversible", null, "EUR") == {"cost_unknown"}

test_no_properties_ask if {
	found := codes with input as {"resource": {"properties": {"registered_class": "irreversible"}}}
	found == {"cost_unknown"}
}

test_a_number_that_is_no_text_is_no_cost if asked("irreversible", 5, "EUR") == {"cost_unknown"}

test_a_text_that_is_no_decimal_is_no_cost if {
	asked("irreversible", "zz", "EUR") == {"cost_unknown"}
	asked("irreversible", "1e9", "EUR") == {"cost_unknown"}
	asked("irreversible", "-1", "EUR") == {"cost_unknown"}
	asked("read", "zz", "EUR") == set()
}

test_a_misspelt_threshold_asks if {
	found := codes with input as call("irreversible", "1", "EUR")
		with data.settings.spending.approve_from as {"EUR": "a hundred"}
	found == {"currency_unknown"}
}

test_reads_and_writes_cost_nothing if {
	asked("read", "1000", "EUR") == set()
	asked("write", "1000", "EUR") == set()
}
