"""Revisions of a configuration: axes of prompts, models, schemas, policies, twins, oldest first.

**Rules**
1. The whole document is checked before anything runs; every problem has its line.
2. A revision is a text, a ``file`` beside the document, or a ``value`` that is handed on as JSON.
3. A bare number is refused: 1.10 is not 1.1 where it names a version.
4. The first revision of an axis is that of the good end, the last that of the bad one.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from sidecar.errors import Problem
from sidecar.expression.document import convert, read, report

_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
REVISIONS_MAX = 1000


class Revision(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One revision by its name; one of ``file`` and ``value``."""

    name: str
    file: str | None = None
    value: Any = None


class Axis(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One thing that was revised. ``to``: where in a commit's tree its file is laid."""

    name: str
    revisions: tuple[str | Revision, ...]
    to: str | None = None

    def revision(self, at: int) -> Revision:
        """A revision; a text is its own name and value."""
        one = self.revisions[at]
        return Revision(name=one, value=one) if isinstance(one, str) else one


class Axes(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The document."""

    axes: tuple[Axis, ...]


def axes_of(text: str, *, name: str) -> tuple[Axis, ...]:
    """The axes of a YAML text. Raises SidecarError with every problem and its line."""
    document = read(text, name=name)
    found = convert(document, Axes).axes
    report(document, list(_problems(found)))
    return found


def text_of(revision: Revision) -> str:
    """What stands for a revision without a file: its text, or JSON."""
    if isinstance(revision.value, str):
        return revision.value
    return json.dumps(revision.value, ensure_ascii=False, sort_keys=True)


def filled(argv: tuple[str, ...], values: dict[str, str]) -> tuple[str, ...]:
    """A command line with ``{axis}`` replaced; braces around anything else stay."""
    if not values:
        return argv
    places = re.compile("|".join(re.escape(f"{{{name}}}") for name in values))
    return tuple(places.sub(lambda found: values[found[0][1:-1]], one) for one in argv)


def _problems(axes: tuple[Axis, ...]) -> Iterator[Problem]:
    if not axes:
        yield Problem("axes", "must be a list of one or more axes")
    names = set()
    for number, axis in enumerate(axes):
        path = f"axes.{number}"
        if not _NAME.fullmatch(axis.name):
            yield Problem(f"{path}.name", "must be lower-case letters, digits and _")
        if axis.name in names:
            yield Problem(f"{path}.name", f"{axis.name!r} stands twice")
        names.add(axis.name)
        if axis.to is not None and _leaves(axis.to):
            yield Problem(f"{path}.to", "must be a path inside the tree")
        if not 2 <= len(axis.revisions) <= REVISIONS_MAX:
            yield Problem(f"{path}.revisions", f"must be 2 to {REVISIONS_MAX}, oldest first")
        yield from _revision_problems(axis, path)


def _revision_problems(axis: Axis, path: str) -> Iterator[Problem]:
    seen = set()
    for number in range(len(axis.revisions)):
        one, place = axis.revision(number), f"{path}.revisions.{number}"
        if one.name in seen:
            yield Problem(place, f"{one.name!r} stands twice")
        seen.add(one.name)
        if (one.file is None) == (one.value is None):
            yield Problem(place, "must have one of file and value")
        if "\0" in one.name or "\0" in (one.file or ""):
            yield Problem(place, "must have no NUL")


def _leaves(path: str) -> bool:
    steps = path.split("/")
    return path.startswith("/") or ".." in steps or ".git" in steps or not path or "\0" in path
