"""Whose words are whose: what the user and the system said, and what strangers' results say.

Rules
1. The user's words are messages of the roles user and system, a person's answers, and results of
   tools that ask the user or that the project trusts. What a framework puts into a user's mouth, a
   tool's result told again, is cut out.
2. Every other tool result, and what was retrieved, is a stranger's. Its cells are data, its free
   texts are words (``detect_prose``); text hidden in base64 is words.
3. Bounded: at most ``_CHARACTERS_MAX`` of free text of one run are read, and ``bounded`` says so.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from typing import Any, Final

from msgspec import Struct

from processors.model.step import Message, Step
from processors.verify.detect_calls import Run
from processors.verify.detect_prose import delegates, parted, takes_over
from processors.verify.detect_settings import Injection
from processors.verify.detect_values import Value, hidden, leaves, number_values, plain, values
from processors.verify.subjects import same_tool, spellings, split_words, stems

_CHARACTERS_MAX: Final = 4 * 1024**2
_TRUSTED_CHARACTERS_MAX: Final = 1024**2
_PLACES_MAX: Final = 4
_HEAD: Final = 80
_LEAST: Final = 12
_TAKEOVERS_MAX: Final = 32
_NEAR: Final = 1_000
_ASKS: Final = re.compile(
    r"(?:ask|prompt|question|query|get|request|confirm|consult|clarify)_?(?:with_|the_|from_)*"
    r"(?:user|human|customer|person|operator)|(?:user|human)_(?:input|reply|answer|response|feedback)"
    r"|clarify|ask_question"
)
_TOLD_AGAIN: Final = re.compile(
    r"\s*(?:observation|tool (?:result|output|response)|<tool|\[tool)", re.I
)
_JSON_TEXT: Final = re.compile(r'"((?:[^"\\]|\\.)*)"?')
_REPR_TEXT: Final = re.compile(r"'((?:[^'\\]|\\.)*)'?")


class Words(Struct, frozen=True, kw_only=True):
    """A free text in a stranger's result; ``takeover`` are the words that speak to the model."""

    place: int
    step_id: str
    tool: str
    field: str
    text: str
    raw: str
    takeover: str | None


class Strangers:
    """What strangers' results say, in order: free texts, the values in them, the cells."""

    def __init__(self, run: Run, settings: Injection) -> None:
        self._results = list(_results(run, settings))
        self._kinds: Collection[str] = ()
        self.bounded = False
        self.words: list[Words] = []
        self.at: dict[Value, list[Words]] = {}
        self._read()

    def _read(self) -> None:
        left = _CHARACTERS_MAX
        for place, step_id, tool, result in self._results:
            for field, leaf in leaves(result):
                if not isinstance(leaf, str) or len(leaf) < _LEAST or left <= 0:
                    self.bounded = self.bounded or left <= 0
                    continue
                left -= len(leaf)
                for text in self._texts(leaf):
                    self._take(place, step_id, tool, field, text, leaf)

    def _texts(self, leaf: str) -> Iterator[str]:
        text = plain(leaf)
        if " " in text or "\n" in text or not text.isascii():
            for part in _unquoted(text):
                _, free = parted(part)
                yield from free
        if len(leaf) >= 24:
            yield from (plain(one) for one in hidden(text))

    def _take(self, place: int, step_id: str, tool: str, field: str, text: str, raw: str) -> None:
        words = Words(
            place=place,
            step_id=step_id,
            tool=tool,
            field=f"result.{field}" if field else "result",
            text=text,
            raw=raw,
            takeover=takes_over(text),
        )
        self.words.append(words)

    def look_for(self, kinds: Collection[str]) -> None:
        """Fill ``at`` with the values of some kinds: by value, the first texts that have it."""
        self._kinds = kinds
        for words in self.words:
            for value in values(words.text, kinds):
                found = self.at.setdefault(value, [])
                if len(found) < _PLACES_MAX:
                    found.append(words)

    @cached_property
    def takeovers(self) -> list[tuple[Words, str, frozenset[str]]]:
        """The texts that speak to the model, at most 32: each in lower case on one line, and the
        stems of the takeover and of what follows it, for orders are near."""
        found = [words for words in self.words if words.takeover is not None]
        return [
            (words, " ".join(words.text.casefold().split()), stems(split_words(_near(words))))
            for words in found[:_TAKEOVERS_MAX]
        ]

    @cached_property
    def _cells(self) -> dict[Value, set[str]]:
        """Values that are data, with the steps whose results have them as such."""
        found: dict[Value, set[str]] = {}
        for _, step_id, _, result in self._results:
            for _, leaf in leaves(result):
                for value in _cell_values(leaf, self._kinds):
                    found.setdefault(value, set()).add(step_id)
        return found

    def is_data(self, value: Value, besides: str | None = None) -> bool:
        """Whether a value stands in a cell of any result (``besides``: of another step's)."""
        return bool(self._cells.get(value, set()) - {besides})


def _near(words: Words) -> str:
    place = words.text.find(words.takeover or "")
    return words.text[max(0, place) : max(0, place) + _NEAR]


def _cell_values(leaf: Any, kinds: Collection[str]) -> set[Value]:
    if isinstance(leaf, str):
        found: set[Value] = set()
        for part in _unquoted(plain(leaf)):
            for cell in parted(part)[0]:
                found |= values(cell, kinds)
        return found
    return number_values(leaf)


