"""Which tool the words of a claim mean.

Rules
1. The act decides: a verb that is a tool's own (``cancelled`` for ``cancel_order``), or, where the
   name begins with a verb of mere doing, its object as a verb (``refunded`` for ``issue_refund``).
2. A verb of mere doing (issued, processed, completed) means the tool whose object it is said of; it
   never means a read.
3. The tool with the greatest share of its words named wins; then a tool with effects before a read,
   then the one named first, then the trace's order.
4. Said of the run as a whole ("your request has been completed"), the subject is None.
5. What fits no tool is unbound, and an unbound phrase is no claim.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

from msgspec import Struct

from processors.model.names import SideEffectClass
from processors.model.trace import AgentTrace
from processors.verify.languages.german import GERMAN
from processors.verify.languages.spanish import SPANISH
from processors.verify.subjects import (
    is_reading,
    registered,
    same_tool,
    spellings,
    split_words,
    stem,
    stems,
    words,
)

# Verbs that say only that something was done: what was done is the object's matter.
GENERIC: Final = stems(
    words(
        "issue process complete finish finalise finalize submit initiate execute make perform do"
        " place confirm arrange handle grant go succeed carry credit send create open register"
        " record post start trigger run give provide put set"
    )
)
_WHOLE_VERBS: Final = stems(
    words("process complete finish finalise finalize do handle execute submit fulfil fulfill")
)
_WHOLE_OBJECTS: Final = stems(
    words("request task it that this everything order case transaction action operation inquiry")
)


_NAME_MAX: Final = 80
_TOGETHER_MAX: Final = 64
# A tool may be named in German or Spanish; what is an English word as well stays one.
_TRANSLATED: Final = {
    word: english
    for word, english in {**GERMAN.translations, **SPANISH.translations}.items()
    if word not in words("cargo ticket tickets service meeting upgrade")
}


class Nameable(Struct, frozen=True, kw_only=True):
    """A tool as words can mean it: all stems of its name, and the ``core`` that is its act.

    ``act`` is the core in the name's own words.
    """

    name: str
    stems: frozenset[str]
    core: frozenset[str]
    reading: bool
    act: str = ""


class Unbound(Exception):
    """The words mean no tool and not the run as a whole."""


def nameables(trace: AgentTrace, tools: Mapping[str, SideEffectClass]) -> tuple[Nameable, ...]:
    """The tools words may mean: those of the trace's steps and evidence, then the registry's."""
    names: dict[str, None] = {}
    seen: set[str] = set()
    for step in trace.steps:
        if step.tool is not None and step.tool.name and step.tool.name not in seen:
            seen.add(step.tool.name)
            names[registered(step.tool.name, tools) or step.tool.name] = None
    for item in trace.evidence:
        if item.subject:
            names[registered(item.subject, tools) or item.subject] = None
    names.update(dict.fromkeys(tools))
    found = tuple((name, tools.get(name)) for name in names)
    few = len(found) <= _TOGETHER_MAX and max(map(len, names), default=0) <= _NAME_MAX
    return _together(found) if few else _made(found)


def _made(names: tuple[tuple[str, SideEffectClass | None], ...]) -> tuple[Nameable, ...]:
    return tuple(_remembered(name, class_) for name, class_ in names)


@lru_cache(256)
def _together(names: tuple[tuple[str, SideEffectClass | None], ...]) -> tuple[Nameable, ...]:
    """The tools of one kind of run, made once: an agent's runs have the same tools."""
    return _made(names)


def _remembered(name: str, class_: SideEffectClass | None) -> Nameable:
    return _known(name, class_) if len(name) <= _NAME_MAX else _nameable(name, class_)


@lru_cache(2048)
def _known(name: str, class_: SideEffectClass | None) -> Nameable:
    return _nameable(name, class_)


def _nameable(name: str, class_: SideEffectClass | None) -> Nameable:
    own = split_words(spellings(name)[-1]) or split_words(name)
    parts = [_TRANSLATED.get(part, part) for part in own]
    every = stems(parts)
    head = stem(parts[0]) if parts else ""
    core = (every - GENERIC or every) if head in GENERIC else frozenset([head])
    reading = class_ == "read" or (class_ is None and is_reading(name))
    act = "_".join(part for part, one in zip(own, parts, strict=True) if stem(one) in core)
    return Nameable(name=name, stems=every, core=core, reading=reading, act=act)


def acting(subject: str | None, known: Sequence[Nameable]) -> str | None:
    """The act of a claim's subject in its tool's own words; None where no tool is meant."""
    return next((tool.act for tool in known if tool.name == subject and tool.act), None)


def named_as(name: str, known: Sequence[Nameable]) -> Nameable | None:
    """The tool that a step's name means."""
    exact = next((tool for tool in known if tool.name == name), None)
    return exact or next((tool for tool in known if same_tool(name, tool.name)), None)


def resolve(subject: str, known: Sequence[Nameable]) -> str:
    """The tool a declared subject means; an effect that no tool is named for stays itself."""
    for tool in known:
        if same_tool(subject, tool.name):
            return tool.name
    named = stems(split_words(subject))
    meant = [tool for tool in known if named & tool.core and not tool.reading]
    best = max(meant, key=lambda tool: len(named & tool.stems) / len(tool.stems), default=None)
    return best.name if best is not None else subject


class Words(Struct, frozen=True, kw_only=True):
    """What a phrase says: its ``act`` (None: the object alone tells), the words that are the act's
    own ``object``, and all ``others`` of its clause, each in order."""

    act: str | None
    object: Sequence[str]
    others: Sequence[str]


def bind(said: Words, known: Sequence[Nameable]) -> str | None:
    """The tool that words mean; None = the run as a whole. Raises Unbound."""
    act = stem(said.act) if said.act else None
    objects, others = stems(said.object), [stem(word) for word in said.others]
    meant = [tool for tool in known if _means(tool, act, objects, frozenset(others))]
    if meant:
        named = frozenset([*others, act or ""])
        return max(meant, key=lambda tool: _rank(tool, named, others)).name
    if (act is None or act in _WHOLE_VERBS) and _WHOLE_OBJECTS & objects:
        return None
    raise Unbound


def _means(
    tool: Nameable, act: str | None, objects: frozenset[str], others: frozenset[str]
) -> bool:
    own = tool.core == {act}
    if act is None or (act in GENERIC and not own):
        return not tool.reading and bool(tool.core & objects)
    return act in tool.core or (act in tool.stems and bool((tool.stems - {act}) & others))


def _rank(tool: Nameable, named: frozenset[str], others: list[str]) -> tuple[float, bool, int]:
    first = min((others.index(word) for word in tool.stems if word in others), default=len(others))
    return len(tool.stems & named) / len(tool.stems), not tool.reading, -first
