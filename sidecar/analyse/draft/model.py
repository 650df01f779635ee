"""What drafting a twin comes to: the document, what each of its rules rests on, what was left out.

Rules
1. Every rule of the document has its support: how many observations bear it, how many speak against
   it, and where some of them stand.
2. What has too little support, or observations against it, is no rule; it is told as left out, and
   the twin answers TwinGap there.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from processors.model.names import SideEffectClass
from sidecar.gateway.config import Tool
from sidecar.twins.declaration import Declaration
from sidecar.twins.twin import Twin

SUPPORT = 3
EXAMPLES_MAX = 3


class Asked(Struct, frozen=True, kw_only=True):
    """What is known of a tool beside its traffic: a registry's entry. Empty: nobody says."""

    match: dict[str, Any] = {}
    class_: SideEffectClass | None = None
    upstream: str = ""


class Support(Struct, frozen=True, kw_only=True):
    """``n`` observations for, ``against`` against; ``examples`` are ``run#seq`` of some."""

    n: int
    against: int = 0
    examples: tuple[str, ...] = ()


class Rule(Struct, frozen=True, kw_only=True):
    """One rule: the part of the twin it stands in (a tool, or an entity), what it says, support."""

    part: str
    says: str
    support: Support


class LeftOut(Struct, frozen=True, kw_only=True):
    """What is no rule of the twin, and why."""

    part: str
    what: str
    why: str
    support: Support


class Draft(Struct, frozen=True, kw_only=True):
    """A drafted twin: its document (``twin.yaml``), its rules, and what was left out.

    ``as_of``: when the newest of its runs was recorded, empty where nobody knows.
    """

    document: dict[str, Any]
    rules: tuple[Rule, ...]
    left_out: tuple[LeftOut, ...]
    runs: int
    calls: int
    as_of: str = ""

    def declaration(self) -> Declaration:
        """The document as a declaration."""
        return msgspec.convert(self.document, Declaration)

    def twin(self) -> Twin:
        """The drafted twin, compiled; it has no problems."""
        return Twin(self.declaration())

    def tools(self) -> dict[str, int]:
        """Of each drafted tool, how many rules it has; a tool with none answers TwinGap alone."""
        rules = [one.part for one in self.rules]
        return {
            tool["name"]: rules.count(tool["name"]) if "response" in tool else 0
            for tool in self.document["tools"]
        }


def supported(n: int, against: int, examples: Sequence[str] = ()) -> Support:
    """A support with its first examples."""
    return Support(n=n, against=against, examples=tuple(examples)[:EXAMPLES_MAX])


def asked_of(tools: Iterable[Tool]) -> dict[str, Asked]:
    """What a registry knows of tools that are reached over HTTP."""
    return {
        one.name: Asked(
            match={"method": one.match.method, "path": one.match.path} if one.match.path else {},
            class_=one.class_,
            upstream=one.upstream,
        )
        for one in tools
    }


def nothing_known() -> Mapping[str, Asked]:
    """What is known of tools where nobody says anything."""
    return {}
