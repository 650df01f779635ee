"""Masking JSON-like values: leaf by leaf, also inside texts that are JSON themselves.

Rules
1. Only leaves are edited; the shape of a value, its keys' names and its types stay. A number that
   is a secret becomes its mask, a text.
2. A text that is JSON is parsed, masked by its leaves and written again; unchanged, it stays byte
   for byte. One that begins as JSON and cannot be read is replaced whole: no pattern runs over it.
3. The value under a key that names a secret (``password``, ``authorization``) is replaced whatever
   it looks like.
4. A key that is itself a datum is masked too; keys that become equal are numbered.
5. Text blocks in a row are one text (``seams``).
6. Bytes (``{"$b64": …}``) are masked as the text they are; those that are no text go.
"""

import json
import re
from collections.abc import Iterator, Sequence
from operator import is_
from typing import Any, Final

import msgspec

from processors.redact.hidden import BINARY
from processors.redact.masker import Masker
from processors.redact.seams import joined
from processors.redact.substitute import is_substitute

UNREADABLE: Final = "[unreadable JSON]"
_DEPTH_MAX: Final = 100
_NUMBER_MIN: Final = 10**11
_NUMBER_END: Final = 10**20
_BEGINS_AS_JSON = re.compile(r'\s*(?:\{\s*["}]|\[\s*[\[{"\]])')
# A text in it that may be JSON itself, and unreadable: such a document is gone through.
_HOLDS_JSON = re.compile(r'"(?:\s|\\[nrt]|\\u00(?:0[9aAdD]|20))*(?:[\[{]|\\u00[57][bB])')
# Objects in a row, not messages in a row: they may be blocks of one text.
_HOLDS_BLOCKS = re.compile(r'[^\]\s]\s*\}\s*,\s*\{|\]\s*\}\s*,\s*\{\s*"(?:type|text)"')
_BYTES = "$b64"
_BLOCK_TEXTS: Final = ("text", "content")
# Everything JSON can begin with, but for numbers and words, which are texts as they stand.
_STARTS = frozenset('{[" \t\n\r')


class _Repeated(dict[str, Any]):
    """An object in which a member came twice: the text shows more than the value does."""


def masked(value: Any, masker: Masker, depth: int = 0) -> Any:
    """The value with every datum masked; the same object where there is none."""
    kind = type(value)
    if kind is str:
        return masked_text(value, masker, depth)
    if kind is int:
        return _masked_number(value, masker)
    if value is None or kind is bool or kind is float:
        return value
    if depth > _DEPTH_MAX:
        return UNREADABLE
    if isinstance(value, dict):
        return _masked_object(value, masker, depth)
    if isinstance(value, list | tuple):
        items = [masked(item, masker, depth + 1) for item in value]
        if len(items) > 1 and isinstance(value[0], dict):
            _join_blocks(value, items, masker)
        if all(map(is_, items, value)):
            return value
        return items if isinstance(value, list) else tuple(items)
    return value


def _join_blocks(before: Sequence[Any], items: list[Any], masker: Masker) -> None:
    """Read the text blocks of a message's content together: they are one text (``seams``)."""
    for key in _BLOCK_TEXTS:
        texts = [_block_text(item, key) for item in before]
        kept = [None if text is None else items[n][key] for n, text in enumerate(texts)]
        for place, text in enumerate(joined(texts, kept, masker)):
            if text != kept[place]:
                items[place] = {**items[place], key: text}


def _block_text(item: Any, key: str) -> str | None:
    """The text of ``{"type": …, key: text}``; a message in a list of messages has no type."""
    text = item.get(key) if isinstance(item, dict) and "type" in item else None
    return text if isinstance(text, str) else None


def _masked_number(value: int, masker: Masker) -> Any:
    if not _NUMBER_MIN <= abs(value) < _NUMBER_END:
        return value
    digits = str(value)
    after = masker.mask(digits)
    return value if after == digits else after


def masked_text(text: str, masker: Masker, depth: int = 0) -> str:
    """A text masked: by its leaves when it is JSON, else as a whole."""
    if text[:1] not in _STARTS:
        return masker.mask(text)
    memory = masker.documents
    try:
        known = memory.known[text]
    except KeyError:
        after = _masked_document(text, masker, depth)
        known = None if after == text else after
        memory.keep(text, known)
    return text if known is None else known


def _masked_document(text: str, masker: Masker, depth: int) -> str:
    plain = _BEGINS_AS_JSON.match(text) and not _HOLDS_JSON.search(text)
    if plain and masker.is_clean(text) and not _HOLDS_BLOCKS.search(text) and _is_json(text):
        return text
    parsed = _parsed(text)
    if parsed is None:
        if _BEGINS_AS_JSON.match(text):
            return UNREADABLE
        after = masker.mask(text)
        # A mask begins with a bracket: behind another one the text looks like JSON from now on.
        return UNREADABLE if _BEGINS_AS_JSON.match(after) else after
    (value,) = parsed
    if not isinstance(value, dict | list | str):
        return masker.mask(text)
    after = masked(value, masker, depth + 1)
    if after is value and not _repeats(value):
        return text
    return json.dumps(after, ensure_ascii=False, separators=(",", ":"))


def _is_json(text: str) -> bool:
    try:
        msgspec.json.decode(text, type=msgspec.Raw)
    except (ValueError, RecursionError):
        return False
    return True


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


def _masked_object(value: dict[str, Any], masker: Masker, depth: int) -> Any:
    if len(value) == 1 and isinstance(value.get(_BYTES), str):
        return _masked_bytes(value, masker)
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


def _masked_bytes(value: dict[str, str], masker: Masker) -> Any:
    encoded = value[_BYTES]
    after = masker.bytes(encoded)
    if after == encoded:
        return value
    return after if after == BINARY else {_BYTES: after}


def _member(name: Any, item: Any, masker: Masker, depth: int) -> Any:
    if isinstance(name, str) and masker.names_secret(name):
        return by_key(item, masker)
    return masked(item, masker, depth + 1)


def by_key(value: Any, masker: Masker) -> Any:
    """What stands for a value under a key that names a secret; nothing stays nothing."""
    if value in (None, "") or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return value if is_substitute(value) else masker.secret(value)
    return masker.secret(json.dumps(value, ensure_ascii=False, sort_keys=True, default=str))


def _numbered(name: str) -> Iterator[str]:
    number = 2
    while True:
        yield f"{name}#{number}"
        number += 1
