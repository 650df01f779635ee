"""A YAML document checked against the records it must become: every problem at once, with its line.

Rules
1. YAML is read by the 1.2 core rules: ``no`` and ``off`` are text; a key that stands twice is
   refused.
2. The whole tree is checked before anything is built: msgspec itself would stop at the first
   problem.
3. A problem names its place twice: the dotted path and the line.
4. What would be no JSON is refused: keys that are not text, tags, numbers and texts beyond the
   bounds (``bounded``).
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

import msgspec
import yaml
from msgspec import Struct
from msgspec.inspect import (
    AnyType,
    BoolType,
    DictType,
    FloatType,
    IntType,
    LiteralType,
    NoneType,
    StrType,
    StructType,
    Type,
    UnionType,
    VarTupleType,
    type_info,
)

from sidecar.errors import Problem, SidecarError
from sidecar.expression.bounded import TEXT_CHARS_MAX, Beyond, BoundedLoader, beyond

T = TypeVar("T")


class Document(Struct, frozen=True, kw_only=True):
    """A document's value, and the line of each dotted path in it."""

    name: str
    value: Any
    lines: dict[str, int]

    def line(self, path: str) -> int | None:
        """The line of the path, or of the nearest place above it."""
        while path:
            if path in self.lines:
                return self.lines[path]
            path = path.rpartition(".")[0]
        return self.lines.get("")


class Placed(Struct, frozen=True):
    """A problem and its place: the document's name, the line, the dotted path (or "")."""

    name: str
    line: int | None
    path: str
    text: str


class DocumentInvalid(SidecarError):
    """A document with problems; ``problems`` are all that were found, in order."""

    def __init__(self, name: str, problems: Sequence[Placed]) -> None:
        self.problems = tuple(problems)
        count = "a problem" if len(problems) == 1 else f"{len(problems)} problems"
        lines = [f"{one.name}:{one.line}: {one.path} {one.text}" for one in problems]
        text = f"{name} has {count}:\n  " + "\n  ".join(lines) + "\n"
        super().__init__(text, do="Correct it and run again.")


def read(text: str, *, name: str) -> Document:
    """The document of a YAML text; ``name`` is how messages call it. Raises SidecarError."""
    if len(text) > TEXT_CHARS_MAX:
        raise SidecarError(f"it is longer than {TEXT_CHARS_MAX} characters", where=name)
    try:
        return _read(text, name)
    except Beyond as error:
        raise SidecarError(f"it is refused: {error.problem}", where=_place(name, error)) from None
    except yaml.MarkedYAMLError as error:
        said = error.problem or error.context
        raise SidecarError(f"it is not YAML: {said}", where=_place(name, error)) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        problem = f"the character {error.character!r} is not allowed"
        raise SidecarError(f"it is not YAML: {problem}", where=f"{name}:{line}") from None
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise SidecarError(f"it is not YAML: {error}", where=f"{name}:1") from None


def _read(text: str, name: str) -> Document:
    lines: dict[str, int] = {"": 1}
    loader = _CoreLoader(text)
    try:
        node = loader.get_single_node()
        _index(node, "", lines)
        value = loader.construct_document(node) if node is not None else {}
    finally:
        loader.dispose()
    return Document(name=name, value=value, lines=lines)


def _place(name: str, error: yaml.MarkedYAMLError) -> str:
    mark = error.problem_mark or error.context_mark
    return f"{name}:{mark.line + 1}" if mark else name


def convert(document: Document, kind: type[T]) -> T:
    """The document as ``kind``. Raises SidecarError that lists every problem of shape."""
    report(document, list(shape_problems(type_info(kind), document.value, "")))
    try:
        return msgspec.convert(document.value, kind)
    except msgspec.ValidationError as error:
        raise SidecarError(f"it is not right: {error}", where=document.name) from None


def report(document: Document, problems: list[Problem]) -> None:
    """Raises DocumentInvalid with all of ``problems`` and their lines, if there are any."""
    if not problems:
        return
    placed = [
        Placed(document.name, document.line(problem.path), problem.path, problem.text)
        for problem in problems
    ]
    raise DocumentInvalid(document.name, placed)


def shape_problems(kind: Type, value: Any, path: str) -> Iterator[Problem]:
    """Every place where ``value`` has not the shape of ``kind``."""
    if isinstance(kind, StructType):
        yield from _struct_problems(kind, value, path)
    elif isinstance(kind, VarTupleType):
        yield from _list_problems(kind, value, path)
    elif isinstance(kind, UnionType):
        yield from _union_problems(kind, value, path)
    elif isinstance(kind, DictType):
        yield from _mapping_problems(kind, value, path)
    elif isinstance(kind, LiteralType):
        if not any(type(value) is type(one) and value == one for one in kind.values):
            words = ", ".join(map(str, kind.values))
            yield Problem(path, f"must be one of {words}, not {value!r}")
    elif not isinstance(kind, AnyType) and not _fits(kind, value):
        yield Problem(path, f"must be {_called(kind)}, not {value!r}")


def _struct_problems(kind: StructType, value: Any, path: str) -> Iterator[Problem]:
    if not isinstance(value, dict):
        yield Problem(path, "must be a mapping")
        return
    fields = {field.encode_name: field for field in kind.fields}
    for name in value:
        if name not in fields and name != kind.tag_field:
            known = ", ".join(sorted(fields))
            yield Problem(_below(path, name), f"is unknown; known: {known}")
    for name, field in fields.items():
        if name in value:
            yield from shape_problems(field.type, value[name], _below(path, name))
        elif field.required:
            yield Problem(_below(path, name), "is missing")


