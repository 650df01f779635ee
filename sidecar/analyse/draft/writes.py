"""A tool with effects as a draft declares it: what it does to rows, answers and refuses.

Rules
1. A tool whose answer is not explained, or whose refusals are not told apart from what it accepts,
   answers TwinGap to everything.
2. A row whose change is not explained is not known after the call: reading it is a TwinGap, and so
   is whatever else was not seen often enough to stay as it was.
3. A call on a row that nobody saw is a TwinGap.
"""

import json
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from sidecar.analyse.draft import words
from sidecar.analyse.draft.effects import Change, change
from sidecar.analyse.draft.explain import Explained, Source, explained, scalars
from sidecar.analyse.draft.history import History
from sidecar.analyse.draft.minting import Minted, minted_in
from sidecar.analyse.draft.model import LeftOut, Rule, supported
from sidecar.analyse.draft.reads import Base, Lookup
from sidecar.analyse.draft.refusals import body_values, likenesses, reasons
from sidecar.analyse.draft.scenes import Link, Scene, scenes
from sidecar.analyse.draft.seen import Seen
from sidecar.analyse.draft.settled import Relation, Settled
from sidecar.analyse.draft.shapes import shape

UNSETTLED, EVERY = "unsettled", "*"
_RELATIONS: tuple[Relation, ...] = ("named", "related", "other")
_CALLS = {
    "named": "what its arguments name",
    "related": "what it is about",
    "other": "anything else",
}


