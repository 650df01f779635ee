"""What a twin says of itself beyond how it behaves: which fields are secret, what it is faithful
about, what the real service does and the twin does not.

Rules
1. A property is ``entity`` (all of it), ``entity.field`` (dotted further down) or ``flags``.
2. A scenario may expect only what the twin is faithful about: what is listed as unfaithful never
   is, and where ``faithful`` is given, what is not on it is not.
3. What is not enforced is listed and shown, never dropped.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from msgspec import Struct

from sidecar.errors import Problem
from sidecar.twins.names import FLAGS

_ROW = re.compile(r"""\brow\(\s*["']([^"']+)["'][^()]*\)((?:\.[A-Za-z_]\w*)*)""")
_ENTITY = re.compile(r"""\b(?:row|rows|count|sum)\(\s*["']([^"']+)["']""")
_SUM = re.compile(r"""\bsum\(\s*["']([^"']+)["']\s*,\s*["']([^"']+)["']""")


class Fidelity(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the twin claims to be faithful about (empty: all), and what it is not, with why."""

    faithful: tuple[str, ...] = ()
    unfaithful: dict[str, str] = {}


class Unenforced(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Something the service does and the twin does not; ``what`` may be ``tool.argument``."""

    what: str
    why: str = ""


class Table(Protocol):
    """An entity, as far as its fields are to be known."""

    @property
    def schema(self) -> dict[str, Any]:
        """JSON Schema of a row."""
        ...

    @property
    def rows(self) -> tuple[dict[str, Any], ...]:
        """The initial rows."""
        ...


def claim_problems(
    secrets: tuple[str, ...], fidelity: Fidelity | None, tables: Mapping[str, Table]
) -> Iterator[Problem]:
    """What is wrong with what a twin claims."""
    for index, name in enumerate(secrets):
        where = f"secrets.{index}"
        if "." not in name:
            yield Problem(where, f"{name!r} is no field: write entity.field")
        else:
            yield from _unknown(where, name, tables)
    if fidelity is None:
        return
    for index, name in enumerate(fidelity.faithful):
        yield from _unknown(f"fidelity.faithful.{index}", name, tables)
        if name in fidelity.unfaithful:
            yield Problem(f"fidelity.faithful.{index}", f"{name!r} is unfaithful too")
    for name in fidelity.unfaithful:
        yield from _unknown(f"fidelity.unfaithful.{name}", name, tables)


def secret_fields(secrets: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """Entity to its secret fields."""
    found: dict[str, tuple[str, ...]] = {}
    for name in secrets:
        entity, _, field = name.partition(".")
        found[entity] = (*found.get(entity, ()), field)
    return found


def why_unfaithful(fidelity: Fidelity | None, name: str) -> str | None:
    """Why a property cannot be expected of the twin; None where it can.

    A whole entity can be expected where it is faithful itself, whatever some of its fields are.
    """
    if fidelity is None:
        return None
    for said, why in fidelity.unfaithful.items():
        if _within(name, said):
            return f"the twin is not faithful about {said}{f' ({why})' if why else ''}"
    if fidelity.faithful and not any(
        _within(name, said) or _within(said, name) for said in fidelity.faithful
    ):
        return f"the twin does not claim to be faithful about {name}"
    return None


def properties_of(text: str) -> Iterator[str]:
    """The properties a CEL text over the world names: ``row("orders", …).status`` and the like."""
    for entity, fields in _ROW.findall(text):
        yield f"{entity}{fields}"
    for entity, field in _SUM.findall(text):
        yield f"{entity}.{field}"
    yield from _ENTITY.findall(text)
    if re.search(r"\bflags\b", text):
        yield FLAGS


def _within(name: str, whole: str) -> bool:
    return name == whole or name.startswith(f"{whole}.")


def _unknown(where: str, name: str, tables: Mapping[str, Table]) -> Iterator[Problem]:
    entity, _, field = name.partition(".")
    if entity == FLAGS:
        return
    table = tables.get(entity)
    if table is None:
        known = ", ".join(tables) or "none"
        yield Problem(where, f"there is no entity {entity!r}; known: {known}")
        return
    properties = table.schema.get("properties")
    fields = {*(properties if isinstance(properties, dict) else ())}
    fields |= {key for row in table.rows if isinstance(row, dict) for key in row}
    first = field.partition(".")[0]
    if field and fields and first not in fields:
        yield Problem(where, f"{entity} has no field {first!r}; known: {', '.join(sorted(fields))}")