def _unquoted(text: str) -> list[str]:
    """The texts inside one that is broken JSON or a broken literal; any other text as it is."""
    if text[:1] in ("{", "["):
        double, single = text.find('"'), text.find("'")
        if double >= 0 and (single < 0 or double < single):
            return [match for match in _JSON_TEXT.findall(text) if match]
        if single >= 0:
            return [match for match in _REPR_TEXT.findall(text) if match]
    return [text]


def _results(run: Run, settings: Injection) -> Iterator[tuple[int, str, str, Any]]:
    for use in run.uses:
        if use.result is not None and not _trusted(use.name, settings):
            yield use.place, use.step.step_id, use.name, use.result
    for place, step in enumerate(run.trace.steps):
        if step.kind == "retrieval" and step.output is not None:
            yield place, step.step_id, step.name, step.output


def _trusted(name: str, settings: Injection) -> bool:
    if any(same_tool(name, tool) for tool in settings.trusted_tools):
        return True
    return bool(name) and _ASKS.match(spellings(name)[-1]) is not None


class Trusted:
    """What the user and the system said. Made only where something is suspected."""

    def __init__(self, run: Run, settings: Injection) -> None:
        self._trace = run.trace
        self._settings = settings
        self.texts = _trusted_texts(run, settings)
        self.known = bool(self.texts)

    @cached_property
    def delegates(self) -> bool:
        """Whether the user asks that what some text says be done."""
        return any(delegates(text) for text in self.texts)

    @cached_property
    def spoken(self) -> str:
        """All of it in lower case."""
        return "\n".join(self.texts).casefold()

    @cached_property
    def stems(self) -> frozenset[str]:
        """The stems of all of its words."""
        return stems(split_words(self.spoken))

    def mentions(self, value: Value, words: Words) -> bool:
        """Whether a value is in the user's own words, those of ``words`` told again cut out."""
        if self._named(value):
            return True
        return any(
            _holds(_without(text, words.raw), value) for text in self.texts if _may(text, value)
        )

    def _named(self, value: Value) -> bool:
        kind, text = value
        for trusted in self._settings.trusted_values:
            wanted = trusted.casefold()
            if text == wanted or (wanted[:1] in ("@", ".") and text.endswith(wanted)):
                return True
            if kind in ("url", "host") and _host(text).endswith(wanted.lstrip("@.")):
                return True
        return False

    def confirmed(self, value: Value, before: int) -> bool:
        """Whether the agent named a value to the user, who answered, before step ``before``."""
        for step in reversed(self._trace.steps[:before]):
            if step.kind == "model_call" and step.messages_in:
                return _answered(step.messages_in, value)
        return False


def _trusted_texts(run: Run, settings: Injection) -> list[str]:
    found: dict[str, None] = {}
    left = _TRUSTED_CHARACTERS_MAX
    for text in _user_texts(run, settings):
        if text not in found and left > 0:
            left -= len(text)
            found[text] = None
    return [plain(text) for text in found]


def _user_texts(run: Run, settings: Injection) -> Iterator[str]:
    for step in run.trace.steps:
        if step.kind in ("model_call", "agent"):
            yield from _messages(step.messages_in or ())
        elif step.kind == "human_input":
            yield from _spoken_by_person(step)
    for use in run.uses:
        if use.result is not None and _trusted(use.name, settings):
            yield from (str(leaf) for _, leaf in leaves(use.result))


def _spoken_by_person(step: Step) -> Iterator[str]:
    yield from (str(leaf) for _, leaf in leaves(step.output))
    for message in step.messages_out or ():
        yield from (part.content for part in message.parts if isinstance(part.content, str))


def _messages(messages: Sequence[Message]) -> Iterator[str]:
    for message in messages:
        if message.role not in ("user", "system"):
            continue
        for part in message.parts:
            text = part.content
            if part.type == "text" and isinstance(text, str) and not _TOLD_AGAIN.match(text):
                yield text


def _without(text: str, raw: str) -> str:
    """A user's text without a tool's result that a framework told again in it."""
    if len(raw) < _LEAST:
        return text
    if raw in text:
        return text.replace(raw, " ")
    head = raw[:_HEAD]
    return text[: text.index(head)] if len(raw) > _HEAD and head in text else text


def _may(text: str, value: Value) -> bool:
    return (
        value[0] in ("amount", "account", "id") or value[1][:6] in text.casefold() or "at" in text
    )


def _holds(text: str, value: Value) -> bool:
    kind, wanted = value
    if kind != "amount" and wanted in text.casefold():
        return True
    found = values(text)
    return value in found or (kind in ("url", "host") and _host(wanted) in _hosts(found))


def _hosts(found: set[Value]) -> set[str]:
    return {_host(text) for kind, text in found if kind in ("url", "host")}


def _host(text: str) -> str:
    inner = text.partition("://")[2] or text
    return inner.partition("/")[0].partition("?")[0].removeprefix("www.")


def _answered(messages: Sequence[Message], value: Value) -> bool:
    asked = False
    for message in messages:
        texts = [
            part.content
            for part in message.parts
            if part.type == "text" and isinstance(part.content, str)
        ]
        if message.role == "assistant":
            asked = asked or any(_holds(plain(text), value) for text in texts)
        elif message.role == "user" and texts and asked:
            return True
    return False
