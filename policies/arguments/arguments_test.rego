package agenttwin.arguments_test

import data.agenttwin.arguments

settings := {"pay": {
	"currency": {"one_of": ["EUR", "USD"], "required": true},
	"amount": {"min": "1", "max": "100.50"},
	"note": {"words": ["password", "strasse"]},
}}

why(given, folded) := found if {
	made := {"resource": {"id": "pay"}, "arguments": given, "normalized": {"arguments": folded}}
	reasons := arguments.deny with input as made with data.settings.arguments as settings
	found := {reason.message | some reason in reasons}
}

good := {"currency": "EUR", "amount": "100.50"}

changed(change) := why(object.union(good, change), {})

test_what_is_within_bounds_is_not_denied if why(good, {"note": "hello"}) == set()

test_whole_numbers_are_amounts_too if {
	changed({"amount": 100}) == set()
	changed({"amount": 101}) == {"the argument amount is more than 100.50"}
}

test_too_much_is_denied_by_the_smallest_part if {
	changed({"amount": "100.500000001"}) == {"the argument amount is more than 100.50"}
}

test_too_little_is_denied if changed({"amount": "0.9999"}) == {"the argument amount is less than 1"}

test_what_is_no_amount_is_neither_within if {
	every value in ["much", "-5", 1.5, null, true, ["5"], {"a": "5"}] {
		count(changed({"amount": value})) == 2
	}
}

test_what_is_not_listed_is_denied if {
	changed({"currency": "XAU"}) == {"the argument currency is not one of those allowed"}
}

test_what_is_required_must_be_there if {
	why({"amount": "5"}, {}) == {"the argument currency is missing"}
}

test_words_are_found_in_folded_text if {
	found := why(good, {"note": "my password is"})
	found == {"the argument note contains a word that is not allowed"}
}

test_a_value_that_is_no_text_is_not_taken_for_clean if {
	found := why(good, {"note": ["password"]})
	found == {"the argument note contains a word that is not allowed"}
}

test_other_tools_are_not_concerned if {
	made := {"resource": {"id": "get"}, "arguments": {"amount": "900"}}
	reasons := arguments.deny with input as made with data.settings.arguments as settings
	reasons == set()
}
