"""What detectors are told: thresholds, and what a project's policy says, with defaults.

Rules
1. The defaults raise nothing on a run that does what it should; docs/specs/detectors.md has each.
2. A threshold of 0 is off. Money is a decimal text in US dollars, never a binary float.
3. What no default can know (approvals, order, prices) is empty, and its detector silent.
"""

from msgspec import Struct

REPEATS_LEAST = 2


class LoopLimits(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When repetition is a loop: a cycle of up to ``period_max`` calls, so many times in a row.

    ``repeats_min`` counts where every round brings the same results; ``repeats_changing_min`` where
    results change, are unknown or are errors.
    """

    period_max: int = 8
    repeats_min: int = 4
    repeats_changing_min: int = 6


class RepeatLimits(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How often one call may be made with equal arguments and equal results.

    ``reads_max`` holds for calls without effect while nothing else happened in between.
    """

    reads_max: int = 3


class Price(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a model's tokens cost, in US dollars a million; ``model`` may end in ``*``."""

    model: str
    input_usd: str
    output_usd: str


class Budget(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one run may use; 0 and an empty cost are no limit."""

    tokens_max: int = 1_000_000
    model_calls_max: int = 200
    tool_calls_max: int = 500
    seconds_max: int = 0
    tokens_per_minute_max: int = 0
    cost_usd_max: str = ""
    prices: tuple[Price, ...] = ()


class Order(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``tool`` may run only after ``after`` has succeeded; with equal values of ``same``."""

    tool: str
    after: str
    same: tuple[str, ...] = ()


class Approvals(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Tools that need an approved decision of the gateway whatever a policy says."""

    tools: tuple[str, ...] = ()


class Injection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whose results are no stranger's words: ``trusted_tools``, beside those that ask the user.

    ``trusted_values``: destinations that any text may name, e.g. ``@example.com`` or a whole
    address; a leading ``@`` or ``.`` stands for a domain and what is below it.
    """

    trusted_tools: tuple[str, ...] = ()
    trusted_values: tuple[str, ...] = ()


class Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All that detectors need beside a trace and the registry."""

    loop: LoopLimits = LoopLimits()
    repeat: RepeatLimits = RepeatLimits()
    budget: Budget = Budget()
    approvals: Approvals = Approvals()
    order: tuple[Order, ...] = ()
    injection: Injection = Injection()


DEFAULTS = Settings()
