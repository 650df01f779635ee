"""What telemetry saw of a run that its tape did not: whether the recorder had every seam it needs.

**Rules**
1. Model calls are counted, whatever they are called: telemetry names the model that answered, a
   tape the one that was asked. Tool calls and human input are counted by name.
2. A trace counts where the tape names it; where it names none, where it began while the tape ran.
3. What the tape has more of is no fault: telemetry samples, and sees no clock.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

from msgspec import Struct

from sidecar.replay.import_tape import Imported
from sidecar.tape.model import Event, Header, Seal
from sidecar.tape.moment import nanoseconds

_COUNTED = ("llm_call", "tool_call", "human_input")


class Seen(Struct, frozen=True, kw_only=True):
    """One kind of call: how often telemetry and the tape saw it. ``name`` is empty for models."""

    kind: str
    name: str
    telemetry: int
    tape: int

    @property
    def missing(self) -> int:
        """How many the tape did not see."""
        return max(0, self.telemetry - self.tape)


class Coverage(Struct, frozen=True, kw_only=True):
    """``seams``: the tape's events by seam. ``traces``: those that count; ``others``: those of
    another run. ``lost``: what the recorder itself says it could not keep."""

    seams: dict[str, int]
    calls: tuple[Seen, ...]
    traces: tuple[str, ...]
    others: int
    lost: dict[str, int]

    @property
    def missing(self) -> int:
        """How many calls the tape did not see."""
        return sum(one.missing for one in self.calls)


def coverage(
    header: Header, events: Iterable[Event], seal: Seal | None, traces: Iterable[Imported]
) -> Coverage:
    """A tape beside the traces of a capture."""
    seams: Counter[str] = Counter()
    on_tape: Counter[tuple[str, str]] = Counter()
    begun, last = nanoseconds(header.captured_at), 0
    for event in events:
        seams[event.seam or "none"] += 1
        last = max(last, *event.t.values(), 0)
        if event.kind in _COUNTED:
            on_tape[_call(event.kind, event.name)] += 1
    told: Counter[tuple[str, str]] = Counter()
    ours: list[str] = []
    others = 0
    for trace in traces:
        if not _is_of(header, trace.header, begun, begun + last):
            others += 1
            continue
        ours.append(trace.header.trace_ids[0])
        told.update(_call(one.kind, one.name) for one in trace.facts if one.kind in _COUNTED)
    return Coverage(
        seams=dict(sorted(seams.items())),
        calls=tuple(
            Seen(kind=key[0], name=key[1], telemetry=told[key], tape=on_tape[key])
            for key in sorted({*told, *on_tape})
        ),
        traces=tuple(sorted(ours)),
        others=others,
        lost=_lost(seal),
    )


def _call(kind: str, name: str) -> tuple[str, str]:
    return kind, "" if kind == "llm_call" else name


def _is_of(tape: Header, trace: Header, begun: int, ended: int) -> bool:
    if tape.trace_ids:
        return not {*tape.trace_ids}.isdisjoint(trace.trace_ids)
    return begun <= nanoseconds(trace.captured_at) <= ended


def _lost(seal: Seal | None) -> dict[str, int]:
    if seal is None:
        return {}
    counts: Mapping[str, int] = {
        "dropped": seal.counters.dropped,
        "truncated": seal.counters.truncated,
    }
    return {key: count for key, count in counts.items() if count}
