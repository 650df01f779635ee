"""A tool as an MCP server defines it: what is pinned of it, and what it may not be.

**Rules**
1. The digest covers everything that a model or a person reads of a tool, unchanged: server, name,
   title, description, schemas, annotations. Another digest is another tool until it is reviewed.
2. A server's annotations are claims: they make the treatment of a tool stricter, never laxer.
3. Names are told apart by their characters alone, within the protocol's set; what a person cannot
   see in a description is named, and taken out only where it is shown.
"""

import re
import unicodedata
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from processors.model.names import SideEffectClass
from sidecar.canonical import NotCanonical, canonical, digest

Standing = Literal["pinned", "drifted", "new", "gone", "unusable"]
COVERED = ("name", "title", "description", "inputSchema", "outputSchema", "annotations", "_meta")
_NAME = re.compile(r"[A-Za-z0-9_./-]{1,128}\Z")
_INVISIBLE = frozenset({"Cf", "Cc", "Co", "Cn", "Zl", "Zp"})
_HINTS = ("destructiveHint", "idempotentHint", "openWorldHint", "readOnlyHint")
_ORDER: tuple[SideEffectClass, ...] = ("read", "write", "irreversible")


def definition_digest(server: str, definition: Mapping[str, Any]) -> str | None:
    """``sha256:<hex>`` of a definition, domain ``agwd/1``; None where it has no canonical form."""
    covered = {key: definition[key] for key in COVERED if key in definition}
    try:
        return digest({"v": 1, "server": server, **covered}, domain="agwd/1")
    except NotCanonical:
        return None


def unusable_name(name: Any) -> str | None:
    """Why a name cannot be a tool's, or None."""
    if not isinstance(name, str) or not _NAME.match(name):
        return "a tool's name is 1 to 128 of A-Z, a-z, 0-9, _, -, . and /"
    if any(part in ("", ".", "..") for part in name.split("/")):
        return "a tool's name has no empty or dotted part"
    return None


def confusable(names: Iterable[str]) -> dict[str, str]:
    """The names that differ from another only by case or by ``-``, ``_``, ``.``, with that one."""
    seen: dict[str, str] = {}
    found = {}
    for name in sorted(names):
        folded = re.sub(r"[-_.]", "_", name.casefold())
        if folded in seen:
            found[name] = seen[folded]
        seen.setdefault(folded, name)
    return found


def claims(annotations: Any) -> dict[str, bool]:
    """What a server claims of a tool, for policy: the protocol's hints, as far as they are said."""
    if not isinstance(annotations, Mapping):
        return {}
    return {name: annotations[name] for name in _HINTS if isinstance(annotations.get(name), bool)}


def stricter(registered: SideEffectClass, definition: Mapping[str, Any]) -> SideEffectClass:
    """The class of a tool, given what its server claims of it."""
    claims = definition.get("annotations")
    claimed: SideEffectClass = "read"
    if isinstance(claims, Mapping):
        if claims.get("readOnlyHint") is False:
            claimed = "write"
        if claims.get("destructiveHint") is True and claims.get("readOnlyHint") is not True:
            claimed = "irreversible"
    return max(registered, claimed, key=_ORDER.index)


def changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[str, ...]:
    """Which parts of a definition are others now."""
    return tuple(key for key in COVERED if _form(before.get(key)) != _form(after.get(key)))


def suspicious(definition: Mapping[str, Any], names: Iterable[str] = ()) -> tuple[str, ...]:
    """What a reviewer should look at twice; ``names``: the other tools of the server."""
    found = []
    texts = list(_texts({key: definition.get(key) for key in COVERED}))
    if any(unicodedata.category(char) in _INVISIBLE - {"Cc"} for text in texts for char in text):
        found.append("invisible characters")
    if any("<!--" in text for text in texts):
        found.append("an HTML comment")
    description = definition.get("description")
    own = definition.get("name")
    if isinstance(description, str):
        words = set(re.findall(r"[A-Za-z0-9_./-]+", description))
        others = sorted(name for name in names if name != own and "_" in name and name in words)
        found += [f"speaks of the tool {name}" for name in others]
    return tuple(found)


def visible(text: str) -> str:
    """A text for people: what they could not see is spelt out."""
    return "".join(
        f"\\u{{{ord(char):x}}}"
        if unicodedata.category(char) in _INVISIBLE and char != "\n"
        else char
        for char in text
    )


def _form(value: Any) -> bytes:
    try:
        return canonical(value)
    except NotCanonical:
        return repr(value).encode("utf-8", "surrogatepass")


def _texts(value: Any) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield str(key)
            yield from _texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)
