"""Two ways to keep: names only (capture off), or texts with their data masked (redacted).

Rules
1. Both answer the same questions about a name, a text, a value, messages and loose attributes.
2. A datum in a name or an id is masked either way; a name too long for a name is content.
3. Where nothing need change the very same object comes back.
"""

from collections.abc import Mapping
from typing import Any, Final, Protocol

from msgspec.structs import replace

from processors.model.step import Message, Part
from processors.redact.allowed import Listing, is_code, is_name, listing_of, without_query
from processors.redact.detectors import Masker
from processors.redact.leaves import BY_KEY, is_secret_key, masked, masked_text

REDACTED: Final = "[redacted]"
_NAMES_MAX: Final = 50_000
_SAFE_DATA = frozenset({"effect", "class", "phase", "status", "attempts", "http_status"})
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

    def __init__(self) -> None:
        self._masker = Masker()
        self._names: dict[str, str] = {}
        self._keys: dict[str, Listing | None] = {}

    def name(self, text: str) -> str:
        """The name, masked; one that is no name is replaced."""
        known = self._names.get(text)
        if known is None:
            if len(self._names) >= _NAMES_MAX:
                self._names.clear()
            known = self._names[text] = self._masker.mask(text) if is_name(text) else REDACTED
        return known

    def code(self, text: str) -> str | None:
        """The code, masked; anything else goes."""
        return self._masker.mask(text) if is_code(text) else None

    def text(self, text: str) -> None:
        """Nothing."""

    def value(self, value: Any) -> None:
        """Nothing."""

    def messages(self, messages: Messages) -> None:
        """Nothing."""

    def attributes(self, attributes: Mapping[str, Any]) -> dict[str, Any]:
        """The keys; the values only of what is listed."""
        kept = {}
        for key, value in attributes.items():
            listing = self._listing(key)
            if listing is not None:
                kept[key] = self._attribute(key, value, listing)
        return kept

    def data(self, data: dict[str, Any]) -> dict[str, Any]:
        """Codes and statuses of ours."""
        return {key: value for key, value in data.items() if key in _SAFE_DATA}

    def _listing(self, key: str) -> Listing | None:
        """How a key is listed; None for a key that is itself content."""
        if key not in self._keys:
            if len(self._keys) >= _NAMES_MAX:
                self._keys.clear()
            plain = is_code(key) and self._masker.mask(key) == key
            self._keys[key] = listing_of(key) if plain else None
        return self._keys[key]

    def _attribute(self, key: str, value: Any, listing: Listing) -> Any:
        if listing == "content" or (listing == "number" and not isinstance(value, int | float)):
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

    def __init__(self) -> None:
        self._masker = Masker()

    def name(self, text: str) -> str:
        """The name, masked."""
        return self._masker.mask(text)

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
        return tuple(
            replace(
                message,
                parts=tuple(self._part(part) for part in message.parts),
                name=self.name(message.name) if message.name else message.name,
            )
            for message in messages
        )

    def attributes(self, attributes: Mapping[str, Any]) -> dict[str, Any]:
        """Every attribute, masked; headers and other secrets by their key."""
        found = {}
        for key, value in attributes.items():
            name = self._masker.mask(key)
            secret = is_secret_key(key, self._masker) and not isinstance(value, bool)
            found[name] = BY_KEY if secret else masked(value, self._masker)
        return found

    def data(self, data: dict[str, Any]) -> dict[str, Any]:
        """The whole, masked."""
        kept: dict[str, Any] = masked(data, self._masker)
        return kept

    def _part(self, part: Part) -> Part:
        return replace(
            part,
            content=masked(part.content, self._masker),
            id=self.name(part.id) if part.id else part.id,
            name=self.name(part.name) if part.name else part.name,
        )
