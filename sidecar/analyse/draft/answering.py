"""A tool that reads as a draft declares it, and the rows it answers from.

Rules
1. It answers what was recorded of what was asked, and refuses what was refused; anything else is a
   TwinGap.
2. What a call of the episode may have changed, and was never seen after such a call, is a TwinGap.
3. A tool that answered one question in two ways with nothing in between is no function of what is
   seen here: it is left out. So is one that nobody asked the same often enough to tell.
"""

from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import Any

from sidecar.analyse.draft import words
from sidecar.analyse.draft.history import History
from sidecar.analyse.draft.model import LeftOut, Rule, supported
from sidecar.analyse.draft.reads import Base, Known, Lookup
from sidecar.analyse.draft.seen import Seen, is_masked, spelled
from sidecar.analyse.draft.settled import Settled
from sidecar.analyse.draft.shapes import shape
from sidecar.analyse.draft.writes import nothing, settled_here
from sidecar.evaluate.matching import same

_FIXED_MIN = 5
_UNSTABLE_MAX = 0.05
_REFUSED_STATUS = 404


class Reading:
    """Drafts the tools that read; the rules and what was left out gather here."""

    def __init__(self, history: History, base: Base, settled: Settled, support: int) -> None:
        self._history, self._base, self._settled = history, base, settled
        self._fixed_min = max(_FIXED_MIN, support)
        self._needed = support
        self.rules: list[Rule] = []
        self.left_out: list[LeftOut] = []

    def drafted(
        self, tool: str, lookup: Lookup | None, unsettles: Collection[str]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """What the document says of the tool, and its entities."""
        some = [one for one in self._history.of(tool) if one.known]
        unstable = self._settled.unstable.get(tool, [])
        if not some or len(unstable) > _UNSTABLE_MAX * len(some):
            why = (
                "one question was answered in two ways with nothing in between"
                if some
                else "no answer of it was kept"
            )
            self._leave(tool, "everything", why, some, unstable)
            return nothing(why), {}
        self._doubts(tool)
        fixed = self._fixed(tool, some)
        if fixed is not None:
            return fixed
        if lookup is not None:
            return self._rows(lookup, unsettles)
        return self._answers(tool, unsettles)

    def _fixed(
        self, tool: str, some: Sequence[Seen]
    ) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """A tool that answers the same whatever it is asked."""
        asked = {one.asked for one in some}
        answers = [one.answer for one in some]
        good = all(one.ended == "ok" for one in some) and len({one.status for one in some}) == 1
        if len(asked) < self._fixed_min or not good:
            return None
        if not words.is_plain(answers[0]) or not all(same(answers[0], one) for one in answers):
            return None
        self._tell(tool, "answers the same whatever it is asked", some)
        told = {
            "arguments": _schema(some),
            "response": {"status": some[0].status or 200, "body": words.constant(answers[0])},
        }
        return told, {}

    def _rows(
        self, lookup: Lookup, unsettles: Collection[str]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """A tool that looks a thing up."""
        tool, entity = lookup.tool, lookup.entity
        known = self._base.of(tool)
        good = [one for one in known if one.answer.ended == "ok"]
        key = words.path("arguments", [lookup.argument])
        checks, refused = self._refusing(tool, known, key)
        checks.append({"require": "found != null", "gap": f"no row of {entity} by that name"})
        if entity in unsettles:
            checks[:0] = settled_here(entity, [key])
        status = {one.answer.status for one in good}
        if len(status) > 1:
            self._leave(tool, "everything", "it answers with several statuses", [], [])
            return nothing("it answers with several statuses"), {}
        rows = [
            lookup.row(one.asked.arguments[lookup.argument], lookup.record(one.answer.value))
            for one in good
        ]
        record = "found.record" if lookup.whole else "found"
        told: dict[str, Any] = {
            "arguments": _schema([one for one in self._history.of(tool) if one.known]),
            "let": {"found": f"row({words.literal(entity)}, {key})"},
            "preconditions": checks,
            "response": {
                "status": next(iter(status), None) or 200,
                "body": {lookup.wrapper: record} if lookup.wrapper else record,
            },
            "observe": [{"entity": entity, "rows": self._observed(lookup)}],
        }
        for one, row in zip(good, rows, strict=True):
            says = f"row {row[lookup.key]}, as every run saw it at first"
            self.rules.append(
                Rule(part=f"entities.{entity}", says=says, support=self._support(one))
            )
        self._tell(tool, f"answers the row of {entity} that {lookup.argument} names", good)
        made = {"key": lookup.key, "schema": _row_schema(rows, lookup.key), "rows": rows}
        return told, {entity: made, **refused}

    def _observed(self, lookup: Lookup) -> Any:
        record = words.path("response", [lookup.wrapper]) if lookup.wrapper else "response"
        if not lookup.whole:
            return f"[{record}]"
        return [{lookup.key: words.path("arguments", [lookup.argument]), "record": record}]

    def _answers(
        self, tool: str, unsettles: Collection[str]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """A tool that is answered from what was asked before."""
        entity = words.table(f"asked_{tool}")
        known = self._base.of(tool)
        again = [call for one in known for call in one.of[1:]]
        if len(again) < self._needed:
            why = "too few questions were asked again and answered the same"
            self._leave(tool, "everything", why, again, [])
            return nothing(why), {}
        some = [one for one in self._history.of(tool) if one.known]
        names = sorted({name for one in some for name in one.arguments})
        always = [name for name in names if all(name in one.arguments for one in some)]
        parts = [words.argument(name, optional=name not in always) for name in names]
        key = f"[{', '.join(parts)}]"
        checks, refused = self._refusing(tool, known, key)
        checks.append({"require": "found != null", "gap": "this was never asked"})
        if entity in unsettles:
            checks[:0] = settled_here(entity, [])
        good = [one for one in known if one.answer.ended == "ok"]
        statuses = {one.answer.status for one in good}
        if len(statuses) > 1:
            self._leave(tool, "everything", "it answers with several statuses", [], [])
            return nothing("it answers with several statuses"), {}
        rows = [
            {"asked": [one.asked.arguments.get(name) for name in names], "body": one.answer.value}
            for one in good
        ]
        told: dict[str, Any] = {
            "arguments": _schema(some),
            "let": {"found": f"row({words.literal(entity)}, {key})"},
            "preconditions": checks,
            "response": {"status": next(iter(statuses), None) or 200, "body": "found.body"},
            "observe": [{"entity": entity, "rows": [{"asked": key, "body": "response"}]}],
        }
        for one in good:
            says = f"answer to {one.asked.asked}, as every run saw it at first"
            self.rules.append(
                Rule(part=f"entities.{entity}", says=says, support=self._support(one))
            )
        self._tell(tool, "answers what was asked before, word for word", good)
        return told, {entity: {"key": "asked", "rows": rows}, **refused}

    def _refusing(
        self, tool: str, known: Sequence[Known], key: str
    ) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """Checks that refuse what was refused, and their rows; one of each status."""
        groups: dict[int, list[Known]] = defaultdict(list)
        for one in known:
            if one.answer.ended == "refused":
                groups[one.answer.status or _REFUSED_STATUS].append(one)
        checks, entities = [], {}
        for status, group in sorted(groups.items()):
            entity = words.table(f"{tool}_{status}")
            asked = key if key.startswith("[") else f"[{key}]"
            place = f"row({words.literal(entity)}, {asked})"
            checks.append(
                {"require": f"{place} == null", "status": status, "body": f"{place}.body"}
            )
            names = sorted({name for one in known for name in one.asked.arguments})
            rows = [
                {
                    "asked": [one.asked.arguments.get(name) for name in names],
                    "body": one.answer.value,
                }
                for one in group
            ]
            entities[entity] = {"key": "asked", "rows": rows}
            self._tell(tool, f"refuses with {status} what it refused so", group)
        return checks, entities

    def _doubts(self, tool: str) -> None:
        for one in self._base.doubtful:
            if one.asked.tool == tool:
                kinds = {spelled([each.ended, each.answer]) for each in one.of}
                why = f"runs saw {len(kinds)} answers to it, with nothing before"
                self._leave(tool, f"what it answers to {one.asked.asked}", why, one.of, one.of[1:])

    def _support(self, one: Known) -> Any:
        return supported(len(one.of), 0, self._history.named(one.of))

    def _tell(self, part: str, says: str, some: Sequence[Known] | Sequence[Seen]) -> None:
        calls = [call for one in some for call in (one.of if isinstance(one, Known) else (one,))]
        support = supported(len(calls), 0, self._history.named(calls))
        self.rules.append(Rule(part=part, says=says, support=support))

    def _leave(
        self, part: str, what: str, why: str, some: Sequence[Seen], against: Sequence[Seen]
    ) -> None:
        support = supported(len(some), len(against), self._history.named([*against, *some]))
        self.left_out.append(LeftOut(part=part, what=what, why=why, support=support))


def _schema(some: Sequence[Seen]) -> dict[str, Any]:
    """Of the arguments: any name may be asked for, a gap tells whether it is known."""
    found = shape(
        [one.arguments for one in some], free={name for o in some for name in o.arguments}
    )
    return {"schema": found, "unknown": "gap"}


def _row_schema(rows: Sequence[dict[str, Any]], key: str) -> dict[str, Any]:
    found: dict[str, Any] = {"type": "object", "required": [key]}
    texts = [row[key] for row in rows]
    if rows and not any(map(is_masked, texts)):
        found["properties"] = {key: {"type": "string" if isinstance(texts[0], str) else "integer"}}
    return found
