"""Amounts in twins are read as strictly as at the gateway, however large an exponent is."""

import pytest

from sidecar.twins import decimals


@pytest.mark.parametrize(
    "odd", ["1_0", "\uff15", "5\n", " 5", "1e999999999", "1e2", "NaN", "", "."]
)
def test_text_that_is_no_plain_amount_is_an_error(odd):
    for compute in (decimals.add, decimals.subtract, decimals.compare):
        with pytest.raises(ValueError, match="no plain decimal"):
            compute(odd, "1.00")


def test_plain_amounts_are_computed_exactly():
    assert decimals.add("0.10", "0.20") == "0.30"
    assert decimals.subtract("5.00", "7.5") == "-2.50"
    assert decimals.compare("-2.50", "-2.5") == 0
