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

test_reads_and_writes_ask_nobody if {
	asked("read", "1000", "EUR") == set()
	asked("write", "1000", "EUR") == set()
}

settings := {
	"approve_from": {"EUR": "100.00"},
	"two_approve_from": {"EUR": "500"},
	"never_from": {"EUR": "1000"},
	"tools": {"dear": {"approve_from": {"EUR": "900"}}},
	"windows": [
		{"currency": "EUR", "limit": "300.00", "window_s": 86400, "scope": "agent"},
		{"currency": "USD", "limit": "9", "window_s": 60, "scope": "tool"},
	],
}

said := {
	"asked": codes,
	"terms": spending.terms,
	"deny": {reason.code | some reason in spending.deny},
	"limits": spending.limits,
}

judged(tool, amount) := found if {
	made := object.union(call("irreversible", amount, "EUR"), {"resource": {"id": tool}})
	found := said with input as made with data.settings.spending as settings
}

test_from_a_second_threshold_on_two_approve if {
	judged("x", "499.9999").terms == set()
	judged("x", "500").terms == {{"min": 2}}
}

test_from_a_third_threshold_on_it_is_never_made if {
	judged("x", "999.99").deny == set()
	judged("x", "1000.0000").deny == {"amount_too_large"}
	judged("x", "100000000000000000000").deny == {"amount_too_large"}
}

test_a_tool_may_have_thresholds_of_its_own if {
	judged("dear", "899").asked == set()
	judged("dear", "900").asked == {"amount_needs_approval"}
}

test_the_windows_of_the_currency_are_limits_for_the_gateway_to_keep if {
	judged("x", "1").limits == {{"currency": "EUR", "spend": [{
		"limit": "300.00",
		"window_s": 86400,
		"scope": "agent",
	}]}}
}

test_a_misspelt_ceiling_denies if {
	found := said with input as call("irreversible", "1", "EUR")
		with data.settings.spending as object.union(settings, {"never_from": {"EUR": "a lot"}})
	found.deny == {"settings_malformed"}
}
