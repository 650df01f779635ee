"""Twins and suites from disk, with the schema files they name.

Rules
1. Paths in a file are relative to it.
2. ``{file: …}`` in place of a schema is replaced by that file's content (JSON or YAML) before
   anything is checked, so that a digest covers it.
3. Every problem is reported at once, with file and line; nothing half-read is returned.
"""

import os
from pathlib import Path

from msgspec import Struct

from sidecar.canonical import digest
from sidecar.errors import SidecarError
from sidecar.expression.document import Document, convert, read, report
from sidecar.expression.files import document_bytes
from sidecar.twins.code.files import load_code
from sidecar.twins.declaration import CodeSource, Declaration
from sidecar.twins.group import TwinGroup
from sidecar.twins.scenario import Suite, suite_problems
from sidecar.twins.state.files import with_state
from sidecar.twins.twin import Twin


class Unopened(SidecarError):
    """There is no such file, or it may not be read."""


class LoadedSuite(Struct, frozen=True, kw_only=True):
    """A suite without problems, its twins, and the files it was read from (name to bytes)."""

    suite: Suite
    group: TwinGroup
    files: dict[str, bytes]
    folder: Path

    def digest(self) -> str:
        """``sha256:<hex>`` of the suite and its twins."""
        value = {"suite": self.suite.told(), "twins": self.group.digests()}
        return digest(value, domain="agenttwin-suite/1")


class LoadedTwins(Struct, frozen=True, kw_only=True):
    """Twins without problems and the files they were read from."""

    group: TwinGroup
    files: dict[str, bytes]


def load_suite(path: Path) -> LoadedSuite:
    """Read a suite and its twins. Raises SidecarError that lists every problem."""
    files: dict[str, bytes] = {}
    return _suite(read_document(path, files), path, files)


def checked_suite(text: str, path: Path) -> LoadedSuite:
    """A suite that is not on the disk yet, as if it were there. Raises SidecarError."""
    return _suite(read(text, name=str(path)), path, {path.name: text.encode()})


def _suite(document: Document, path: Path, files: dict[str, bytes]) -> LoadedSuite:
    suite = convert(document, Suite)
    twins = load_twins([path.parent / name for name in suite.twins], root=path.parent)
    report(document, suite_problems(suite, twins.group))
    group = with_state(twins.group, path.parent / suite.state) if suite.state else twins.group
    return LoadedSuite(suite=suite, group=group, files={**files, **twins.files}, folder=path.parent)


def load_twins(paths: list[Path], *, root: Path | None = None) -> LoadedTwins:
    """Read twins. Raises SidecarError that lists every problem of the first bad file."""
    files: dict[str, bytes] = {}
    base = root or (paths[0].parent if paths else Path())
    twins = [load_twin(path, files, base)[1] for path in paths]
    return LoadedTwins(group=TwinGroup(twins), files=files)


def load_twin(path: Path, files: dict[str, bytes], root: Path) -> tuple[Document, Twin]:
    """Read one twin, and the document it stands in; what was read goes to ``files``, by its name
    under ``root``. Raises SidecarError that lists every problem.
    """
    document = read_document(path, files, root)
    _resolve(document, path.parent, files, root)
    declaration = convert(document, Declaration)
    found = declaration.problems()
    if found and not declaration.can_be_compiled():
        report(document, found)
    code = None
    if declaration.code is not None:
        code, source = load_code(declaration.code, path.parent)
        files[_code_name(declaration.code, path, root)] = source
    twin = Twin(declaration, code)
    told = {one.path for one in found}
    report(document, [*found, *(one for one in twin.problems if one.path not in told)])
    return document, twin


def _code_name(source: CodeSource, path: Path, root: Path) -> str:
    if source.file:
        return _relative(path.parent / source.file, root)
    return f"module:{source.module}.py"


def read_document(path: Path, files: dict[str, bytes], root: Path | None = None) -> Document:
    """Read a YAML file; its bytes go to ``files``. Raises SidecarError, Unopened where there is
    none to read.
    """
    text = _bytes(path)
    files[_relative(path, root or path.parent)] = text
    try:
        return read(text.decode("utf-8"), name=str(path))
    except UnicodeDecodeError:
        raise SidecarError("it is not UTF-8 text", where=str(path)) from None


def _resolve(document: Document, folder: Path, files: dict[str, bytes], root: Path) -> None:
    if not isinstance(document.value, dict):
        return
    entities = document.value.get("entities")
    tools = document.value.get("tools")
    holders = [
        *(entities.values() if isinstance(entities, dict) else ()),
        *(
            tool.get("arguments")
            for tool in (tools if isinstance(tools, list) else ())
            if isinstance(tool, dict)
        ),
    ]
    for holder in holders:
        schema = holder.get("schema") if isinstance(holder, dict) else None
        if isinstance(schema, dict) and set(schema) == {"file"}:
            holder["schema"] = read_document(folder / str(schema["file"]), files, root).value


def _bytes(path: Path) -> bytes:
    try:
        return document_bytes(path)
    except OSError as error:
        raise Unopened(
            f"the file cannot be read: {error.strerror}", where=str(path), do="Check the path."
        ) from None


def _relative(path: Path, root: Path) -> str:
    """By its way from the root, so that no two files have one name."""
    return Path(os.path.relpath(path.resolve(), root.resolve())).as_posix()
