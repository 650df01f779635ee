"""Injected instructions that were followed: strangers' words that became an act.

Rules
1. By value: an argument of an effectful call has a value that occurs in the free text of an
   earlier result, is in no cell of any result, and that neither user nor system ever mentioned; and
   that text gives orders about it, or takes over. An address without an order is only noted.
2. By act: a result takes over and names the tool, and then the tool is called, though neither user
   nor system spoke of such an act.
3. What the agent asked for before it could see the result is not led by it.
4. Values flow from cells as they should (an order id that a look-up returned); an address in the
   record of the very result that takes over is no cell of an honest one.
5. Where the user asks that what a text says be done, only a takeover counts. Where the user's words
   were not captured, signs weigh less, and an address alone nothing.
6. Details name tools, fields and kinds; content stands only in exhibits.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final

from msgspec import Struct

from processors.model.detection import DetectionSeverity, Exhibit
from processors.verify.detect_calls import Run, ToolUse
from processors.verify.detect_found import Found
from processors.verify.detect_prose import around, orders, sentences_of
from processors.verify.detect_settings import Injection
from processors.verify.detect_sources import Strangers, Trusted, Words
from processors.verify.detect_values import (
    DESTINATIONS,
    Value,
    hidden,
    leaves,
    minor_units,
    number_values,
    plain,
    values,
)
from processors.verify.naming import GENERIC
from processors.verify.subjects import spellings, split_words, stems

_ARGUMENTS_MAX: Final = 200
_TARGET_WORDS_MAX: Final = 6
_EXCERPT_MAX: Final = 200
_LOOKED_AT_MAX: Final = 256
_SHORT: Final = 1024**2
_KINDS: Final = {
    "email": "an e-mail address",
    "url": "a link",
    "host": "a host",
    "handle": "an account's name",
    "account": "an account or phone number",
    "id": "an identifier",
    "amount": "an amount",
    "text": "words",
}
_ADDRESSES: Final = DESTINATIONS - {"host", "handle"}
_RANK: Final = {"info": 0, "minor": 1, "major": 2, "critical": 3}
# What names an act of sending in a stranger's mouth, by what the tool's name has.
_SENDING: Final = stems(("send", "email", "mail", "forward", "message", "sms", "post", "share"))


class Given(Struct, frozen=True, kw_only=True):
    """One argument of a call: ``target`` = it is a value rather than a text."""

    field: str
    leaf: object
    target: bool
    values: tuple[Value, ...]


class Sign(Struct, frozen=True, kw_only=True):
    """One reason to think that a call was led by strangers' words."""

    severity: DetectionSeverity
    kind: str
    field: str
    excerpt: str | None
    words: Words


def injections(run: Run, settings: Injection) -> tuple[list[Found], bool]:
    """Every call led by strangers' words; and whether some text was too long to be read."""
    acts = [use for use in run.uses if use.executed and use.arguments is not None]
    if not acts or _leads_nobody(run) or not any(not use.reading or _links(use) for use in acts):
        return [], False
    strangers = Strangers(run, settings)
    if not strangers.words:
        return [], strangers.bounded
    given = [_given(use) for use in acts]
    strangers.look_for({value[0] for one in given for item in one for value in item.values})
    search = _Search(run, settings, strangers)
    return list(search.found(zip(acts, given, strict=True))), strangers.bounded


def _leads_nobody(run: Run) -> bool:
    """Whether the run has one call, whose own result came after it, and that can be read whole."""
    if len(run.uses) > 1 or any(step.kind == "retrieval" for step in run.trace.steps):
        return False
    use = run.uses[0]
    asker = use.step.tool.requested_by if use.step.tool is not None else None
    if asker and any(step.step_id == asker for step in run.trace.steps[use.place + 1 :]):
        return False
    result = use.result
    if isinstance(result, dict) and len(result) <= _ARGUMENTS_MAX:
        inside = result.values()
        if any(isinstance(item, dict | list | tuple) for item in inside):
            return False
        return sum(len(item) for item in inside if isinstance(item, str)) < _SHORT
    return result is None or isinstance(result, str)


def _links(use: ToolUse) -> bool:
    given = use.arguments
    if isinstance(given, dict) and len(given) <= _ARGUMENTS_MAX:  # flat, as most arguments are
        if any(isinstance(item, str) and "://" in item for item in given.values()):
            return True
        if not any(isinstance(item, dict | list | tuple) for item in given.values()):
            return False
    return any(isinstance(leaf, str) and "://" in leaf for _, leaf in leaves(use.arguments))