class Writing:
    """Drafts one tool with effects; ``tool`` is what the document says of it.

    ``unsettles`` are the entities of which a call may leave rows unknown.
    """

    def __init__(
        self,
        history: History,
        base: Base,
        settled: Settled,
        finds: dict[str, Lookup],
        own: Sequence[Link],
        name: str,
        support: int,
    ) -> None:
        self._history, self._base, self._settled, self._finds = history, base, settled, finds
        self._links, self._name, self._support = own, name, support
        self.rules: list[Rule] = []
        self.left_out: list[LeftOut] = []
        self.unsettles: set[str] = set()
        self._scenes = {link: scenes(history, base, link) for link in own}
        calls = [one for one in history.of(name) if one.known]
        self._good = [one for one in calls if one.ended == "ok"]
        self._bad = [one for one in calls if one.ended == "refused"]
        self._let: dict[str, Any] = {}
        self._first: list[dict[str, Any]] = []
        self._refusals: list[dict[str, Any]] = []
        self._last: list[dict[str, Any]] = []
        self._effects: list[dict[str, Any]] = []
        self._mints: list[Minted] = []
        self._told_of: dict[str, str] = {}  # of an entity, the row that is known after the call

    def drafted(self) -> dict[str, Any]:
        """The tool but for its name, class and place."""
        why = self._hopeless()
        if why is None:
            changes = [(link, *self._changed(link)) for link in self._links]
            answer = self._answer(changes)
            why = self._refused() if answer is not None else "nothing explains what it answers"
            if answer is not None and why is None:
                return self._told(answer, changes)
        self._leave("everything", why or "", self._good + self._bad, self._bad)
        return nothing(why or "")

    # -- what it does --

    def _hopeless(self) -> str | None:
        if len(self._good) < self._support:
            return f"it went through {len(self._good)} times, which is too little support"
        if len({one.status for one in self._good}) > 1:
            return "it went through with several statuses"
        if self._links and len(self._around(self._good)[2]) < self._support:
            return "of the calls that went through too few are on rows that were seen"
        return None

    def _changed(self, link: Link) -> tuple[Change | None, list[Scene]]:
        whole = [
            one for one in self._scenes[link] if one.before is not None and one.after is not None
        ]
        if len(whole) < self._support:
            return None, whole
        found, missing = change(whole, self._arguments([one.call for one in whole]), _row(link))
        what = f"a row of {link.lookup.entity} that {link.argument} names"
        calls = [one.call for one in whole]
        if found is None:
            self._leave(what, f"nothing explains {', '.join(missing)}", calls, calls)
            return None, whole
        self._tell(f"{what} {_says(found)}", calls)
        return found, whole

    def _effect(self, link: Link, found: Change | None, whole: Sequence[Scene]) -> None:
        entity, key = link.lookup.entity, words.path("arguments", [link.argument])
        if found is None:
            if len(whole) < self._support:
                what = f"a row of {entity} that {link.argument} names, after the call"
                self._leave(what, "it was seen too seldom", [one.call for one in whole], [])
            self._unsettle(entity, key)
            return
        self._told_of[entity] = key
        if found.nothing:
            return
        self._need(link)
        self._equal(found.equal)
        if found.set:
            values = {"record": found.set} if link.lookup.whole else found.set
            self._effects.append(
                {
                    "op": "merge" if link.lookup.whole else "set",
                    "entity": entity,
                    "key": key,
                    "values": values,
                }
            )
        for name, by in found.increments:
            self._effects.append(
                {"op": "increment", "entity": entity, "key": key, "field": name, "by": by}
            )
        for name, value in found.appends:
            self._effects.append(
                {"op": "append", "entity": entity, "key": key, "field": name, "value": value}
            )

    def _need(self, link: Link) -> None:
        """The row must be known when the tool is called."""
        entity, key = link.lookup.entity, words.path("arguments", [link.argument])
        name = _variable(link)
        if name in self._let:
            return
        self._let[name] = f"row({words.literal(entity)}, {key})"
        self._first.append(
            {"require": f"{name} != null", "gap": f"no row of {entity} by that {link.argument}"}
        )
        self._first += settled_here(entity, [key])

    def _others(self) -> None:
        """What is not known any more of all that was not linked by an argument."""
        for read in self._history.tools():
            if self._history.class_of(read) != "read":
                continue
            lookup = self._finds.get(read)
            entity = lookup.entity if lookup is not None else words.table(f"asked_{read}")
            for relation in _RELATIONS:
                if relation == "named" and lookup is not None:
                    continue  # told by before and after
                if not self._settled.is_possible(self._name, read, relation):
                    continue
                support = self._settled.support(self._name, read, relation)
                if support.n >= self._support and not support.against:
                    says = f"leaves alone what {read} answers of {_CALLS[relation]}"
                    self.rules.append(Rule(part=self._name, says=says, support=support))
                    continue
                why = "it was seen to change" if support.against else "it was seen too seldom"
                what = f"what {read} answers of {_CALLS[relation]}, after the call"
                self.left_out.append(LeftOut(part=self._name, what=what, why=why, support=support))
                self._unsettle_all(entity)
                break

    def _unsettle(self, entity: str, key: str, but: str | None = None) -> None:
        self.unsettles.add(entity)
        place = f"[{words.literal(entity)}, {key}]"
        effect = {
            "op": "insert",
            "entity": UNSETTLED,
            "values": {
                "what": [words.constant(entity), key],
                "by": words.constant(self._name),
                "but": but,
            },
            "when": f"row({words.literal(UNSETTLED)}, {place}) == null",
        }
        if effect not in self._effects:
            self._effects.append(effect)

    def _unsettle_all(self, entity: str) -> None:
        """Nothing of the entity is known after the call, but for the one row that it is told of."""
        links = [one for one in self._links if one.lookup.entity == entity]
        but = None
        if self._told_of.get(entity) and len(links) <= 1:
            but = self._told_of[entity]
            for link in links:
                self._need(link)  # it was known before, and so it is the only one that is known
        self._unsettle(entity, words.literal(EVERY), but)
        if but is None or not links:
            place = f"[{words.literal(entity)}, {words.literal(EVERY)}]"
            self._effects.append(
                {
                    "op": "set",
                    "entity": UNSETTLED,
                    "key": place,
                    "values": {"but": but},
                    "when": f"row({words.literal(UNSETTLED)}, {place}) != null",
                }
            )

    # -- what it answers --

    def _answer(self, changes: Sequence[tuple[Link, Change | None, list[Scene]]]) -> Any:
        for link, found, _ in changes:
            told = [one for one in self._scenes[link] if one.told]
            if found is not None and len(told) == len(self._good):
                self._tell(f"answers the row of {link.lookup.entity} as it is then", self._good)
                self._need(link)
                return _row(link, after=True)
        mints = minted_in(self._history, self._good)
        sources = self._arguments(self._good) + self._members(changes)
        used: list[Minted] = []

        def sought(at: tuple[str, ...], _: Sequence[Any]) -> Explained | None:
            one = next((one for one in mints if one.at == at), None)
            if one is None:
                return None
            used.append(one)
            return Explained(one.variable)

        whole = explained([one.answer for one in self._good], sources, sought)
        if whole is None:
            return None
        self._mints = list(dict.fromkeys(used))
        for one in self._mints:
            self._let[one.variable] = f"next_id({words.literal(one.prefix)})"
            self._tell(f"mints {'.'.join(one.at)}, a new name each time", self._good)
        self._tell("answers so", self._good)
        self._equal(whole.equal)
        for link in self._links:
            if _variable(link) in repr(whole):
                self._need(link)
        return whole.template

    def _members(self, changes: Sequence[tuple[Link, Change | None, list[Scene]]]) -> list[Source]:
        """The scalars of the named rows, where every call that went through has such a row."""
        found: list[Source] = []
        for link, _, _ in changes:
            of = {(one.call.run, one.call.at): one for one in self._scenes[link]}
            places = [of.get((one.run, one.at)) for one in self._good]
            befores = [one.before for one in places if one is not None and one.before is not None]
            if len(befores) == len(self._good):
                found += scalars(befores, _row(link))
        return found

    # -- when it refuses --

    def _refused(self) -> str | None:
        """Draft the refusals; why that cannot be done."""
        groups: dict[tuple[int | None, str], list[Seen]] = defaultdict(list)
        for one in self._bad:
            groups[one.status, repr(one.answer)].append(one)
        for (status, _), group in sorted(groups.items(), key=lambda one: str(one[0])):
            why = self._refusal(status, group)
            if why is not None:
                return why
        return None

    def _refusal(self, status: int | None, group: Sequence[Seen]) -> str | None:
        calls = [*self._good, *group]
        sources, members, inside = self._around(calls)
        flags = [one.ended == "refused" for one in inside]
        some = [one for one in inside if one.ended == "refused"]
        if not some:
            return None  # only on rows that nobody saw: a TwinGap anyway
        if len(some) < self._support or not body_values([one.answer for one in group]):
            return "it refused calls too seldom to tell why"
        if len(inside) - len(some) < self._support:
            return "of the calls it accepted too few are on rows that are known"
        found = reasons(sources, members, flags)
        if not found:
            return "nothing tells the calls it refused from those it accepted"
        body = explained([one.answer for one in some], sources)
        if body is None:
            return "nothing explains what it answers when it refuses"
        accepts = " && ".join(f"({one.accepts})" for one in found)
        refuses = " && ".join(f"({one.refuses})" for one in found)
        for link in self._links:
            if _variable(link) in accepts:
                self._need(link)
        both = f"({accepts}) || ({refuses})"
        self._refusals += [
            {"require": both, "gap": "whether it refuses this was never seen"},
            {"require": accepts, "status": status or 409, "body": body.template},
        ]
        self._tell(f"refuses with {status or 'an error'} unless {accepts}", some)
        return None

    def _unlike(self) -> None:
        """A call that is unlike all that were accepted is a gap."""
        sources, members, inside = self._around(self._good)
        if not inside:
            return
        held = likenesses(sources, members)
        for text in held:
            if text not in [one["require"] for one in self._last]:
                gap = f"no call was accepted without {text}"
                self._last.append({"require": text, "gap": gap})
        for link in self._links:
            self._need(link)  # what a call does to a row that nobody saw is not known
        if held:
            self._tell(f"takes calls like those it took: {len(held)} things held in all", inside)

    def _around(self, calls: Sequence[Seen]) -> tuple[list[Source], list[Source], list[Seen]]:
        """Arguments and members of named rows over the calls whose rows are all known."""
        befores = []
        for link in self._links:
            of = {(one.call.run, one.call.at): one for one in self._scenes[link]}
            befores.append([of.get((one.run, one.at)) for one in calls])
        kept = [
            place
            for place in range(len(calls))
            if all((one := row[place]) is not None and one.before is not None for row in befores)
        ]
        inside = [calls[place] for place in kept]
        members: list[Source] = []
        for link, row in zip(self._links, befores, strict=True):
            records = [one.before for place in kept if (one := row[place]) and one.before]
            if records and len(records) == len(kept):
                members += scalars(records, _row(link))
        return self._arguments(inside), members, inside

    # -- all of it --

    def _told(
        self, answer: Any, changes: Sequence[tuple[Link, Change | None, list[Scene]]]
    ) -> dict[str, Any]:
        for link, found, whole in changes:
            self._effect(link, found, whole)
        self._inserted()
        self._unlike()
        self._others()
        free = {link.argument for link in self._links}
        free |= {
            name for one in self._good for name, value in one.arguments.items() if _free(value)
        }
        made: dict[str, Any] = {
            "arguments": {
                "schema": shape([one.arguments for one in self._good], free=free),
                "unknown": "gap",
            }
        }
        if self._let:
            made["let"] = self._let
        if checks := [*self._first, *self._refusals, *self._last]:
            made["preconditions"] = checks
        if self._effects:
            made["effects"] = self._effects
        made["response"] = {"status": self._good[0].status or 200, "body": answer}
        return made

    def _inserted(self) -> None:
        for one in self._mints:
            for lookup in self._finds.values():
                self._insert(one, lookup)

    def _insert(self, one: Minted, lookup: Lookup) -> None:
        """A row that a new name names, where it was looked up afterwards."""
        pairs = []
        for call in self._good:
            record = one.looked_up(self._history, call, lookup)
            if record is not None:
                pairs.append((call, record))
        if not pairs:
            return
        calls = [call for call, _ in pairs]
        name = Source(one.variable, tuple(one.value(call) for call in calls))
        records = [record for _, record in pairs]
        found = None
        if len(pairs) >= self._support:
            found = explained(records, [name, *self._arguments(calls)])
        what = f"a new row of {lookup.entity} by {'.'.join(one.at)}"
        if found is None or not isinstance(found.template, dict):
            few = len(pairs) < self._support
            why = "it was seen too seldom" if few else "nothing explains it"
            self._leave(what, why, calls, [] if few else calls)
            return
        self._tell(what, calls)
        self._equal(found.equal)
        row = lookup.row(one.variable, found.template)
        self._effects.append({"op": "insert", "entity": lookup.entity, "values": row})
        self._told_of.setdefault(lookup.entity, one.variable)

    def _arguments(self, calls: Sequence[Seen]) -> list[Source]:
        """The arguments that every call that went through has, and their scalars."""
        if not calls:
            return []
        always = set.intersection(*(set(one.arguments) for one in (*self._good, *calls)))
        found = []
        for name in sorted(always):
            values = tuple(one.arguments[name] for one in calls)
            found.append(Source(words.path("arguments", [name]), values))
            if all(isinstance(one, dict) for one in values):
                found += scalars(values, words.path("arguments", [name]))
        return found

    def _equal(self, pairs: Sequence[tuple[str, str]]) -> None:
        for left, right in pairs:
            one = {"require": f"{left} == {right}", "gap": f"{left} was never other than {right}"}
            if one not in self._last:
                self._last.append(one)
        for link in self._links:
            if any(_variable(link) in text for pair in pairs for text in pair):
                self._need(link)

    def _tell(self, says: str, calls: Sequence[Seen]) -> None:
        support = supported(len(calls), 0, self._history.named(calls))
        self.rules.append(Rule(part=self._name, says=says, support=support))

    def _leave(self, what: str, why: str, calls: Sequence[Seen], against: Sequence[Seen]) -> None:
        examples = self._history.named([*against, *calls])
        support = supported(len(calls), len(against), examples)
        self.left_out.append(LeftOut(part=self._name, what=what, why=why, support=support))


