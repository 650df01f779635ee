"""Fragments of one span become one node, whatever their number, order or repetition.

Rules
1. The same fragment twice is one. Two versions of a span: the ended, then the later, then the
   richer wins, and takes from the other what it lacks.
2. One id with another name and another start is another span: both are kept, the second as ``…~1``.
3. Log records come after their span and fill only what it leaves open; messages in order of time,
   role, text.
4. Records whose span never came are a model call of their own: nothing is dropped.
5. A record of a model call whose span is an agent's is a call of its own, below the agent.
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import Literal

import msgspec
from msgspec import Struct, field
from msgspec.structs import force_setattr

from processors.model.fragment import Fragment, Reading, union
from processors.model.step import Message, Part, Source

_ASKED = frozenset({"tool_call", "server_tool_call"})
ANSWERED = frozenset({"tool_call_response", "server_tool_call_response"})
SourceKind = Literal["span", "log", "messages"]
_ROLES = {"system": 0, "user": 1, "assistant": 2, "tool": 3}


_UNREAD = Reading(dialect="")


class Node(Struct, frozen=True, kw_only=True, gc=False):
    """One span with its log records.

    ``calls`` it asked for and ``answers`` it was shown, in order; ``fresh`` of these are the ids of
    the answers that follow the last reply: what was said before is history. ``reading``,
    ``start_ns`` and ``end_ns`` (its start where it never ended) are the fragment's.
    """

    key: str
    fragment: Fragment
    sources: tuple[Source, ...]
    log_only: bool = False
    calls: tuple[Part, ...] = ()
    answers: tuple[Part, ...] = ()
    fresh: frozenset[str] = frozenset()
    reading: Reading = field(default_factory=lambda: _UNREAD)
    start_ns: int = 0
    end_ns: int = 0

    def __post_init__(self) -> None:
        # Asked for a score of times each: a field is read at a third of a property's cost.
        fragment = self.fragment
        force_setattr(self, "reading", fragment.reading)
        force_setattr(self, "start_ns", fragment.start_ns)
        force_setattr(self, "end_ns", fragment.end_ns or fragment.start_ns)


def gather(fragments: Iterable[Fragment]) -> list[Node]:
    """A node for each span, in order of start and id."""
    spans: dict[tuple[str, str], list[Fragment]] = defaultdict(list)
    logs: dict[tuple[str, str], list[Fragment]] = defaultdict(list)
    for fragment in fragments:
        own = fragment.source == "span" or fragment.told_by is not None
        target = spans if own else logs
        target[fragment.trace_id, fragment.span_id].append(fragment)
    nodes: list[Node] = []
    for place in sorted(spans.keys() | logs.keys()):
        records = _distinct(logs.get(place, []))
        versions = _versions(spans.get(place, []))
        if not versions:
            nodes.append(_node(place, 0, _from_records(records), records, log_only=True))
        if versions and versions[0].reading.kind == "agent":
            calls, records = _own_calls(place, records)
            nodes.extend(calls)
        for number, fragment in enumerate(versions):
            nodes.append(_node(place, number, fragment, records if number == 0 else []))
    return sorted(nodes, key=lambda node: (node.start_ns, node.key))


def _own_calls(
    place: tuple[str, str], records: list[Fragment]
) -> tuple[list[Node], list[Fragment]]:
    """Records of model calls whose only span is their agent's: a node below it each (rule 5)."""
    calls = [record for record in records if record.reading.kind == "model_call"]
    nodes = [
        _node(
            (place[0], f"{place[1]}.{number + 1}"),
            0,
            msgspec.structs.replace(record, parent_span_id=place[1], told_by=place[1]),
            [],
        )
        for number, record in enumerate(calls)
    ]
    return nodes, [record for record in records if record.reading.kind != "model_call"]


def _distinct(fragments: list[Fragment]) -> list[Fragment]:
    """Each record once, in the order of rule 3."""
    if len(fragments) < 2:
        return fragments
    encoded = {msgspec.json.encode(fragment): fragment for fragment in fragments}
    ordered = sorted(encoded, key=lambda text: (*_moment(encoded[text]), text))
    return [encoded[text] for text in ordered]


def _moment(fragment: Fragment) -> tuple[int, int]:
    shown = fragment.reading.messages_in
    return fragment.start_ns, _ROLES.get(shown[0].role, 2) if shown else 4


def _versions(fragments: list[Fragment]) -> list[Fragment]:
    """The spans behind one id, each merged from its versions; the earliest first."""
    if len(fragments) < 2:
        return fragments
    groups: list[list[Fragment]] = []
    for fragment in sorted(fragments, key=lambda f: (f.start_ns, f.name, msgspec.json.encode(f))):
        for group in groups:
            if group[0].name == fragment.name or group[0].start_ns == fragment.start_ns:
                group.append(fragment)
                break
        else:
            groups.append([fragment])
    return [_merged(group) for group in groups]


