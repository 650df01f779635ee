"""What a twin declares and nothing uses, and what it leaves open: remarks for its author.

Rules
1. Nothing here makes a twin wrong: each remark is a warning, at the dotted path of its subject.
2. What cannot be known is not said: code of a twin may use any table, flag and argument, and an
   expression that computes a table's name may mean any table.
3. An argument is used where an expression names it, or takes ``arguments`` whole.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct

from processors.redact.masker import names_secret
from sidecar.expression.limits import read_shape
from sidecar.twins.declaration import (
    Declaration,
    DequeueEffect,
    Effect,
    EnqueueEffect,
    Tool,
)

_READS = re.compile(r"\b(?:row|rows|count|sum)\(")
_ENTITY = re.compile(r"""\b(?:row|rows|count|sum)\(\s*["']([^"']*)["']""")
_WAITING = re.compile(r"\bwaiting\(")
_QUEUE = re.compile(r"""\bwaiting\(\s*["']([^"']*)["']""")


class Remark(Struct, frozen=True, kw_only=True):
    """Something its author should know of a twin: where (dotted), and what; a note tells what the
    author said.
    """

    path: str
    text: str
    severity: Literal["warning", "note"] = "warning"


def remarks(twin: Declaration) -> tuple[Remark, ...]:
    """All there is to say of a twin without problems."""
    return (*_tables(twin), *_queues(twin), *_flags(twin), *_tools(twin), *_open(twin))


def texts_of(value: Any) -> Iterator[str]:
    """The CEL texts of an expression as the format writes it."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from texts_of(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from texts_of(item)


def _tables(twin: Declaration) -> Iterator[Remark]:
    texts = _all_texts(twin)
    named = {name for text in texts for name in _ENTITY.findall(text)}
    computed = any(len(_READS.findall(text)) > len(_ENTITY.findall(text)) for text in texts)
    named |= {getattr(effect, "entity", "") for effect in _all_effects(twin)}
    named |= {one.entity for tool in twin.tools for one in tool.observe}
    for name, entity in twin.entities.items():
        if not (twin.code or computed or name in named):
            yield _remark(f"entities.{name}", "no tool, queue or fault uses this table")
        if not entity.schema:
            yield _remark(f"entities.{name}", "its rows have no schema: any row is taken")


def _queues(twin: Declaration) -> Iterator[Remark]:
    texts, effects = _all_texts(twin), _all_effects(twin)
    computed = any(len(_WAITING.findall(text)) > len(_QUEUE.findall(text)) for text in texts)
    filled = {effect.queue for effect in effects if isinstance(effect, EnqueueEffect)}
    read = {name.rpartition(".")[2] for text in texts for name in _QUEUE.findall(text)}
    read |= {effect.queue for effect in effects if isinstance(effect, DequeueEffect)}
    for name, queue in twin.queues.items():
        path = f"queues.{name}"
        if name not in filled:
            yield _remark(path, "nothing puts a message into this queue")
        elif queue.handle is None and not computed and name not in read:
            yield _remark(path, "its messages are neither handled, taken out nor looked at")


def _flags(twin: Declaration) -> Iterator[Remark]:
    if twin.code is not None:
        return
    texts = _all_texts(twin)
    for name in twin.flags:
        if not _member_used("flags", name, texts):
            yield _remark(f"flags.{name}", "no expression reads this flag")


def _tools(twin: Declaration) -> Iterator[Remark]:
    unenforced = frozenset(one.what for one in twin.unenforced)
    for index, tool in enumerate(twin.tools):
        path = f"tools.{index}"
        for place, name in enumerate(tool.let):
            later = [*list(tool.let.values())[place + 1 :], *_after_let(tool)]
            if not any(name in _variables(text) for text in texts_of(later)):
                yield _remark(f"{path}.let.{name}", "no expression of the tool uses this name")
        if not _written_here(twin, tool):
            continue
        if tool.has_effect and not tool.arguments.schema:
            yield _remark(path, "its arguments have no schema: any argument is taken")
        yield from _arguments(path, tool, unenforced)


def _arguments(path: str, tool: Tool, unenforced: frozenset[str]) -> Iterator[Remark]:
    texts = list(texts_of([*tool.let.values(), *_after_let(tool)]))
    declared = tool.arguments.schema.get("properties")
    for name in declared if isinstance(declared, dict) else ():
        if f"{tool.name}.{name}" in unenforced:
            continue
        if not _member_used("arguments", name, texts):
            yield _remark(
                f"{path}.arguments.schema.properties.{name}",
                f"nothing depends on this argument: list {tool.name}.{name} under unenforced",
            )


def _written_here(twin: Declaration, tool: Tool) -> bool:
    """Whether what the tool does stands in the document, and not in code."""
    return twin.code is None or bool(tool.let or tool.effects or tool.response.body is not None)


def _open(twin: Declaration) -> Iterator[Remark]:
    if twin.fidelity is None:
        yield _remark("", "it has no fidelity: say what the twin is faithful about, and what not")
    for index, one in enumerate(twin.unenforced):
        text = f"not enforced: {one.what}{f' ({one.why})' if one.why else ''}"
        yield Remark(path=f"unenforced.{index}", text=text, severity="note")
    for entity, declared in twin.entities.items():
        properties = declared.schema.get("properties")
        fields = dict.fromkeys(properties if isinstance(properties, dict) else ())
        fields.update(dict.fromkeys(name for row in declared.rows for name in row))
        for name in fields:
            if names_secret(str(name)) and f"{entity}.{name}" not in twin.secrets:
                path = f"entities.{entity}.schema.properties.{name}"
                yield _remark(path, f"{entity}.{name} looks like a secret and is not declared one")


def _member_used(variable: str, name: str, texts: Sequence[str]) -> bool:
    """Whether ``variable.name`` is read, or the variable is taken whole."""
    quoted = re.escape(name)
    member = re.compile(rf"""\b{variable}(?:\.{quoted}\b|\[\s*["']{quoted}["']\s*\])""")
    any_member = re.compile(rf"""\b{variable}(?:\.\w|\[\s*["'])""")
    for text in texts:
        whole = _variables(text).count(variable) > len(any_member.findall(text))
        if whole or member.search(text):
            return True
    return False


def _variables(text: str) -> list[str]:
    return [one.text for one in read_shape(text).variables]


def _after_let(tool: Tool) -> list[Any]:
    return [
        *((one.require, one.body) for one in tool.preconditions),
        *map(_of_effect, tool.effects),
        tool.response.body,
        tool.effect_key,
        *((one.rows, one.flags) for one in tool.observe),
    ]


def _of_effect(effect: Effect) -> list[Any]:
    """The expressions of an effect."""
    names = ("when", "key", "values", "value", "by", "message")
    return [found for name in names if (found := getattr(effect, name, None)) not in (None, "")]


def _all_effects(twin: Declaration) -> list[Effect]:
    of_tools = [effect for tool in twin.tools for effect in tool.effects]
    handles = [queue.handle for queue in twin.queues.values() if queue.handle is not None]
    return [*of_tools, *(effect for handle in handles for effect in handle.effects)]


def _all_texts(twin: Declaration) -> list[str]:
    handles = [queue.handle for queue in twin.queues.values() if queue.handle is not None]
    whole = [
        *((list(tool.let.values()), _after_let(tool)) for tool in twin.tools),
        *((list(one.let.values()), list(map(_of_effect, one.effects))) for one in handles),
        *(fault.when.while_ for fault in twin.faults if fault.when.while_),
    ]
    return list(texts_of(whole))


def _remark(path: str, text: str) -> Remark:
    return Remark(path=path, text=text)
