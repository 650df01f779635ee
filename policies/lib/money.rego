# METADATA
# title: Amounts as whole numbers
# description: |
#   Decimal text ("12.50") becomes ten-thousandths of the currency's unit, a whole number, since engines differ on
#   fractions. What is no plain decimal has no value. An amount beyond fourteen digits is as large as one can be.
package agenttwin.lib.money

largest := 1000000000000000000

# What may be spent: rounded down.
limit(text) := scaled(digits) if {
	[whole, fraction] := parted(text)
	digits := trim_left(concat("", [whole, substring(concat("", [fraction, "0000"]), 0, 4)]), "0")
}

# What is spent: rounded up, so that nothing slips below a limit.
spent(text) := scaled(digits) + rest(fraction) if {
	[whole, fraction] := parted(text)
	digits := trim_left(concat("", [whole, substring(concat("", [fraction, "0000"]), 0, 4)]), "0")
}

rest(fraction) := 0 if {
	count(fraction) <= 4
} else := 0 if {
	trim_right(substring(fraction, 4, -1), "0") == ""
} else := 1

decimal(text) if parted(text)

# [digits before the point, digits after it]: digits and at most one point between them.
parted(text) := parts if {
	is_string(text)
	trim(text, "0123456789") == "."
	parts := split(text, ".")
	not "" in parts
} else := [text, ""] if {
	is_string(text)
	trim(text, "0123456789") == ""
	text != ""
}

# Whole ten-thousandths, without leading zeros.
scaled(digits) := to_number(digits) if {
	digits != ""
	count(digits) <= 18
} else := 0 if {
	digits == ""
} else := largest