def _merged(versions: list[Fragment]) -> Fragment:
    if len(versions) == 1:
        return versions[0]
    encoded = {msgspec.json.encode(version): version for version in versions}
    best = sorted(
        encoded,
        key=lambda text: (
            encoded[text].end_ns,
            len(encoded[text].reading.attributes),
            len(text),
            text,
        ),
        reverse=True,
    )
    ordered = [encoded[text] for text in best]
    reading = union(fragment.reading for fragment in ordered)
    refused = next((f.reading for f in ordered if f.reading.status == "denied"), None)
    if refused is not None:  # a refusal stands, whatever else is said of the call
        reading = msgspec.structs.replace(reading, status="denied", error=refused.error)
    return msgspec.structs.replace(ordered[0], reading=reading)


def _from_records(records: list[Fragment]) -> Fragment:
    """The span that the records speak of, as far as they tell."""
    first, last = records[0], records[-1]
    kind = first.reading.kind or "model_call"
    reading = msgspec.structs.replace(first.reading, kind=kind, attributes={})
    return msgspec.structs.replace(
        first, name="", end_ns=last.start_ns, reading=reading, source="log"
    )


def _node(
    place: tuple[str, str],
    number: int,
    fragment: Fragment,
    records: list[Fragment],
    *,
    log_only: bool = False,
) -> Node:
    trace_id, span_id = place
    key = f"{trace_id}:{span_id}" + (f"~{number}" if number else "")
    if records:
        fragment = _with_records(fragment, records)
    reading = fragment.reading
    sources = [] if log_only else [_source(_source_kind(fragment), fragment)]
    sources += [_source("log", record) for record in records[:1]]
    model_call = reading.kind == "model_call"
    answers = _answers(reading.messages_in) if model_call else ()
    return Node(
        key=key,
        fragment=fragment,
        sources=tuple(sources),
        log_only=log_only,
        calls=_parts(reading.messages_out, _ASKED) if model_call else (),
        answers=answers,
        fresh=_fresh(reading.messages_in, answers) if answers else frozenset(),
    )


def _with_records(fragment: Fragment, records: list[Fragment]) -> Fragment:
    """The fragment with the messages of its records, one record a message or one with all."""
    shown = tuple(m for record in records for m in record.reading.messages_in or ())
    said = tuple(m for record in records for m in record.reading.messages_out or ())
    whole = [record.reading for record in records if record.reading.model or record.reading.usage]
    if whole:
        shown, said = (), ()
    fragment = _of_kind(fragment, records)
    on_tool = fragment.reading.kind == "tool_call"
    gathered = msgspec.structs.replace(
        records[0].reading,
        kind=fragment.reading.kind,
        tool=records[0].reading.tool if on_tool else None,
        messages_in=None if on_tool else shown or None,
        messages_out=None if on_tool else said or None,
    )
    own = fragment.reading
    if fragment.source == "log":
        own = msgspec.structs.replace(own, messages_in=None, messages_out=None)
    merged = union((own, *whole, gathered))
    return msgspec.structs.replace(fragment, reading=merged)


def _of_kind(fragment: Fragment, records: list[Fragment]) -> Fragment:
    """The fragment; one of unknown kind is what its records say that it is."""
    told = next((record.reading.kind for record in records if record.reading.kind), None)
    if told is None or (fragment.reading.kind, fragment.reading.subtype) != ("other", "unknown"):
        return fragment
    reading = msgspec.structs.replace(fragment.reading, kind=told, subtype=None)
    return msgspec.structs.replace(fragment, reading=reading)


def _source_kind(fragment: Fragment) -> SourceKind:
    if fragment.source == "log":
        return "log"
    return "span" if fragment.told_by is None else "messages"


def _source(kind: SourceKind, fragment: Fragment) -> Source:
    told_by = fragment.told_by
    return Source(
        kind=kind,
        trace_id=fragment.trace_id,
        span_id=fragment.span_id if told_by is None else told_by or None,
        dialect=fragment.reading.dialect,
        ref=fragment.scope or None,
    )


def _parts(messages: tuple[Message, ...] | None, kinds: frozenset[str]) -> tuple[Part, ...]:
    if not messages:
        return ()
    return tuple(part for message in messages for part in message.parts if part.type in kinds)


def _answers(messages: tuple[Message, ...] | None) -> tuple[Part, ...]:
    """The answers a history shows; one whose id no call there has is that of the call it follows.

    Some emitters write no id on answers, some another one than on the call (Responses items).
    """
    known = {part.id for part in _parts(messages, _ASKED) if part.id}
    waiting: dict[str, None] = {}
    found: list[Part] = []
    for message in messages or ():
        for part in message.parts:
            if part.type in _ASKED and part.id:
                waiting[part.id] = None
            elif part.type in ANSWERED:
                if part.id not in known and waiting:
                    part = msgspec.structs.replace(part, id=next(iter(waiting)))
                waiting.pop(part.id or "", None)
                found.append(part)
    return tuple(found)


def _fresh(messages: tuple[Message, ...] | None, answers: tuple[Part, ...]) -> frozenset[str]:
    """The ids of the answers that stand after the last reply of the assistant."""
    number = 0
    for message in reversed(messages or ()):
        if message.role == "assistant":
            break
        number += sum(part.type in ANSWERED for part in message.parts)
    last = answers[len(answers) - number :]
    return frozenset(part.id for part in last if part.id)