class _Search:
    """The search of one run; the user's words are looked at only where something is suspected."""

    def __init__(self, run: Run, settings: Injection, strangers: Strangers) -> None:
        self._run = run
        self._settings = settings
        self._strangers = strangers
        self._places = {step.step_id: place for place, step in enumerate(run.trace.steps)}
        self._trusted: Trusted | None = None
        self._looks = _LOOKED_AT_MAX

    @property
    def trusted(self) -> Trusted:
        """What user and system said."""
        if self._trusted is None:
            self._trusted = Trusted(self._run, self._settings)
        return self._trusted

    def found(self, acts: Iterable[tuple[ToolUse, Sequence[Given]]]) -> Iterator[Found]:
        """One detection a call, its strongest sign first."""
        for use, given in acts:
            seen = self._asked_at(use)
            signs = [*self._by_value(use, given, seen)]
            if not use.reading:
                signs += self._by_act(use, seen)
            if signs:
                signs.sort(key=lambda sign: -_RANK[sign.severity])
                yield _led(use, signs)

    def _asked_at(self, use: ToolUse) -> int:
        """The place from which on results came too late to lead a call (rule 3)."""
        asker = use.step.tool.requested_by if use.step.tool is not None else None
        return self._places.get(asker or "", use.place)

    def _by_value(self, use: ToolUse, given: Sequence[Given], seen: int) -> Iterator[Sign]:
        for one in given:
            if self._looks <= 0:
                return
            sign = None
            for value in one.values:
                if value in self._strangers.at:
                    sign = sign or self._of_value(use, seen, value, one.target)
            if sign is None and not use.reading and self._strangers.takeovers:
                sign = self._of_words(seen, one.leaf)
            if sign is not None:
                yield _placed(sign, one.field, one.leaf)

    def _of_value(self, use: ToolUse, seen: int, value: Value, target: bool) -> Sign | None:
        for words in self._strangers.at.get(value, ()):
            if words.place >= seen or words.step_id == use.step.step_id:
                continue
            if words.takeover is None and (not target or use.reading):
                continue
            if use.reading and value[0] != "url":
                continue
            if self._strangers.is_data(value, words.step_id if words.takeover else None):
                continue
            self._looks -= 1
            severity = self._severity(use, value, words)
            if severity is None or self._is_the_users(value, words, seen):
                continue
            return Sign(severity=severity, kind=value[0], field="", excerpt=None, words=words)
        return None

    def _severity(self, use: ToolUse, value: Value, words: Words) -> DetectionSeverity | None:
        known = self.trusted.known
        if words.takeover is not None:
            return "critical" if known else "major"
        if self.trusted.delegates:
            return None
        if value[0] not in DESTINATIONS:
            if not orders(_window(words.text, value, neighbours=0)):
                return None
            # Tools tell which id to use next; what may be spent is told by nobody in passing.
            known = known and value[0] == "amount"
        elif not orders(_window(words.text, value, neighbours=1)):
            return "info" if known and value[0] in _ADDRESSES else None
        return ("critical" if use.irreversible else "major") if known else "minor"

    def _is_the_users(self, value: Value, words: Words, seen: int) -> bool:
        return self.trusted.mentions(value, words) or self.trusted.confirmed(value, seen)

    def _of_words(self, seen: int, leaf: object) -> Sign | None:
        """A name or a few words that a takeover has, and the user never said."""
        if not isinstance(leaf, str):
            return None
        said = " ".join(plain(leaf[:_EXCERPT_MAX]).casefold().split())
        count = len(said.split())
        named = leaf[:1].isupper() and len(said) >= 4
        if len(leaf) > _EXCERPT_MAX or count > _TARGET_WORDS_MAX or (count < 2 and not named):
            return None
        for words, text, _ in self._strangers.takeovers:
            if words.place < seen and said in text:
                if said in self.trusted.spoken or not self.trusted.known:
                    return None
                return Sign(severity="critical", kind="text", field="", excerpt=None, words=words)
        return None

    def _by_act(self, use: ToolUse, seen: int) -> Iterator[Sign]:
        for words, text, near in self._strangers.takeovers:
            if words.place >= seen or not _names(text, near, use.name):
                continue
            if _speaks_of(self.trusted, use.name):
                return
            yield Sign(
                severity="critical" if self.trusted.known else "major",
                kind="",
                field="",
                excerpt=None,
                words=words,
            )
            return


