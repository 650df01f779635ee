"""Two ways to keep: names only (capture off), or texts with their data replaced (redacted).

Rules
1. Both answer the same questions about a name, a text, a value, messages and loose attributes.
2. A datum in a name or an id is replaced either way; a name too long for a name is content.
3. An attribute whose key is unknown or denied keeps its key only, either way.
4. Where nothing need change the very same object comes back. What repeats is looked at once, within
   bounds.
"""

from collections.abc import Mapping
from operator import is_
from typing import Any, Final, Literal, Protocol

from msgspec import Struct
from msgspec.structs import replace

from processors.model.step import Message, Part
from processors.redact.allowed import (
    NAME_CHARACTERS_MAX,
    Listing,
    Listings,
    is_code,
    is_name,
    without_query,
)
from processors.redact.leaves import by_key, masked, masked_text
from processors.redact.masker import Masker
from processors.redact.seams import joined
from processors.redact.terms import Terms

REDACTED: Final = "[redacted]"
_NAMES_MAX: Final = 50_000
_SAFE_DATA = frozenset(
    {"effect", "class", "phase", "status", "attempts", "http_status", "approved"}
)
Messages = tuple[Message, ...]


class Keeping(Protocol):
    """What of each kind of thing is kept."""

    def name(self, text: str) -> str:
        """A name or an id."""
        ...

    def code(self, text: str) -> str | None:
        """A word that should be a code; None where it is more than that and goes."""
        ...

    def text(self, text: str) -> str | None:
        """A free text."""
        ...

    def value(self, value: Any) -> Any:
        """Captured content of any shape."""
        ...

    def messages(self, messages: Messages) -> Messages | None:
        """Messages to or from a model."""
        ...

    def attributes(self, attributes: Mapping[str, Any]) -> dict[str, Any]:
        """A span's loose attributes."""
        ...

    def data(self, data: dict[str, Any]) -> dict[str, Any]:
        """What an observation holds."""
        ...


class NamesOnly:
    """Capture ``off``. Remembers names and keys, which repeat, up to a bound."""

    def __init__(self, terms: Terms) -> None:
        self._masker = Masker(terms)
        self._listings = Listings(terms)
        self._names: dict[str, str | None] = {}  # None: it stays as it is
        self._codes: dict[str, str | None] = {}
        self._keys: dict[str, Listing | None] = {}

    def name(self, text: str) -> str:
        """The name, masked; one that is no name is replaced."""
        try:
            known = self._names[text]
        except KeyError:
            known = self._looked_at(text)
        return text if known is None else known

    def _looked_at(self, text: str) -> str | None:
        if len(text) > NAME_CHARACTERS_MAX:
            return REDACTED
        after = masked_text(text, self._masker) if is_name(text) else REDACTED
        if len(self._names) >= _NAMES_MAX:
            self._names.clear()
        known = self._names[text] = None if after == text else after
        return known

    def code(self, text: str) -> str | None:
        """The code, masked; anything else goes."""
        if text in self._codes:
            known = self._codes[text]
            return text if known == text else known
        code = masked_text(text, self._masker) if is_code(text) else None
        if len(text) <= NAME_CHARACTERS_MAX:
            if len(self._codes) >= _NAMES_MAX:
                self._codes.clear()
            self._codes[text] = code
        return code

    def text(self, text: str) -> None:
        """Nothing."""

    def value(self, value: Any) -> None:
        """Nothing."""

    def messages(self, messages: Messages) -> None:
        """Nothing."""

    def attributes(self, attributes: Mapping[str, Any]) -> dict[str, Any]:
        """The keys; the values only of what is listed."""
        kept: dict[str, Any] = {}
        keys = self._keys
        for key, value in attributes.items():
            listing = keys[key] if key in keys else self._listing(key)
            if listing == "content" or listing == "unknown":
                kept[key] = REDACTED
            elif listing is not None:
                kept[key] = self._attribute(key, value, listing)
        return kept

    def data(self, data: dict[str, Any]) -> dict[str, Any]:
        """Codes and statuses of ours."""
        return {key: value for key, value in data.items() if key in _SAFE_DATA}

    def _listing(self, key: str) -> Listing | None:
        """How a key is listed; None for a key that is itself content."""
        if len(self._keys) >= _NAMES_MAX:
            self._keys.clear()
        plain = is_code(key) and self._masker.mask(key) == key
        listing = self._keys[key] = self._listings.of(key) if plain else None
        return listing

    def _attribute(self, key: str, value: Any, listing: Listing) -> Any:
        if listing == "number" and not isinstance(value, int | float):
            return REDACTED
        if isinstance(value, str):
            return self.name(without_query(key, value))
        if value is None or isinstance(value, int | float):
            return masked(value, self._masker)
        if isinstance(value, list | tuple) and all(isinstance(item, str) for item in value):
            return [self.name(item) for item in value]
        return REDACTED


