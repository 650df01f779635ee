"""What an approver sees of a call: every name and every value, in a form nothing can hide in.

**Rules**
1. Every leaf has a line of its own, named by its JSON pointer: nesting hides nothing. A long text
   shows its head, its length and its digest, and takes no room from the others.
2. What is invisible, blank or turns the direction of text is spelt out: categories C*, Zl, Zp,
   every space but the plain one, and what Unicode says is ignored by default.
3. A name of other than plain characters stands in quotes, so that none can pass for a line.
4. What is too large to be judged, or cannot be read, is not shown in part: it is Unshowable.
"""

import json
import re
import unicodedata
from collections.abc import Iterator
from typing import Any

from processors.model.call import Action
from sidecar.canonical import sha256
from sidecar.gateway.content import FORM

LINES_MAX = 200
CHARS_MAX = 20_000
_TEXT_CHARS_MAX = 200
_PLAIN = re.compile(r"[A-Za-z0-9_.~/-]+\Z")
_UNSHOWN_HEADERS = frozenset({"accept", "accept-language", "content-type"})
_BLANK = 0x2800  # a braille pattern without dots
# Default_Ignorable_Code_Point (Unicode DerivedCoreProperties) beyond the categories above.
_IGNORED = (
    *((0x034F, 0x034F), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F), (0x2065, 0x2065)),
    *((0x3164, 0x3164), (0xFE00, 0xFE0F), (0xFFA0, 0xFFA0), (0xFFF0, 0xFFF8)),
    *((0xE0000, 0xE0FFF), (_BLANK, _BLANK)),
)


class Unshowable(Exception):
    """The call cannot be put before a person; ``code`` says why."""

    def __init__(self, code: str) -> None:
        self.code = code
        super().__init__(code)


def summary(action: Action, body: Any = None) -> str:
    """The lines of an action; ``body`` is a JSON body that is no object. Raises Unshowable."""
    if action.body_digest and action.body_jcs_digest is None and action.media_type != FORM:
        raise Unshowable("approval_unreadable")
    lines: list[str] = []
    size = 0
    for line in _lines(action, body):
        shown = visible(line)
        size += len(shown) + 1
        if len(lines) == LINES_MAX or size > CHARS_MAX:
            raise Unshowable("approval_too_large")
        lines.append(shown)
    return "\n".join(lines)


def visible(text: str) -> str:
    """The text with every character that would not be seen as itself spelt out."""
    return "".join(f"\\u{{{ord(one):04x}}}" if _hides(one) else one for one in text)


def _lines(action: Action, body: Any) -> Iterator[str]:
    yield f"tool: {action.tool} ({action.class_}) on {action.upstream}"
    yield f"request: {action.method} {action.path}"
    yield f"agent: {action.agent} of project {action.tenant}"
    if action.on_behalf_of:
        yield f"on behalf of: {_quoted(action.on_behalf_of)}"
    if action.cost_amount is not None:
        yield f"amount: {action.cost_amount} {action.cost_currency or ''}".rstrip()
    for name, value in action.headers:
        if name not in _UNSHOWN_HEADERS:
            yield f"header {name}: {_text(value)}"
    for name in sorted(action.arguments):
        yield from _leaves(f"/{_escaped(name)}", action.arguments[name])
    if body is not None and not isinstance(body, dict):
        yield from _leaves("body", body)
    if action.body_digest is not None:
        yield f"body: {action.body_jcs_digest or action.body_digest}"


def _leaves(pointer: str, value: Any) -> Iterator[str]:
    if value and isinstance(value, dict):
        for name in sorted(value):
            yield from _leaves(f"{pointer}/{_escaped(name)}", value[name])
    elif value and isinstance(value, list | tuple):
        for place, item in enumerate(value):
            yield from _leaves(f"{pointer}/{place}", item)
    else:
        name = pointer if _PLAIN.match(pointer) else _quoted(pointer)
        yield f"{name} = {_text(value) if isinstance(value, str) else json.dumps(value)}"


def _text(value: str) -> str:
    if len(value) <= _TEXT_CHARS_MAX:
        return _quoted(value)
    digest = sha256(value.encode("utf-8", "surrogatepass"))
    return f"{_quoted(value[:_TEXT_CHARS_MAX])}… ({len(value)} characters, {digest})"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def _hides(character: str) -> bool:
    if character.isascii():
        return not character.isprintable()
    category = unicodedata.category(character)
    if category[0] in "CZ":
        return True
    code = ord(character)
    return any(first <= code <= last for first, last in _IGNORED)