def _list_problems(kind: VarTupleType, value: Any, path: str) -> Iterator[Problem]:
    if not isinstance(value, list):
        yield Problem(path, "must be a list")
        return
    for index, item in enumerate(value):
        yield from shape_problems(kind.item_type, item, _below(path, str(index)))


def _mapping_problems(kind: DictType, value: Any, path: str) -> Iterator[Problem]:
    if not isinstance(value, dict):
        yield Problem(path, "must be a mapping")
        return
    for name, item in value.items():
        if not isinstance(name, str):
            yield Problem(_below(path, str(name)), "must have text as its name: quote it")
        yield from shape_problems(kind.value_type, item, _below(path, str(name)))


def _union_problems(kind: UnionType, value: Any, path: str) -> Iterator[Problem]:
    tagged = {one.tag: one for one in kind.types if isinstance(one, StructType) and one.tag}
    if tagged:
        yield from _tagged_problems(tagged, value, path)
        return
    structs = [one for one in kind.types if isinstance(one, StructType)]
    if isinstance(value, dict) and structs:
        yield from shape_problems(structs[0], value, path)
    elif not any(not list(shape_problems(one, value, path)) for one in kind.types):
        yield Problem(
            path, f"must be {' or '.join(_called(one) for one in kind.types)}, not {value!r}"
        )


def _tagged_problems(
    tagged: Mapping[str | int, StructType], value: Any, path: str
) -> Iterator[Problem]:
    name = next(iter(tagged.values())).tag_field or "type"
    if not isinstance(value, dict):
        yield Problem(path, f"must be a mapping with {name}")
        return
    tag = value.get(name)
    if not isinstance(tag, str) or tag not in tagged:
        known = ", ".join(sorted(map(str, tagged)))
        said = "is missing" if name not in value else f"{tag!r} is unknown"
        yield Problem(_below(path, name), f"{said}; known: {known}")
        return
    yield from _struct_problems(tagged[tag], value, path)


def _fits(kind: Type, value: Any) -> bool:
    if isinstance(kind, NoneType):
        return value is None
    if isinstance(kind, BoolType):
        return isinstance(value, bool)
    if isinstance(kind, IntType):
        return isinstance(value, int) and not isinstance(value, bool)
    if isinstance(kind, FloatType):
        return isinstance(value, int | float) and not isinstance(value, bool)
    assert isinstance(kind, StrType), kind
    return isinstance(value, str)


def _called(kind: Type) -> str:
    words = {
        NoneType: "nothing",
        BoolType: "true or false",
        IntType: "a whole number",
        FloatType: "a number",
        StrType: "text",
        VarTupleType: "a list",
        DictType: "a mapping",
        StructType: "a mapping",
    }
    if isinstance(kind, LiteralType):
        return "one of " + ", ".join(map(str, kind.values))
    return words.get(type(kind), "a value")


def _below(path: str, name: Any) -> str:
    return f"{path}.{name}" if path else str(name)


class _CoreLoader(BoundedLoader):
    """The bounded loader with YAML 1.2 core scalars, and no others."""


_SCALARS = {f"tag:yaml.org,2002:{name}" for name in ("str", "int", "float", "bool", "null")}
_MAPPING, _SEQUENCE = {"tag:yaml.org,2002:map"}, {"tag:yaml.org,2002:seq"}
_TEXT = "tag:yaml.org,2002:str"
_CoreLoader.add_constructor("tag:yaml.org,2002:int", lambda _, node: int(node.value))
_CoreLoader.add_constructor("tag:yaml.org,2002:float", lambda _, node: float(node.value))
_CoreLoader.yaml_implicit_resolvers = {}
for _tag, _pattern, _first in (
    ("tag:yaml.org,2002:bool", r"^(?:true|True|TRUE|false|False|FALSE)$", "tTfF"),
    ("tag:yaml.org,2002:null", r"^(?:~|null|Null|NULL|)$", ["~", "n", "N", ""]),
    ("tag:yaml.org,2002:int", r"^[-+]?[0-9]+$", "-+0123456789"),
    (
        "tag:yaml.org,2002:float",
        r"^[-+]?(?:\.[0-9]+|[0-9]+\.[0-9]*|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?$",
        "-+0123456789.",
    ),
):
    _CoreLoader.add_implicit_resolver(_tag, re.compile(_pattern), list(_first))


def _check_tag(node: yaml.Node) -> None:
    if isinstance(node, yaml.ScalarNode):
        allowed = _SCALARS
    else:
        allowed = _MAPPING if isinstance(node, yaml.MappingNode) else _SEQUENCE
    if node.tag not in allowed:
        raise beyond(f"the tag {node.tag} is not taken; leave it out", node)


def _index(node: yaml.Node | None, path: str, lines: dict[str, int]) -> None:
    if node is None:
        return
    lines.setdefault(path, node.start_mark.line + 1)
    _check_tag(node)
    if isinstance(node, yaml.MappingNode):
        seen = set()
        for key, value in node.value:
            name = str(key.value)
            if not isinstance(key, yaml.ScalarNode) or key.tag != _TEXT:
                raise beyond(f"key {name[:80]!r} is not text: quote it", key)
            if name in seen:
                raise yaml.MarkedYAMLError(
                    problem=f"key {name!r} stands twice", problem_mark=key.start_mark
                )
            seen.add(name)
            below = _below(path, name)
            lines[below] = key.start_mark.line + 1
            _index(value, below, lines)
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            _index(value, _below(path, str(index)), lines)
