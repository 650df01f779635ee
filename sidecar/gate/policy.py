"""What a gate is held to: margins, error rates, quarantine and who owns them (``gate.yaml``).

**Rules**
1. These records are the format: a key that is no field here is refused.
2. A policy may move a threshold, name an owner and make a rule graver; it cannot make one milder,
   nor take one away, nor add one that passes.
3. A quarantine has an owner and an end: a case never leaves the gate unseen, and never for good.
4. Numbers stay where the statistics mean something: within them no policy passes what it never saw.
"""

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct, structs

from sidecar.analyse.coverage.surface import SURFACES
from sidecar.canonical import digest
from sidecar.errors import Problem

QUARANTINE_DAYS_MAX: Final = 90
ALPHA: Final = (0.001, 0.2)
POWER: Final = (0.5, 0.999)
MARGIN_LEAST, MARGIN_MAX, GAP_LEAST = 0.0001, 0.2, 0.001
WEIGHT_MAX: Final = 1000
Metric = Literal["success", "safety"]


class Protected(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A metric no release may make worse: by at most ``margin`` of all episodes, shown.

    A rise of ``detect`` must be found with the policy's power; the episodes for it are printed.
    """

    metric: Metric
    margin: float = 0.02
    detect: float = 0.1
    owner: str = ""


class Quarantine(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A case that decides nothing through ``until`` (a date, UTC)."""

    case: str
    owner: str
    until: str
    reason: str = ""


class Held(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the policy says of one rule of the gate."""

    owner: str = ""
    threshold: float | None = None
    severity: Literal["block", "undecided", "warn"] | None = None


class Weights(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What each part of the composite counts; ``likeness`` is the share of unchanged behaviour."""

    success: float = 0.5
    safety: float = 0.3
    rubric: float = 0.2
    likeness: float = 0.0


class Composite(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Weights of the composite score, and below what it warns; it can do no more than that."""

    weights: Weights = Weights()
    warn_below: float = 0.0


class Floor(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How much the suite must try: in at least so many cases the candidate calls a tool."""

    tool: str
    cases: int = 1


class Noise(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an A/A run of a suite came to: how far a version lies from itself (``baseline.py``)."""

    suite_digest: str
    agent: str
    pairs: int
    differing: float
    differing_upper: float
    unigrams: float
    bigrams: float


class GatePolicy(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A whole ``gate.yaml``. ``alpha`` is the chance of all wrong statistical blocks together,
    ``surfaces`` the share of each surface of coverage that the suite must try, or it warns."""

    gate: str = "1"
    owner: str = ""
    alpha: float = 0.05
    power: float = 0.95
    runs: tuple[int, ...] = (3, 7)
    protected: tuple[Protected, ...] = (
        Protected(metric="success"),
        Protected(metric="safety", margin=0.01),
    )
    rules: dict[str, Held] = {}
    quarantine: tuple[Quarantine, ...] = ()
    composite: Composite = Composite()
    latency_ms: int = 0
    tokens: int = 0
    noise: Noise | None = None
    coverage: tuple[Floor, ...] = ()
    surfaces: dict[str, float] = {}

    def digest(self) -> str:
        """``sha256:<hex>`` of the policy."""
        return digest(exact(msgspec.to_builtins(self)), domain="agenttwin-gate-policy/1")


def policy_problems(
    policy: GatePolicy, severities: Mapping[str, str], today: str
) -> Iterator[Problem]:
    """What is wrong beyond the shape on ``today`` (a date, UTC); ``severities`` by rule id."""
    if policy.gate != "1":
        yield Problem("gate", f"{policy.gate!r} is no version of this format; it is 1")
    for name, (least, most) in (("alpha", ALPHA), ("power", POWER)):
        if not least <= getattr(policy, name) <= most:
            yield Problem(name, f"lies between {least} and {most}")
    for name in ("latency_ms", "tokens"):
        if getattr(policy, name) < 0:
            yield Problem(name, "is a budget, and not negative; 0 is none")
    if list(policy.runs) != sorted({*policy.runs}) or not all(1 < one < 100 for one in policy.runs):
        yield Problem("runs", "are rising numbers of runs, each from 2 to 99")
    yield from _protected_problems(policy.protected)
    for name, held in policy.rules.items():
        yield from _rule_problems(name, held, severities)
    for index, item in enumerate(policy.quarantine):
        yield from _quarantine_problems(f"quarantine.{index}", item, today)
        if any(one.case == item.case for one in policy.quarantine[:index]):
            yield Problem(f"quarantine.{index}.case", f"{item.case!r} stands twice")
    weights = structs.asdict(policy.composite.weights).values()
    if min(weights) < 0 or not sum(weights):
        yield Problem("composite.weights", "are not negative, and not all nothing")
    if max(weights) > WEIGHT_MAX:
        yield Problem("composite.weights", f"are {WEIGHT_MAX} at most")
    yield from _noise_problems(policy.noise)
    for index, floor in enumerate(policy.coverage):
        if not floor.tool:
            yield Problem(f"coverage.{index}.tool", "is empty: a floor is of a tool")
        if any(one.tool == floor.tool for one in policy.coverage[:index]):
            yield Problem(f"coverage.{index}.tool", f"{floor.tool!r} stands twice")
        if floor.cases < 1:
            yield Problem(
                f"coverage.{index}.cases", "is at least 1: a floor of nothing holds always"
            )
    for name, share in policy.surfaces.items():
        if name not in SURFACES:
            said = f"there is no surface {name!r}; known: {', '.join(SURFACES)}"
            yield Problem(f"surfaces.{name}", said)
        elif not 0 < share <= 1:
            yield Problem(f"surfaces.{name}", "is a share, above 0 and at most 1")


def _protected_problems(protected: Sequence[Protected]) -> Iterator[Problem]:
    if sorted(one.metric for one in protected) != ["safety", "success"]:
        yield Problem("protected", "names success and safety, each once")
    for index, one in enumerate(protected):
        place = f"protected.{index}"
        if one.margin and not MARGIN_LEAST <= one.margin <= MARGIN_MAX:
            yield Problem(f"{place}.margin", f"is 0, or {MARGIN_LEAST} to {MARGIN_MAX}")
        if not one.margin + GAP_LEAST <= one.detect <= 1:
            yield Problem(place, f"needs margin < detect <= 1, {GAP_LEAST} apart at least")


def _noise_problems(noise: Noise | None) -> Iterator[Problem]:
    if noise is None:
        return
    if noise.pairs < 1:
        yield Problem("noise.pairs", "is at least 1: a run of nothing has no noise")
    for name in ("differing", "differing_upper", "unigrams", "bigrams"):
        if not 0 <= getattr(noise, name) <= 1:
            yield Problem(f"noise.{name}", "is a share, from 0 to 1")


def day_of(now_ns: int) -> str:
    """The date of an instant, UTC."""
    return dt.datetime.fromtimestamp(now_ns // 1_000_000_000, dt.UTC).date().isoformat()


def in_force(policy: GatePolicy, today: str) -> dict[str, bool]:
    """Quarantined cases, and whether the quarantine still holds on ``today`` (a date, UTC)."""
    return {one.case: today <= one.until for one in policy.quarantine}


_GRAVE: Final = ("info", "warn", "undecided", "block")


def _rule_problems(name: str, held: Held, severities: Mapping[str, str]) -> Iterator[Problem]:
    place = f"rules.{name}"
    if name not in severities:
        yield Problem(place, f"there is no rule {name!r}")
    elif held.severity and _GRAVE.index(held.severity) < _GRAVE.index(severities[name]):
        yield Problem(f"{place}.severity", f"may not be milder than {severities[name]}")
    elif held.threshold is not None and name not in MOVABLE:
        yield Problem(f"{place}.threshold", f"is fixed; those of {', '.join(MOVABLE)} can move")
    elif held.threshold is not None and not 0 <= held.threshold <= 1:
        yield Problem(f"{place}.threshold", "lies between 0 and 1")


MOVABLE: Final = ("novel_failures", "rubric_low")


def _quarantine_problems(place: str, item: Quarantine, today: str) -> Iterator[Problem]:
    if not item.owner.strip():
        yield Problem(f"{place}.owner", "is empty: a quarantine belongs to somebody")
    try:
        until = dt.date.fromisoformat(item.until)
        if until.isoformat() != item.until:
            raise ValueError
    except ValueError:
        yield Problem(f"{place}.until", f"{item.until!r} is no date such as 2026-12-31")
        return
    if (until - dt.date.fromisoformat(today)).days > QUARANTINE_DAYS_MAX:
        yield Problem(
            f"{place}.until", f"is more than {QUARANTINE_DAYS_MAX} days after today, {today}"
        )


def exact(value: Any) -> Any:
    """Fractions as their shortest text, so that every reader's digest is the same."""
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, dict):
        return {name: exact(one) for name, one in value.items()}
    return [exact(one) for one in value] if isinstance(value, list | tuple) else value
