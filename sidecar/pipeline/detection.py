"""The detectors' configuration (key ``detect``): thresholds, and what policy wants of a run.

Every key has a default but what nobody can know: prices, order, tools that need an approval.
docs/specs/detectors.md tells what each detector does with them.
"""

from collections.abc import Iterator
from decimal import Decimal, InvalidOperation

from processors.verify.detect_settings import Settings
from sidecar.errors import Problem

_PERIOD_MAX = 64


class Config(Settings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Thresholds of the detectors; 0 turns one off."""

    def problems(self) -> list[Problem]:
        """What is wrong with the values, dotted below ``detect``."""
        return [*self._negative(), *self._of_loop(), *self._money(), *self._order()]

    def _negative(self) -> Iterator[Problem]:
        for part in ("loop", "repeat", "budget"):
            group = getattr(self, part)
            for name in group.__struct_fields__:
                value = getattr(group, name)
                if isinstance(value, int) and value < 0:
                    yield Problem(f"{part}.{name}", "must be 0 (off) or more")

    def _of_loop(self) -> Iterator[Problem]:
        if not 1 <= self.loop.period_max <= _PERIOD_MAX:
            yield Problem("loop.period_max", f"must be 1 to {_PERIOD_MAX}")
        for name in ("repeats_min", "repeats_changing_min"):
            if getattr(self.loop, name) == 1:
                yield Problem(
                    f"loop.{name}", "must be 0 (off) or at least 2: once is no repetition"
                )

    def _money(self) -> Iterator[Problem]:
        if self.budget.cost_usd_max and not _is_money(self.budget.cost_usd_max):
            yield Problem("budget.cost_usd_max", "must be an amount in US dollars, such as '2.50'")
        if self.budget.cost_usd_max and not self.budget.prices:
            yield Problem("budget.cost_usd_max", "needs budget.prices: no model has a price here")
        for index, price in enumerate(self.budget.prices):
            where = f"budget.prices.{index}"
            if not price.model.rstrip("*") and price.model != "*":
                yield Problem(f"{where}.model", "must name a model, or end in * for several")
            for name in ("input_usd", "output_usd"):
                if not _is_money(getattr(price, name)):
                    yield Problem(
                        f"{where}.{name}", "must be US dollars a million tokens, such as '2.50'"
                    )

    def _order(self) -> Iterator[Problem]:
        for index, rule in enumerate(self.order):
            if not rule.tool or not rule.after:
                yield Problem(f"order.{index}", "needs tool and after, two names of tools")
            elif rule.tool == rule.after:
                yield Problem(f"order.{index}.after", "must be another tool than tool")


def _is_money(text: str) -> bool:
    try:
        amount = Decimal(text)
    except InvalidOperation:
        return False
    return amount.is_finite() and 0 <= amount < 10**9
