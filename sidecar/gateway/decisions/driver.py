"""A decision log put to another engine, line by line.

**Rules**
1. One question at a time, each once. What the other engine does not answer is counted, and is
   neither the same nor different.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from msgspec import Struct

from sidecar.gateway.decisions.again import Differs, Logged, difference, read_line
from sidecar.gateway.policy.result import PolicyAnswer

DIFFERS_MAX = 100

Ask = Callable[[dict[str, Any]], Awaitable[PolicyAnswer]]


class Compared(Struct, frozen=True, kw_only=True):
    """What came of it: ``compared`` of which ``differing``; ``differs`` are the first of those.
    ``skipped`` by why; ``unanswered``: asked, and not answered; ``revisions``: that decided in the
    log, and that answers."""

    compared: int
    differing: int
    differs: tuple[Differs, ...]
    unanswered: int
    skipped: dict[str, int]
    revisions: tuple[str, ...]


async def compare(lines: Iterable[str | bytes], ask: Ask, *, limit: int | None = None) -> Compared:
    """The first ``limit`` questions of a log, put to another engine."""
    skipped: Counter[str] = Counter()
    compared = differing = unanswered = 0
    differs: list[Differs] = []
    revisions: dict[str, None] = {}
    for line in lines:
        if limit is not None and compared + unanswered >= limit:
            break
        logged = read_line(line)
        if not isinstance(logged, Logged):
            skipped[logged] += 1
            continue
        answer = await ask(logged.document)
        revisions |= {logged.revision: None, answer.revision: None}
        if answer.error is not None and logged.result is not None:
            unanswered += 1
            continue
        compared += 1
        found = difference(logged, answer)
        if found is not None:
            differing += 1
            differs += [found] if len(differs) < DIFFERS_MAX else []
    return Compared(
        compared=compared,
        differing=differing,
        differs=tuple(differs),
        unanswered=unanswered,
        skipped=dict(skipped),
        revisions=tuple(each for each in revisions if each),
    )
