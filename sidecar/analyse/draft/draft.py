"""A twin drafted from recorded runs: what they bear is declared, what they do not answers TwinGap.

Rules
1. The same runs give the same draft, byte for byte; the order in which they are given is no matter.
2. A rule stands on ``support`` observations at least and has none against it; otherwise it is left
   out, and told.
3. Nothing is made up: rows, fixed answers and refusals are what was recorded, redacted as recorded.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec

from sidecar.analyse.draft import words
from sidecar.analyse.draft.answering import Reading
from sidecar.analyse.draft.history import History, names_of
from sidecar.analyse.draft.model import (
    SUPPORT,
    Asked,
    Draft,
    LeftOut,
    Rule,
    nothing_known,
    supported,
)
from sidecar.analyse.draft.reads import Base, Lookup, lookups
from sidecar.analyse.draft.scenes import Link, links
from sidecar.analyse.draft.seen import seen, spelled
from sidecar.analyse.draft.settled import Settled
from sidecar.analyse.draft.writes import UNSETTLED, Writing, asks_of
from sidecar.replay.taped import TapedRun
from sidecar.twins.chance import learned
from sidecar.twins.timeline import text

_TIMEOUT_NS = 30_000_000_000  # what a tool has by default


def draft(
    runs: Sequence[TapedRun],
    *,
    name: str = "drafted",
    asked: Mapping[str, Asked] | None = None,
    support: int = SUPPORT,
) -> Draft:
    """The twin that recorded runs bear.

    ``asked`` is what a registry knows of tools: their class, match and upstream. A tool it does not
    know is matched by ``POST /tools/NAME``. Raises ValueError where the runs hold no call.
    """
    runs = sorted(runs, key=lambda one: (one.name, msgspec.json.encode(one.calls)))
    history = History(seen(runs), [one.name for one in runs], asked or nothing_known())
    if not history.tools():
        raise ValueError("the runs hold no call that reached a service")
    return _Drafting(history, name, asked or nothing_known(), support).made(runs)


class _Drafting:
    def __init__(
        self, history: History, name: str, asked: Mapping[str, Asked], support: int
    ) -> None:
        self._history, self._name, self._asked, self._support = history, name, asked, support
        self._finds = lookups(history)
        self._links = links(history, self._finds)
        linked = _linked(history, self._links)
        self._settled = Settled(history, Base(history), self._finds, linked)
        self._base = Base(history, self._settled.leaves_alone(support))
        self._rules: list[Rule] = []
        self._timed: list[Rule] = []
        self._left_out: list[LeftOut] = []

    def made(self, runs: Sequence[TapedRun]) -> Draft:
        """All of it: tools with effects first, since they say what reads must ask."""
        writes: dict[str, dict[str, Any]] = {}
        unsettles: set[str] = set()
        for tool in self._history.tools():
            if self._history.class_of(tool) != "read":
                writes[tool] = self._write(tool, unsettles)
        reads = Reading(self._history, self._base, self._settled, self._support)
        tools, entities = [], {}
        for tool in self._history.tools():
            told = writes.get(tool)
            if told is None:
                told, rows = reads.drafted(tool, self._finds.get(tool), unsettles)
                entities.update(rows)
            tools.append({**self._head(tool), **_asking(told, unsettles), **self._latency(tool)})
        if unsettles:
            entities[UNSETTLED] = {"key": "what"}
        claims: dict[str, Any] = {}
        if faithful := sorted(entities.keys() - {UNSETTLED}):
            claims["faithful"] = faithful
        if unsettles:
            claims["unfaithful"] = {UNSETTLED: "it says what is not known after a call"}
        newest = max((one.at_ns for one in runs), default=0)
        document = {
            "twin": self._name,
            "version": "1",
            **({"as_of": text(newest)} if newest else {}),
            **({"clock": {"start": text(newest)}} if newest else {}),
            **({"fidelity": claims} if claims else {}),
            "entities": {name: entities[name] for name in sorted(entities)},
            "tools": tools,
        }
        return Draft(
            document=document,
            rules=(*reads.rules, *self._rules, *self._timed),
            left_out=(*reads.left_out, *self._left_out),
            runs=len(runs),
            calls=sum(len(one.calls) for one in runs),
            as_of=text(newest) if newest else "",
        )

    def _write(self, tool: str, unsettles: set[str]) -> dict[str, Any]:
        own = [one for one in self._links if one.tool == tool]
        writing = Writing(
            self._history, self._base, self._settled, self._finds, own, tool, self._support
        )
        told = writing.drafted()
        self._rules += writing.rules
        self._left_out += writing.left_out
        if "response" in told:
            unsettles |= writing.unsettles
        else:
            self._rules = [one for one in self._rules if one.part != tool]
        return told

    def _latency(self, tool: str) -> dict[str, Any]:
        """How long its calls took, as quantiles of what was seen."""
        some = [
            one
            for one in self._history.of(tool)
            if one.took_ns is not None and one.ended != "unknown"
        ]
        if len(some) < self._support:
            return {}
        took_ns = [one.took_ns for one in some if one.took_ns is not None]
        spread = learned(took_ns)
        support = supported(len(some), 0, self._history.named(some))
        says = f"takes as long as it was seen to, {spread.quantiles[0]} to {spread.quantiles[-1]}"
        self._timed.append(Rule(part=tool, says=says, support=support))
        told: dict[str, Any] = {"latency": {"quantiles": list(spread.quantiles)}}
        if max(took_ns) >= _TIMEOUT_NS:  # the service answered, and so must the twin
            told["timeout"] = f"{max(took_ns) // 1_000_000_000 + 1}s"
        return told

    def _head(self, tool: str) -> dict[str, Any]:
        known = self._asked.get(tool, Asked())
        class_ = self._history.class_of(tool)
        head: dict[str, Any] = {
            "name": tool,
            "match": known.match or {"method": "POST", "path": f"/tools/{tool}"},
            "class": class_,
        }
        if known.upstream:
            head["upstream"] = known.upstream
        return head


def _asking(told: dict[str, Any], unsettles: Collection[str]) -> dict[str, Any]:
    """The tool without the checks of what no call leaves unknown."""
    checks = [
        one
        for one in told.get("preconditions", ())
        if (entity := asks_of(one)) is None or entity in unsettles
    ]
    kept = {key: value for key, value in told.items() if key != "preconditions" or checks}
    return {key: checks if key == "preconditions" else value for key, value in kept.items()}


def _linked(history: History, found: Sequence[Link]) -> dict[tuple[str, str], tuple[str, ...]]:
    """By tool and read, the arguments that name what the read asks for."""
    linked: dict[tuple[str, str], tuple[str, ...]] = {}
    tools = history.tools()
    for read in (one for one in tools if history.class_of(one) == "read"):
        asked = frozenset().union(*map(names_of, history.of(read)))
        for tool in (one for one in tools if history.class_of(one) != "read"):
            own = {one.argument for one in found if (one.tool, one.lookup.tool) == (tool, read)}
            for one in history.of(tool):
                own |= {name for name, value in one.arguments.items() if _is_name(value, asked)}
            if own:
                linked[tool, read] = tuple(sorted(own))
    return linked


def _is_name(value: Any, asked: frozenset[str]) -> bool:
    return isinstance(value, str | int) and spelled(value) in asked


__all__ = ["Asked", "Draft", "LeftOut", "Lookup", "Rule", "draft", "supported", "words"]
