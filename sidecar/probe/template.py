"""URL templates of probes: ``/orders/{arguments.order_id}?full={step.step_id}``.

Rules
1. A value is encoded for its place: as one path segment's part, or as a query value.
2. A value that could move the request elsewhere is refused, not repaired: in a path one that is
   empty, or holds ``/ ? # \\``, ``..`` or a control character.
3. Scheme, host and port are literal; a template in them is refused at load.
4. In a URI of another scheme (an MCP resource) every value is one segment's part.

Source: docs/reference, "probes".
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

from msgspec import Struct

ROOTS: Final = ("arguments", "step", "trace")
_PLACE = re.compile(r"\{([^{}]*)\}")
_NAME = re.compile(r"(?:arguments|step|trace)(?:\.[A-Za-z_][A-Za-z0-9_]*)+\Z")
_LITERAL = re.compile(r"[!$-;=?-Z_a-z~@]*\Z")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^{]")
_REFUSED_IN_PATH = re.compile(r"[/?#\\\x00-\x1f\x7f-\x9f]|\.\.")


class TemplateInvalid(ValueError):
    """The text cannot become a template; the message says why."""


class ValueRefused(ValueError):
    """A value that may not be put into a URL, or that is not there; the message is a code."""


class _Place(Struct, frozen=True):
    path: tuple[str, ...]
    in_query: bool


class Template(Struct, frozen=True):
    """A path and query with places for values; make one with ``read_template``."""

    text: str
    parts: tuple[str | _Place, ...]

    @property
    def roots(self) -> frozenset[str]:
        """Which of arguments, step and trace the template asks for."""
        return frozenset(part.path[0] for part in self.parts if isinstance(part, _Place))

    def fill(self, bindings: Mapping[str, Any]) -> str:
        """The path and query for these values. Raises ValueRefused."""
        return "".join(
            part if isinstance(part, str) else _encoded(part, bindings) for part in self.parts
        )


def look_up(path: Sequence[str], bindings: Mapping[str, Any]) -> Any:
    """The value at a path of member names; None where there is none."""
    value: Any = bindings
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def read_template(text: str, *, uri: bool = False) -> Template:
    """The template of a path and query that starts with ``/``, or of a whole ``uri`` whose scheme
    is literal. Raises TemplateInvalid."""
    if uri and not _SCHEME.match(text):
        raise TemplateInvalid("must be a URI with a scheme, such as crm://tickets/{arguments.id}")
    if not uri and not text.startswith("/"):
        raise TemplateInvalid("must start with /")
    parts: list[str | _Place] = []
    position = 0
    for match in _PLACE.finditer(text):
        parts.append(_literal(text[position : match.start()]))
        if not _NAME.match(match[1]):
            raise TemplateInvalid(f"{{{match[1]}}} is no value; write e.g. {{arguments.order_id}}")
        in_query = "?" in text[: match.start()]
        parts.append(_Place(tuple(match[1].split(".")), in_query))
        position = match.end()
    parts.append(_literal(text[position:]))
    return Template(text, tuple(part for part in parts if part))


def _literal(text: str) -> str:
    if not _LITERAL.match(text):
        raise TemplateInvalid(f"{text!r} holds a character that a URL cannot; percent-encode it")
    if ".." in text.partition("?")[0]:
        raise TemplateInvalid("holds ..")
    return text


def _encoded(place: _Place, bindings: Mapping[str, Any]) -> str:
    value = look_up(place.path, bindings)
    if isinstance(value, bool):
        text = "true" if value else "false"
    elif isinstance(value, str | int | float):
        text = str(value)
    else:
        raise ValueRefused("url_value_missing" if value is None else "url_value_not_scalar")
    if not place.in_query and (not text.strip(". ") or _REFUSED_IN_PATH.search(text)):
        raise ValueRefused("url_value_refused")
    try:
        return quote(text, safe="")
    except UnicodeEncodeError:
        raise ValueRefused("url_value_refused") from None
