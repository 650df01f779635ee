package agenttwin.lib.money_test

import data.agenttwin.lib.money

test_text_becomes_ten_thousandths if {
	money.limit("12.5") == 125000
	money.limit("0") == 0
	money.limit("007.1") == 71000
	money.limit("0.0001") == 1
}

test_what_is_spent_is_rounded_up_and_what_may_be_spent_down if {
	money.spent("0.00001") == 1
	money.limit("0.00009") == 0
	money.spent("0.10000") == money.limit("0.1")
}

test_cents_add_up_exactly if money.spent("0.1") + money.spent("0.2") == money.limit("0.3")

test_an_amount_too_long_to_count_is_the_largest if {
	money.spent("999999999999999999999999") == money.largest
	money.spent("99999999999999.9999") == 999999999999999999
}

test_what_is_no_plain_decimal_has_no_value if {
	every text in ["", ".", "1.", ".5", "-1", "+1", "1e3", "1,5", "NaN", " 1", "1.2.3", "٣"] {
		not money.decimal(text)
		found := {value | value := money.spent(text)}
		count(found) == 0
	}
}

test_a_number_is_no_text if {
	found := {value | value := money.limit(5)}
	count(found) == 0
}
