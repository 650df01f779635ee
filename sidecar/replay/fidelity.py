"""How true a twin is to recorded traffic: results path by path, and whether a verdict hangs on it.

Rules
1. Results are compared as JSON where both are, else as text. ``exact`` is equal values,
   ``semantic`` equal but for the order of lists and for numbers written as text, ``schema`` the
   same members with values of the same types.
2. A difference is named by its JSON pointer, ``*`` for a place in a list; a member that went while
   its value came back beside it was renamed.
3. A difference changes verdicts when a run that has it ended otherwise than recorded; else it is
   verdict-neutral. A run that could not be judged, here or there, tells nothing of verdicts.
4. More than 5 % of a tool's results differing asks for a new twin; a changed verdict warns.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

import msgspec
from msgspec import Struct

from sidecar.evaluate.matching import same
from sidecar.replay.onto_twin import Answered, RunOnTwin

Match = Literal["exact", "semantic", "schema", "differs"]
MISMATCH_MAX = 0.05
_VERDICTS = ("verified_success", "verified_failure")
_NUMBER = re.compile(r"-?\d+(\.\d+)?\Z")


class PathDrift(Struct, frozen=True, kw_only=True):
    """One difference: its JSON pointer where it was recorded and where the twin has it (None where
    that side has none), in how many results, and whether verdicts hang on it."""

    recorded: str | None
    twin: str | None
    results: int
    verdict: Literal["neutral", "changing"]

    @property
    def place(self) -> str:
        """Where it is, in words."""
        if self.recorded == self.twin:
            return f"{self.recorded} has another value"
        if self.recorded is None:
            return f"{self.twin} is on the twin only"
        if self.twin is None:
            return f"{self.recorded} was recorded only"
        return f"{self.twin} against recorded {self.recorded}"


class ToolFidelity(Struct, frozen=True, kw_only=True):
    """One tool: its recorded results by how they match, the differences, and its errors.

    ``gaps``: calls beside those results that the twin could not answer.
    """

    tool: str
    results: int
    matches: dict[str, int]
    drift: tuple[PathDrift, ...]
    errors_recorded: int
    errors_twin: int
    policy: Literal["ok", "ticket", "warn"]
    gaps: int = 0


class Fidelity(Struct, frozen=True, kw_only=True):
    """All tools, and on how many of the runs with a recorded verdict the twin comes to the same.

    ``uncompared``: results that were not kept, of tools no twin has, after a call whose effects the
    twin could not play, or that gave the twin what it answers.
    """

    tools: tuple[ToolFidelity, ...]
    verdicts_compared: int
    verdicts_agreeing: int
    uncompared: int


def fidelity(runs: Iterable[RunOnTwin]) -> Fidelity:
    """The report over replayed runs."""
    tallies: dict[str, _Tally] = {}
    compared = agreeing = uncompared = 0
    for run in runs:
        judged = run.run.verified in _VERDICTS and run.verified in _VERDICTS
        agrees = run.run.verified == run.verified
        compared += judged
        agreeing += judged and agrees
        for one in run.answers:
            if _is_uncompared(one):
                uncompared += 1
                continue
            tally = tallies.setdefault(one.call.tool, _Tally())
            if one.gap:
                tally.gaps += 1
            else:
                tally.add(one, changing=judged and not agrees)
    return Fidelity(
        tools=tuple(tallies[name].told(name) for name in sorted(tallies)),
        verdicts_compared=compared,
        verdicts_agreeing=agreeing,
        uncompared=uncompared,
    )


def matched(recorded: Any, answered: Any) -> tuple[Match, frozenset[tuple[str | None, str | None]]]:
    """How two results match, and the differing places as (recorded, twin)."""
    recorded = _read(recorded, answered)
    if same(recorded, answered):
        return "exact", frozenset()
    places = frozenset(differences(recorded, answered))
    if same(_loose(recorded), _loose(answered)):
        return "semantic", places
    return ("schema" if _shape(recorded) == _shape(answered) else "differs"), places


def differences(
    recorded: Any, answered: Any, at: str = ""
) -> Iterator[tuple[str | None, str | None]]:
    """The places that differ; None on the side that has no such member."""
    if isinstance(recorded, Mapping) and isinstance(answered, Mapping):
        yield from _of_members(recorded, answered, at)
    elif isinstance(recorded, list) and isinstance(answered, list):
        for left, right in zip(recorded, answered, strict=False):
            yield from differences(left, right, f"{at}/*")
        if len(recorded) > len(answered):
            yield f"{at}/*", None
        elif len(recorded) < len(answered):
            yield None, f"{at}/*"
    elif not same(recorded, answered):
        yield at or "/", at or "/"


class _Tally:
    def __init__(self) -> None:
        self.matches: Counter[str] = Counter()
        self.drift: Counter[tuple[str | None, str | None]] = Counter()
        self.changing: set[tuple[str | None, str | None]] = set()
        self.errors = [0, 0]
        self.gaps = 0

    def add(self, one: Answered, *, changing: bool) -> None:
        match, places = matched(one.recorded, one.value)
        self.matches[match] += 1
        self.drift.update(places)
        if changing:
            self.changing |= places
        self.errors[0] += _is_error(one)
        self.errors[1] += one.status is None or one.status >= 400

    def told(self, tool: str) -> ToolFidelity:
        results = self.matches.total()
        off = results - self.matches["exact"]
        policy: Literal["ok", "ticket", "warn"] = "ticket" if off > MISMATCH_MAX * results else "ok"
        return ToolFidelity(
            tool=tool,
            results=results,
            matches={
                name: self.matches[name] for name in ("exact", "semantic", "schema", "differs")
            },
            drift=tuple(
                PathDrift(
                    recorded=place[0],
                    twin=place[1],
                    results=count,
                    verdict="changing" if place in self.changing else "neutral",
                )
                for place, count in sorted(self.drift.items(), key=lambda one: (-one[1], str(one)))
            ),
            errors_recorded=self.errors[0],
            errors_twin=self.errors[1],
            policy="warn" if self.changing else policy,
            gaps=self.gaps,
        )


def _is_uncompared(one: Answered) -> bool:
    if one.gap and one.known and one.call.result is not None:
        return False
    return not one.known or one.call.result is None or one.after_gap or one.given


def _is_error(one: Answered) -> bool:
    recorded = one.call.result
    said = isinstance(recorded, str) and recorded.startswith("Error")
    return said or one.call.ended == "refused"


def _of_members(
    recorded: Mapping[str, Any], answered: Mapping[str, Any], at: str
) -> Iterator[tuple[str | None, str | None]]:
    gone = [name for name in recorded if name not in answered]
    come = [name for name in answered if name not in recorded]
    for name in gone:
        other = next((one for one in come if same(recorded[name], answered[one])), None)
        if other is not None:
            come.remove(other)
        yield _under(at, name), None if other is None else _under(at, other)
    for name in come:
        yield None, _under(at, name)
    for name in recorded:
        if name in answered:
            yield from differences(recorded[name], answered[name], _under(at, name))


def _under(at: str, name: str) -> str:
    return f"{at}/{name.replace('~', '~0').replace('/', '~1')}"


def _read(recorded: Any, answered: Any) -> Any:
    """A recorded text as JSON, where the twin's answer is no text."""
    if not isinstance(recorded, str) or isinstance(answered, str):
        return recorded
    try:
        return msgspec.json.decode(recorded)
    except (msgspec.DecodeError, RecursionError):
        return recorded


def _loose(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _loose(item) for name, item in value.items()}
    if isinstance(value, list):
        return sorted(map(_loose, value), key=lambda one: msgspec.json.encode(one, order="sorted"))
    if isinstance(value, str) and _NUMBER.match(value):
        return float(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    return value


def _shape(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _shape(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_shape(value[0])] if value else []
    if isinstance(value, bool) or value is None:
        return str(type(value))
    return "number" if isinstance(value, int | float) else "text"
