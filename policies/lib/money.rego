# METADATA
# title: Amounts as whole numbers
# description: |
#   Decimal text ("12.50") becomes ten-thousandths of the currency's unit, a whole number, since engines differ on
#   fractions. What is no plain decimal has no value. An amount beyond fourteen digits is as large as one can be.
package agenttwin.lib.money

largest := 1000000000000000000

# What may be spent: rounded down.
limit(text) := number if {
	[whole, fraction] := parted(text)
	number := counted(whole, fraction)
}

# What is spent: rounded up, so that nothing slips below a limit.
spent(text) := counted(whole, fraction) + rest(fraction) if [whole, fraction] := parted(text)

rest(fraction) := 0 if {
	trim_right(substring(fraction, 4, -1), "0") == ""
} else := 1

decimal(text) if parted(text)

# [digits before the point, digits after it]: digits and at most one point between them.
parted(text) := [text, ""] if {
	is_string(text)
	trim(text, "0123456789") == ""
	text != ""
}

parted(text) := parts if {
	is_string(text)
	trim(text, "0123456789") == "."
	parts := split(text, ".")
	not "" in parts
}

counted(whole, fraction) := number if {
	digits := trim_left(concat("", [whole, substring(concat("", [fraction, "0000"]), 0, 4)]), "0")
	number := scaled(digits)
}

scaled("") := 0

scaled(digits) := to_number(digits) if {
	digits != ""
	count(digits) <= 18
}

scaled(digits) := largest if count(digits) > 18
