"""Client-side redaction: what leaves the agent's process without what must not.

**Rules**
1. The same rules as a tape's (``tape.redaction``): by key, by place, and by the forms of keys,
   tokens, e-mail addresses and cards. Redacting twice changes nothing.
2. What cannot be looked at goes: a value that is no JSON-like one is replaced, never passed on.
"""

from collections.abc import Mapping
from typing import Any, Final

from sidecar.canonical import NotCanonical
from sidecar.tape.redaction import UNREADABLE, Mode, Redactor, Rule
from sidecar.tape.value import decoded, encoded

__all__ = ["DEFAULT", "Mode", "Redactor", "Rule", "redact", "redact_attributes"]

DEFAULT: Final = Redactor()
"""Secrets' keys and known forms, masked."""


def redact(value: Any, redactor: Redactor = DEFAULT) -> Any:
    """A JSON-like value (text, numbers, lists, dicts, bytes) with every datum replaced."""
    if isinstance(value, str):
        return redactor.text(value)
    try:
        return decoded(redactor.value(encoded(value)))
    except NotCanonical:
        return UNREADABLE


def redact_attributes(
    attributes: Mapping[str, Any], redactor: Redactor = DEFAULT
) -> dict[str, Any]:
    """Attributes of a span or a log record, each by its key's last word too.

    ``http.request.header.authorization`` is a secret's key by its last word. Values that are lists
    stay lists of the same kind where nothing in them was replaced.
    """
    return {key: _attribute(key, value, redactor) for key, value in attributes.items()}


def _attribute(key: str, value: Any, redactor: Redactor) -> Any:
    if isinstance(value, bool | int | float) or value is None:
        return value
    last = key.rpartition(".")[2]
    found = redact({last: list(value) if isinstance(value, tuple) else value}, redactor)
    if not isinstance(found, dict):
        return UNREADABLE
    (after,) = found.values()
    return tuple(after) if isinstance(value, tuple) and isinstance(after, list) else after
