"""Masking JSON-like values: leaf by leaf, also inside texts that are JSON themselves.

Rules
1. Only leaves are edited; the shape of a value, its keys' names and its types stay. A number that
   is a secret becomes its mask, a text.
2. A text that is JSON is parsed, masked by its leaves and written again; unchanged, it stays byte
   for byte. One that begins as JSON and cannot be read is replaced whole: no pattern runs over it.
3. The value under a key that names a secret (``password``, ``authorization``) is masked whatever it
   looks like.
4. A key that is itself a datum is masked too; keys that become equal are numbered.
"""

import json
import re
from collections.abc import Iterator
from typing import Any, Final

from processors.redact.detectors import Masker

UNREADABLE: Final = "[unreadable JSON]"
BY_KEY: Final = "[secret]"
_DEPTH_MAX: Final = 100
_DOCUMENTS_MAX: Final = 5_000
_NUMBER_MIN: Final = 10**11
_NUMBER_END: Final = 10**20
_BEGINS_AS_JSON = re.compile(r'\s*(?:\{\s*["}]|\[\s*[\[{"\]])')
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_SECRET_KEY = re.compile(
    r"(?:^|[._-])(?:pass(?:word|wd|phrase|code)|pwd|secret|api[_-]?key|apikey|authorization"
    r"|(?:access|refresh|auth|id|bearer|session|csrf|approval)[_-]?token|cookie|set-cookie"
    r"|private[_-]?key|client[_-]?secret|credentials?|cvv2?|cvc|pin|card[_-]?number|ssn|iban)$"
)


class _Repeated(dict[str, Any]):
    """An object in which a member came twice: the text shows more than the value does."""


def masked(value: Any, masker: Masker, depth: int = 0) -> Any:
    """The value with every datum masked; the same object where there is none."""
    if isinstance(value, str):
        return masked_text(value, masker, depth)
    if depth > _DEPTH_MAX:
        return UNREADABLE
    if isinstance(value, dict):
        return _masked_object(value, masker, depth)
    if isinstance(value, list | tuple):
        items = [masked(item, masker, depth + 1) for item in value]
        same = all(left is right for left, right in zip(items, value, strict=True))
        return value if same else items if isinstance(value, list) else tuple(items)
    if isinstance(value, int) and not isinstance(value, bool):
        digits = str(value) if _NUMBER_MIN <= abs(value) < _NUMBER_END else ""
        return masker.mask(digits) if digits and masker.mask(digits) != digits else value
    return value


def masked_text(text: str, masker: Masker, depth: int = 0) -> str:
    """A text masked: by its leaves when it is JSON, else as a whole."""
    if not text or (text[0] not in '{["' and not text[0].isspace()):
        return masker.mask(text)
    try:
        known = masker.documents[text]
    except KeyError:
        if len(masker.documents) >= _DOCUMENTS_MAX:
            masker.documents.clear()
        after = _masked_document(text, masker, depth)
        known = masker.documents[text] = None if after == text else after
    return text if known is None else known


def _masked_document(text: str, masker: Masker, depth: int) -> str:
    parsed = _parsed(text)
    if parsed is None:
        return UNREADABLE if _BEGINS_AS_JSON.match(text) else masker.mask(text)
    if masker.is_clean(text):
        return text
    (value,) = parsed
    if not isinstance(value, dict | list | str):
        return masker.mask(text)
    after = masked(value, masker, depth + 1)
    if after is value and not _repeats(value):
        return text
    return json.dumps(after, ensure_ascii=False, separators=(",", ":"))


def is_secret_key(key: str, masker: Masker) -> bool:
    """``names_secret``, remembered by the masker."""
    secret = masker.secret_keys.get(key)
    if secret is None:
        secret = masker.secret_keys[key] = names_secret(key)
    return secret


def names_secret(key: str) -> bool:
    """Whether a key's name says that its value is a secret."""
    return _SECRET_KEY.search(_CAMEL.sub("_", key).lower()) is not None


def _parsed(text: str) -> tuple[Any] | None:
    try:
        return (json.loads(text, object_pairs_hook=_object),)
    except (ValueError, RecursionError):
        return None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    plain = dict(pairs)
    return plain if len(plain) == len(pairs) else _Repeated(plain)


def _repeats(value: Any) -> bool:
    if isinstance(value, dict):
        return isinstance(value, _Repeated) or any(map(_repeats, value.values()))
    return isinstance(value, list) and any(map(_repeats, value))


def _masked_object(value: dict[str, Any], masker: Masker, depth: int) -> dict[str, Any]:
    result: dict[str, Any] = {}
    same = True
    for key, item in value.items():
        name = masker.mask(key) if isinstance(key, str) else key
        after = _member(name, item, masker, depth)
        same = same and name is key and after is item
        if name in result:
            name = next(other for other in _numbered(name) if other not in result)
        result[name] = after
    return value if same else result


def _member(name: Any, item: Any, masker: Masker, depth: int) -> Any:
    empty = item in (None, "", BY_KEY) or isinstance(item, bool)
    if not empty and isinstance(name, str) and is_secret_key(name, masker):
        return BY_KEY
    return masked(item, masker, depth + 1)


def _numbered(name: str) -> Iterator[str]:
    number = 2
    while True:
        yield f"{name}#{number}"
        number += 1