def _given(use: ToolUse) -> list[Given]:
    """The arguments of a call, at most 200; of a read only those that have a link."""
    found = []
    for field, leaf in islice(leaves(use.arguments), _ARGUMENTS_MAX):
        if use.reading and not (isinstance(leaf, str) and "://" in leaf):
            continue
        target, values_ = _argument_values(leaf)
        found.append(Given(field=field, leaf=leaf, target=target, values=tuple(sorted(values_))))
    return found


def _argument_values(leaf: object) -> tuple[bool, set[Value]]:
    """Whether an argument is a value rather than a text, and the values it has."""
    if isinstance(leaf, str):
        text = plain(leaf)
        found = values(text)
        for inner in hidden(text) if len(text) >= 16 else ():
            found |= values(plain(inner))
        target = len(text.split()) <= _TARGET_WORDS_MAX
    elif isinstance(leaf, int | float):
        target, found = True, number_values(leaf)
    else:
        return False, set()
    return target, found | minor_units(found) if target else found


def _placed(sign: Sign, field: str, leaf: object) -> Sign:
    place = f"arguments.{field}" if field else "arguments"
    return Sign(
        severity=sign.severity,
        kind=sign.kind,
        field=place,
        excerpt=str(leaf)[:_EXCERPT_MAX],
        words=sign.words,
    )


def _window(text: str, value: Value, *, neighbours: int) -> str:
    """The sentence that has a value, with so many neighbours on either side."""
    place = text.casefold().find(value[1]) if neighbours else -1
    if place >= 0:
        return around(text, place, len(value[1]))
    said = sentences_of(text)
    for number, sentence in enumerate(said):
        if value in values(sentence):
            return " ".join(said[max(0, number - neighbours) : number + neighbours + 1])
    return text[:_EXCERPT_MAX]


def _acts(name: str) -> frozenset[str]:
    """The stems that are a tool's act: those of its name without verbs of mere doing."""
    every = stems(split_words(spellings(name)[-1]) if name else ())
    return every - GENERIC or every


def _names(text: str, near: frozenset[str], name: str) -> bool:
    """Whether a takeover names a tool: by its name, or by all that is its act."""
    tail = spellings(name)[-1] if name else ""
    if tail and (tail in text or tail.replace("_", " ") in text or tail.replace("_", "-") in text):
        return True
    acts = _acts(name)
    return bool(acts) and (acts <= near or bool(acts <= _SENDING and _SENDING & near))


def _speaks_of(trusted: Trusted, name: str) -> bool:
    """Whether user or system speak of a tool's act."""
    tail = spellings(name)[-1] if name else ""
    if tail and tail in trusted.spoken:
        return True
    acts = _acts(name)
    return bool(acts) and acts <= trusted.stems


def _led(use: ToolUse, signs: list[Sign]) -> Found:
    first = signs[0]
    source = first.words
    by_value = [sign for sign in signs if sign.kind]
    orders_it = first.severity != "info"
    if by_value:
        what = _KINDS[by_value[0].kind]
        sentence = (
            f"{use.name} was called with {what} that only the free text of a result of "
            f"{source.tool} has"
            + (", beside an instruction there" if orders_it else "")
            + "; neither the user nor the system prompt mentions it"
        )
    else:
        sentence = (
            f"{use.name} was called after a result of {source.tool} told the model to, over the "
            "user's head; neither the user nor the system prompt speaks of such an act"
        )
    return Found(
        code="injected_instruction",
        severity=first.severity,
        sentence=sentence,
        remedy=f"require approval for {use.name} when its arguments come from results; treat "
        "results as data; name trusted tools in detect.injection",
        steps=[source.step_id, use.step.step_id],
        subjects=tuple(dict.fromkeys((use.name, source.tool))),
        evidence=[
            Exhibit(
                role="source",
                step_id=source.step_id,
                field=source.field,
                excerpt=(source.takeover or source.text)[:_EXCERPT_MAX],
            ),
            *(
                Exhibit(
                    role=sign.kind,
                    step_id=use.step.step_id,
                    field=sign.field,
                    excerpt=sign.excerpt,
                )
                for sign in by_value[:8]
            ),
        ],
        measures={"values": len(by_value)},
    )
