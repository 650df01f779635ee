"""Numbers as people type them: within a range, and real ones.

Rules
1. ``nan`` is in no range: it is neither below nor above anything, so what is held to it would hold.
"""

import math
from typing import Any

import click


class FiniteRange(click.FloatRange):
    """A range of numbers that ``nan`` is not in."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """The number of a text; click reports one that is none of the range."""
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is no number", param, ctx)
        return number