def nothing(why: str) -> dict[str, Any]:
    """A tool that answers TwinGap to everything."""
    return {"preconditions": [{"require": "false", "gap": f"left out of the draft: {why}"}]}


def settled_here(entity: str, keys: Sequence[str]) -> list[dict[str, Any]]:
    """Checks that no call left rows of the entity unknown; all rows, or the one of a key."""
    gap = f"what became of {entity} was never seen after a call of this episode"
    every = f"row({words.literal(UNSETTLED)}, [{words.literal(entity)}, {words.literal(EVERY)}])"
    known = "".join(f" || {every}.but == {key}" for key in keys)
    rows = [f"row({words.literal(UNSETTLED)}, [{words.literal(entity)}, {key}])" for key in keys]
    return [
        {"require": f"{every} == null{known}", "gap": gap},
        *({"require": f"{one} == null", "gap": gap} for one in rows),
    ]


def asks_of(check: dict[str, Any]) -> str | None:
    """The entity whose rows a check wants to be known; None where it asks something else."""
    start = f"row({words.literal(UNSETTLED)}, ["
    text = check["require"]
    if not text.startswith(start):
        return None
    return str(json.JSONDecoder().raw_decode(text, len(start))[0])


def _variable(link: Link) -> str:
    return words.table(f"{link.lookup.entity}_by_{link.argument}")


def _row(link: Link, *, after: bool = False) -> str:
    """The expression of a link's record: as it was before the call, or as it is then."""
    key = words.path("arguments", [link.argument])
    row = f"row({words.literal(link.lookup.entity)}, {key})" if after else _variable(link)
    return f"{row}.record" if link.lookup.whole else row


def _says(found: Change) -> str:
    if found.nothing:
        return "stays as it is"
    parts = [f"{name} becomes {value}" for name, value in sorted(found.set.items())]
    parts += [f"{name} grows by {by}" for name, by in found.increments]
    parts += [f"{name} gains {value}" for name, value in found.appends]
    return ", ".join(parts)


def _free(value: Any) -> bool:
    """Whether a value is free text."""
    return isinstance(value, str) and any(map(str.isspace, value))
