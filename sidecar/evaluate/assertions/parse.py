"""Assertions of a YAML document: ``assertions: [{spec, args, id}]``; every problem with its line.

Rules
1. The whole document is checked before any assertion is made.
2. A key that is no field of its spec is refused; nothing is guessed.
"""

from collections.abc import Iterator
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.inspect import StructType, type_info

from sidecar.errors import Problem
from sidecar.evaluate.assertions.specs import DEPTH_MAX, SPEC_OF, SPECS, Assertion, problems
from sidecar.expression.document import Document, read, report, shape_problems

_MANY: Final = "of"
_TOP: Final = ("spec", "args", "id")


class Named(Struct, frozen=True, kw_only=True):
    """An assertion by an id that is unique in its document."""

    id: str
    assertion: Assertion


def assertions_of(text: str, *, name: str) -> tuple[Named, ...]:
    """The assertions of a YAML text. Raises SidecarError with every problem and its line."""
    document = read(text, name=name)
    value = document.value
    report(document, list(_frame(value)))
    found: list[Problem] = []
    named: list[Named] = []
    for number, item in enumerate(value["assertions"]):
        path = f"assertions.{number}"
        one = _assertion(item, path, found, _TOP)
        if one is None:
            continue
        said = item.get("id") or f"{SPEC_OF[type(one)]}-{number + 1}"
        if any(each.id == said for each in named):
            found.append(Problem(f"{path}.id", f"{said!r} stands twice"))
        named.append(Named(id=said, assertion=one))
    _tell(document, found)
    for number, each in enumerate(named):
        found += [_in_args(one) for one in problems(each.assertion, f"assertions.{number}")]
    _tell(document, found)
    return tuple(named)


def _tell(document: Document, found: list[Problem]) -> None:
    report(document, sorted(found, key=lambda one: document.line(one.path) or 0))


def _frame(value: Any) -> Iterator[Problem]:
    if not isinstance(value, dict) or "assertions" not in value:
        yield Problem("assertions", "is missing: a list of {spec, args}")
        return
    yield from (
        Problem(key, "is unknown; known: assertions") for key in value if key != "assertions"
    )
    if not isinstance(value["assertions"], list) or not value["assertions"]:
        yield Problem("assertions", "must be a list of one or more {spec, args}")


def _assertion(
    item: Any, path: str, found: list[Problem], known: tuple[str, ...]
) -> Assertion | None:
    """One assertion, or None with its problems in ``found``."""
    before = len(found)
    if not isinstance(item, dict):
        found.append(Problem(path, "must be a mapping with spec"))
        return None
    if path.count(".args.") > DEPTH_MAX:
        found.append(Problem(path, f"is more than {DEPTH_MAX} deep"))
        return None
    for key in item:
        if key not in known:
            found.append(Problem(f"{path}.{key}", f"is unknown; known: {', '.join(known)}"))
    if not isinstance(item.get("id", ""), str):
        found.append(Problem(f"{path}.id", "must be text"))
    spec, args = item.get("spec"), item.get("args", {})
    if not isinstance(spec, str) or spec not in SPECS:
        said = f"{spec!r} is unknown" if "spec" in item else "is missing"
        found.append(Problem(f"{path}.spec", f"{said}; known: {', '.join(SPECS)}"))
        return None
    if not isinstance(args, dict):
        found.append(Problem(f"{path}.args", "must be a mapping"))
        return None
    values = _values(SPECS[spec], args, f"{path}.args", found)
    return SPECS[spec](**values) if len(found) == before else None


def _values(
    kind: type[Assertion], args: dict[str, Any], path: str, found: list[Problem]
) -> dict[str, Any]:
    shape = type_info(kind)
    assert isinstance(shape, StructType)
    fields = {field.encode_name: field for field in shape.fields}
    values: dict[str, Any] = {}
    for key in args:
        if key not in fields:
            known = ", ".join(fields) or "none"
            found.append(Problem(f"{path}.{key}", f"is unknown; known: {known}"))
    for key, field in fields.items():
        place = f"{path}.{key}"
        if key not in args:
            if field.required:
                found.append(Problem(place, "is missing"))
        elif _is_below(kind, key):
            values[key] = _below(args[key], key, place, found)
        else:
            wrong = list(shape_problems(field.type, args[key], place))
            found += wrong
            if not wrong:
                values[key] = msgspec.convert(args[key], _type_of(kind, key))
    return values


def _is_below(kind: type[Assertion], key: str) -> bool:
    annotation = kind.__annotations__[key]
    return annotation in (Assertion, tuple[Assertion, ...])


def _below(value: Any, key: str, path: str, found: list[Problem]) -> Any:
    if key != _MANY:
        return _assertion(value, path, found, ("spec", "args"))
    if not isinstance(value, list):
        found.append(Problem(path, "must be a list of {spec, args}"))
        return ()
    return tuple(
        _assertion(item, f"{path}.{n}", found, ("spec", "args")) for n, item in enumerate(value)
    )


def _type_of(kind: type[Assertion], key: str) -> Any:
    return kind.__annotations__[key]


def _in_args(one: Problem) -> Problem:
    """A record's place as the document has it: each assertion's fields are below ``args``."""
    head, number, *rest = one.path.split(".")
    parts = [head, number]
    for place, step in enumerate(rest):
        if not step.isdigit() or rest[place - 1] != _MANY:
            parts.append("args")
        parts.append(step)
    return Problem(".".join(parts), one.text)
