"""The order of the steps of a run: causes before effects, then by start, then by id.

Rules
1. A parent comes before its child, a request before its execution, an execution before the input
   that shows its result.
2. Among steps that nothing orders, the earlier start, then the smaller id. A ring is broken at its
   earliest.
"""

import heapq
from collections import defaultdict
from collections.abc import Iterable, Iterator

from processors.model.step import Step


def ordered(steps: Iterable[Step], edges: Iterable[tuple[str, str]]) -> tuple[Step, ...]:
    """The steps in order; ``edges``: further pairs of step ids (cause, effect)."""
    by_id = {step.step_id: step for step in steps}
    pairs = [*_own_edges(by_id), *edges]
    by_start = sorted(by_id.values(), key=_place)
    number = {step.step_id: place for place, step in enumerate(by_start)}
    if all(number.get(cause, -1) < number.get(effect, len(number)) for cause, effect in pairs):
        return tuple(by_start)  # the usual case: who is the cause has started first
    after: dict[str, list[str]] = defaultdict(list)
    waits: dict[str, int] = dict.fromkeys(by_id, 0)
    for cause, effect in set(pairs):
        if cause in by_id and effect in by_id and cause != effect:
            after[cause].append(effect)
            waits[effect] += 1
    ready = [_place(by_id[key]) for key, count in waits.items() if count == 0]
    heapq.heapify(ready)
    late: Iterator[tuple[int, str]] | None = None  # only rings need it
    done: dict[str, Step] = {}
    while len(done) < len(by_id):
        if ready:
            key = heapq.heappop(ready)[1]
        else:
            late = late or iter(sorted(_place(step) for step in by_id.values()))
            key = next(key for _, key in late if key not in done)
        if key in done:
            continue
        done[key] = by_id[key]
        for effect in after[key]:
            waits[effect] -= 1
            if waits[effect] == 0 and effect not in done:
                heapq.heappush(ready, _place(by_id[effect]))
    return tuple(done.values())


def _place(step: Step) -> tuple[int, str]:
    return step.start_ns, step.step_id


def _own_edges(by_id: dict[str, Step]) -> Iterable[tuple[str, str]]:
    for step in by_id.values():
        if step.parent_step_id:
            yield step.parent_step_id, step.step_id
        if step.tool and step.tool.requested_by:
            yield step.tool.requested_by, step.step_id
