"""The judge of ``semantic`` expectations (key ``judge``): who it is and what it may spend; and the
model behind synthetic users (key ``synthetic_users``).

Rules
1. ``fake`` unless configured: it needs no network, reads nothing, and is decided by marks alone.
2. A budget in money needs prices: a cost nobody can tell is not within any budget.
"""

from decimal import Decimal, InvalidOperation
from typing import Literal

from msgspec import Struct

from processors.value import TIMEOUT_LEAST_NS, duration_ns
from sidecar.egress.rules import Target, TargetRefused, read_target
from sidecar.errors import Problem

_URLS = {"anthropic": "https://api.anthropic.com", "openai": "https://api.openai.com/v1"}


class Budget(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one command may ask: ``calls``, and ``usd`` as decimal text (empty: not bounded)."""

    calls: int = 200
    usd: str = ""


class Prices(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """US dollars for a million tokens, as decimal text."""

    input: str = ""
    output: str = ""


class Endpoint(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A language model: ``type`` is the wire, ``url`` the API's base (default: the provider's)."""

    type: Literal["fake", "anthropic", "openai"] = "fake"
    url: str = ""
    model: str = ""
    credential_file: str = ""
    allow_cidrs: tuple[str, ...] = ()
    deadline: str = "60s"
    tokens_max: int = 1024

    @property
    def target(self) -> Target:
        """Where it is, for egress."""
        url = self.url or _URLS.get(self.type, "")
        return Target(name="model", url=url, allow_cidrs=self.allow_cidrs)

    @property
    def deadline_ns(self) -> int:
        """``deadline`` in nanoseconds."""
        return duration_ns(self.deadline)

    def problems(self) -> list[Problem]:
        """What is wrong with the values."""
        found = []
        if self.tokens_max < 1:
            found.append(Problem("tokens_max", "must be at least 1"))
        try:
            duration_ns(self.deadline, least_ns=TIMEOUT_LEAST_NS)
        except ValueError as error:
            found.append(Problem("deadline", str(error)))
        if self.type == "fake":
            return found
        try:
            read_target(self.target)
        except TargetRefused as error:
            found.append(Problem("url", str(error)))
        if not self.model:
            found.append(Problem("model", "is missing"))
        return found


class SyntheticUsers(Endpoint, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The model behind users of type ``model``; ``calls_max`` bounds one command. Off as ``fake``:
    only scripted users then."""

    calls_max: int = 500


class Judge(Endpoint, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``cache`` is a folder, ``calibration`` the file that ``scenario calibrate`` writes."""

    budget: Budget = Budget()
    prices: Prices = Prices()
    cache: str = ""
    calibration: str = ""

    def problems(self) -> list[Problem]:
        """What is wrong with the values."""
        found = super().problems() + [
            Problem(path, f"{text!r} is no amount of dollars")
            for path, text in (
                ("budget.usd", self.budget.usd),
                ("prices.input", self.prices.input),
                ("prices.output", self.prices.output),
            )
            if text and dollars(text) is None
        ]
        if self.budget.usd and not (self.prices.input and self.prices.output):
            found.append(Problem("prices", "are missing: budget.usd cannot be kept without"))
        if self.budget.calls < 0:
            found.append(Problem("budget.calls", "must not be negative"))
        return found


def dollars(text: str) -> Decimal | None:
    """An amount, or None where the text is none."""
    try:
        amount = Decimal(text)
    except InvalidOperation:
        return None
    return amount if amount.is_finite() and amount >= 0 else None
