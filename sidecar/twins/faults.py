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
from collections.abc import Sequence
from typing import Any

from msgspec import Struct, structs

from sidecar.evaluate.matching import matches
from sidecar.twins.declaration import Fault, When

_SCALE = 2**64


class Strike(Struct, frozen=True, kw_only=True):
    """The call a rule may strike: ``number`` counts the calls of the tool from 1."""

    tool: str
    number: int
    arguments: dict[str, Any]


def named(faults: Sequence[Fault], *, prefix: str = "") -> tuple[Fault, ...]:
    """The rules with ids: ``<fault>:<tool>``, with ``#2`` and so on for repetitions in order.

    ``prefix`` keeps a twin's own rules apart from a scenario's.
    """
    seen: Counter[str] = Counter()
    result = []
    for fault in faults:
        name = fault.id
        if not name:
            plain = f"{prefix}{fault.fault}:{fault.tool}"
            seen[plain] += 1
            name = plain if seen[plain] == 1 else f"{plain}#{seen[plain]}"
        result.append(structs.replace(fault, id=name))
    return tuple(result)


def fired(faults: Sequence[Fault], strike: Strike, *, seed: int) -> Fault | None:
    """The first rule of ``named`` faults that strikes this call."""
    for fault in faults:
        if fault.tool in ("*", strike.tool) and _active(fault, strike, seed):
            return fault
    return None


def draw(seed: int, rule: str, tool: str, number: int) -> float:
    """A number in [0, 1) that depends on these four and nothing else."""
    message = f"{rule}|{tool}|{number}".encode()
    mac = hmac.digest(str(seed).encode(), message, "sha256")
    return int.from_bytes(mac[:8], "big") / _SCALE


def _active(fault: Fault, strike: Strike, seed: int) -> bool:
    when = fault.when
    return (
        _counted(when, strike.number)
        and (when.args_match is None or matches(strike.arguments, when.args_match))
        and (
            when.probability is None
            or draw(seed, fault.id, strike.tool, strike.number) < when.probability
        )
    )


def _counted(when: When, number: int) -> bool:
    return (
        (when.call_number is None or number == when.call_number)
        and (when.call_numbers is None or number in when.call_numbers)
        and (when.first_n is None or number <= when.first_n)
    )