class Masked:
    """Capture ``redacted``."""

    def __init__(self, terms: Terms) -> None:
        self._masker = Masker(terms)
        self._listings = Listings(terms)
        self._keys: dict[str, _Fate] = {}
        self._clean: set[str] = set()  # names in which there is nothing

    def name(self, text: str) -> str:
        """The name, masked."""
        if text in self._clean:
            return text
        after = masked_text(text, self._masker)
        if after is text and len(text) <= NAME_CHARACTERS_MAX:
            if len(self._clean) >= _NAMES_MAX:
                self._clean.clear()
            self._clean.add(text)
        return after

    def code(self, text: str) -> str:
        """The text, masked."""
        return masked_text(text, self._masker)

    def text(self, text: str) -> str:
        """The text, masked."""
        return masked_text(text, self._masker)

    def value(self, value: Any) -> Any:
        """The value, masked leaf by leaf."""
        return masked(value, self._masker)

    def messages(self, messages: Messages) -> Messages:
        """The messages, their parts masked."""
        kept = tuple([self._message(message) for message in messages])
        return messages if all(map(is_, kept, messages)) else kept

    def attributes(self, attributes: Mapping[str, Any]) -> dict[str, Any]:
        """Every attribute whose key is known, masked; headers and other secrets by their key."""
        found = {}
        keys, masker = self._keys, self._masker
        for key, value in attributes.items():
            fate = keys.get(key) or self._learn(key)
            if fate.way == "mask":
                found[fate.name] = masked(value, masker)
            else:
                found[fate.name] = by_key(value, masker) if fate.way == "secret" else REDACTED
        return found

    def data(self, data: dict[str, Any]) -> dict[str, Any]:
        """The whole, masked."""
        kept: dict[str, Any] = masked(data, self._masker)
        return kept

    def _learn(self, key: str) -> "_Fate":
        if len(self._keys) >= _NAMES_MAX:
            self._keys.clear()
        way: _Way = "mask"
        if self._listings.of(key) == "unknown":
            way = "take"
        elif self._masker.names_secret(key):
            way = "secret"
        fate = self._keys[key] = _Fate(name=self._masker.mask(key), way=way)
        return fate

    def _message(self, message: Message) -> Message:
        parts = message.parts
        kept = tuple([self._part(part) for part in parts])
        if len(kept) > 1:
            kept = _joined(parts, kept, self._masker)
        if all(map(is_, kept, parts)):
            kept = parts
        role, name, ended = message.role, message.name, message.finish_reason
        new_role = self.name(role)
        new_name = self.name(name) if name else name
        new_ended = self.name(ended) if ended else ended
        if kept is parts and new_role is role and new_name is name and new_ended is ended:
            return message
        return replace(message, role=new_role, parts=kept, name=new_name, finish_reason=new_ended)

    def _part(self, part: Part) -> Part:
        kind, content, id_, name = part.type, part.content, part.id, part.name
        new_kind, new_content = self.name(kind), masked(content, self._masker)
        new_id = self.name(id_) if id_ else id_
        new_name = self.name(name) if name else name
        if new_content is content and new_kind is kind and new_id is id_ and new_name is name:
            return part
        return replace(part, type=new_kind, content=new_content, id=new_id, name=new_name)


def _joined(parts: tuple[Part, ...], kept: tuple[Part, ...], masker: Masker) -> tuple[Part, ...]:
    """The parts with what is seen only where those that are texts are read together."""
    texts = [_said(part) for part in parts]
    alone = [None if text is None else _said(part) for text, part in zip(texts, kept, strict=True)]
    found = joined(texts, alone, masker)
    return tuple(
        part if text == before else replace(part, content=text)
        for part, before, text in zip(kept, alone, found, strict=True)
    )


def _said(part: Part) -> str | None:
    called = part.type in ("tool_call", "tool_call_response")
    return part.content if isinstance(part.content, str) and not called else None


_Way = Literal["mask", "secret", "take"]


class _Fate(Struct, frozen=True):
    """What becomes of an attribute's key, and of its value."""

    name: str
    way: _Way
