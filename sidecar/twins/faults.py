"""Which fault strikes which call: activation and the seeded draw.

Rules
1. A rule fires when all its conditions hold; the first that fires wins.
2. The draw is HMAC-SHA-256(seed, ``rule id|tool|call number``): it depends on nothing else, so
   adding a rule never shifts another, and order or concurrency never shifts a draw.
3. A rule that does not fire leaves no mark: ``probability: 0`` is byte for byte the same as no
   rule.
"""

import hmac
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct, structs

from processors.model.twin import TwinEvent
from sidecar.errors import Problem
from sidecar.evaluate.matching import matches
from sidecar.twins.rules import After, Fault, When, plain
from sidecar.twins.value import Lean, Scope, condition

_SCALE = 2**64
_VARIABLES = frozenset({"arguments", "call", "flags", "now"})
_HAPPENED = frozenset({"answered", "unanswered"})


class Strike(Struct, frozen=True, kw_only=True):
    """The call a rule may strike: ``number`` counts the calls of the tool from 1, ``events`` are
    what the twins recorded before it, and ``holds`` says whether a condition over the world does.
    """

    tool: str
    number: int
    arguments: Mapping[str, Any]
    events: Sequence[TwinEvent] = ()
    holds: Callable[[Lean], bool] | None = None


class Rule(Struct, frozen=True, kw_only=True):
    """A fault rule ready to be asked: by the name it has here, with an id and its condition."""

    fault: Fault
    during: Lean | None = None

    @property
    def id(self) -> str:
        """What fired events name."""
        return self.fault.id

    @property
    def kind(self) -> str:
        """Which fault it is."""
        return self.fault.fault


def ready(faults: Sequence[Fault], *, prefix: str = "") -> tuple[Rule, ...]:
    """Rules without problems, ready to be asked; see ``named``."""
    return tuple(Rule(fault=one, during=_during(one.when)) for one in named(faults, prefix=prefix))


def named(faults: Sequence[Fault], *, prefix: str = "") -> tuple[Fault, ...]:
    """The rules with ids: ``<fault>:<tool>``, with ``#2`` and so on for repetitions in order.

    ``prefix`` keeps a twin's own rules apart from a scenario's.
    """
    seen: Counter[str] = Counter()
    result = []
    for fault in faults:
        name = fault.id
        if not name:
            written = f"{prefix}{fault.fault}:{fault.tool}"
            seen[written] += 1
            name = written if seen[written] == 1 else f"{written}#{seen[written]}"
        result.append(plain(structs.replace(fault, id=name)))
    return tuple(result)


def active(rule: Rule, strike: Strike, *, seed: int) -> bool:
    """Whether a rule's conditions hold for this call. Raises ExpressionFailed."""
    fault, when = rule.fault, rule.fault.when
    return (
        may_strike(fault, strike.tool, strike.number)
        and (when.args_match is None or matches(strike.arguments, when.args_match))
        and (when.after is None or _followed(when.after, strike.events))
        and (
            when.probability is None
            or draw(seed, fault.id, strike.tool, strike.number) < when.probability
        )
        and (rule.during is None or strike.holds is None or strike.holds(rule.during))
    )


def may_strike(fault: Fault, tool: str, number: int) -> bool:
    """Whether a rule with a probability could draw for this call, whatever else it asks for."""
    return fault.tool in ("*", tool) and _counted(fault.when, number)


def draw(seed: int, rule: str, tool: str, number: int) -> float:
    """A number in [0, 1) that depends on these four and nothing else."""
    message = f"{rule}|{tool}|{number}".encode()
    mac = hmac.digest(str(seed).encode(), message, "sha256")
    return int.from_bytes(mac[:8], "big") / _SCALE


def _during(when: When) -> Lean | None:
    if not when.while_:
        return None
    problems: list[Problem] = []
    scope = Scope(variables=_VARIABLES, entities=_Any())
    found = condition(when.while_, scope, "while", problems)
    assert found is not None and not problems, f"a rule that was not checked: {problems}"
    return found


class _Any(frozenset[str]):
    """Every name: which entities there are is known to the world alone, which says so."""

    def __contains__(self, _: object) -> bool:
        return True


def _counted(when: When, number: int) -> bool:
    return (
        (when.call_number is None or number == when.call_number)
        and (when.call_numbers is None or number in when.call_numbers)
        and (when.first_n is None or number <= when.first_n)
    )


def _followed(after: After, events: Sequence[TwinEvent]) -> bool:
    if after.rule:
        found = sum(event.rule == after.rule for event in events)
    else:
        kinds = {after.kind} if after.kind else _HAPPENED
        found = sum(event.kind in kinds and after.tool in ("*", event.tool) for event in events)
    return found >= after.times
