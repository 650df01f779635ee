"""Twins, suites and sync files looked at without running them: all that is wrong with all of them.

Rules
1. A file that is wrong does not hide what is wrong with another; a twin that a suite names is
   looked at as if it had been named itself, and once.
2. A suite is looked at as a whole where every twin of it is right.
3. Each finding has its file and line.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from sidecar.errors import SidecarError
from sidecar.expression.document import Document, DocumentInvalid, convert, report
from sidecar.twins.files import Unopened, load_twin, read_document
from sidecar.twins.group import TwinGroup
from sidecar.twins.leftover import remarks
from sidecar.twins.scenario import Suite, suite_problems
from sidecar.twins.state.files import with_state
from sidecar.twins.sync.plan import Sync
from sidecar.twins.twin import Twin

Severity = Literal["problem", "warning", "note"]


class Finding(Struct, frozen=True, kw_only=True):
    """What was found, and where; ``path`` is dotted, and empty where the whole file is meant."""

    file: str
    line: int | None
    path: str = ""
    severity: Severity = "problem"
    text: str


class Checked(Struct, frozen=True, kw_only=True):
    """What was looked at and found; ``unopened`` are the files that could not be read at all."""

    twins: tuple[Twin, ...]
    suites: int
    syncs: int
    findings: tuple[Finding, ...]
    unopened: tuple[str, ...]

    def count(self, severity: Severity) -> int:
        """How many findings there are of a severity."""
        return sum(one.severity == severity for one in self.findings)


def check_files(paths: Sequence[Path]) -> Checked:
    """Look at twins, suites and sync files."""
    check = _Check()
    for path in paths:
        check.look(path)
    return Checked(
        twins=tuple(twin for twin in check.twins.values() if twin is not None),
        suites=check.suites,
        syncs=check.syncs,
        findings=tuple(check.findings),
        unopened=tuple(check.unopened),
    )


class _Check:
    """What was found until now; ``twins`` by file, None where one is wrong."""

    def __init__(self) -> None:
        self.twins: dict[Path, Twin | None] = {}
        self.findings: list[Finding] = []
        self.unopened: list[str] = []
        self.suites = self.syncs = 0

    def look(self, path: Path) -> None:
        try:
            document = read_document(path, {})
        except SidecarError as error:
            self._wrong(path, error)
            return
        said = document.value if isinstance(document.value, dict) else {}
        if "suite" in said:
            self._suite(path, document)
        elif "sync" in said:
            self._sync(path, document)
        else:
            self._twin(path)

    def _suite(self, path: Path, document: Document) -> None:
        self.suites += 1
        group = self._group(path, document)
        try:
            suite = convert(document, Suite)
            if group is not None:
                report(document, suite_problems(suite, group))
                if suite.state:
                    with_state(group, path.parent / suite.state)
        except SidecarError as error:
            self._wrong(path, error)

    def _sync(self, path: Path, document: Document) -> None:
        self.syncs += 1
        group = self._group(path, document)
        try:
            sync = convert(document, Sync)
            if group is not None:
                report(document, [*group.problems(), *sync.problems(group)])
        except SidecarError as error:
            self._wrong(path, error)

    def _group(self, path: Path, document: Document) -> TwinGroup | None:
        """The twins that a document names; None where one of them is wrong."""
        twins = [self._twin(path.parent / name) for name in _named(document.value.get("twins"))]
        right = [twin for twin in twins if twin is not None]
        return TwinGroup(right) if len(right) == len(twins) else None

    def _twin(self, path: Path) -> Twin | None:
        known = path.resolve()
        if known in self.twins:
            return self.twins[known]
        self.twins[known] = None
        try:
            document, twin = load_twin(path, {}, path.parent)
        except SidecarError as error:
            self._wrong(path, error)
            return None
        self.twins[known] = twin
        self.findings += [
            Finding(
                file=str(path),
                line=document.line(one.path),
                path=one.path,
                severity=one.severity,
                text=one.text,
            )
            for one in remarks(twin.declaration)
        ]
        return twin

    def _wrong(self, path: Path, error: SidecarError) -> None:
        if isinstance(error, DocumentInvalid):
            self.findings += [
                Finding(file=one.name, line=one.line, path=one.path, text=one.text)
                for one in error.problems
            ]
            return
        file, line = _place(error.where or str(path))
        self.findings.append(Finding(file=file, line=line, text=error.what))
        if isinstance(error, Unopened):
            self.unopened.append(file)


def _named(value: Any) -> list[str]:
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []


def _place(where: str) -> tuple[str, int | None]:
    file, colon, line = where.rpartition(":")
    return (file, int(line)) if colon and line.isdigit() else (where, None)
