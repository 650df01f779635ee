"""Write docs/reference from the program itself: every configuration key, every command's help."""

import ast
import json
import sys
from pathlib import Path

import click
import msgspec
from msgspec.inspect import (
    BoolType,
    IntType,
    LiteralType,
    StructType,
    Type,
    UnionType,
    VarTupleType,
    type_info,
)

from sidecar.analyse.coverage import told as coverage_told
from sidecar.analyse.fidelity import report as fidelity_report
from sidecar.cli.root import COMMANDS, root
from sidecar.config import Config
from sidecar.control.openapi import document
from sidecar.control.operations import API_VERSION
from sidecar.gate.report import schema as report_schema
from sidecar.tape import schema

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"

CONFIGURATION_HEAD = """# Configuration

Defaults < `sidecar.yaml` < environment < flag. Unknown keys are refused, in the file and among
`SIDECAR_*` variables; every problem is reported at once with file:line. YAML is read by the 1.2
core rules: `off` is text. Durations are written `500ms`, `30s`, `10m`, `24h`, `30d`. Relative paths
start at the file's folder.

Keys inside lists (`[]`) have no variable. This page is written by
`tests/reference/make_reference.py`; a test checks that it is current.

| key | type | default | variable |
|---|---|---|---|
"""
COMMANDS_HEAD = """# Commands

Results go to stdout, talk to stderr. Exit codes: [exit-codes.md](exit-codes.md). This page is
written by `tests/reference/make_reference.py`; a test checks that it is current.
"""


KIT_HEAD = """# Test kit

What went wrong elsewhere, or could, and the tests that would tell us: symptoms that were reported
of others (of gateways T1 to T64, of recording, replay, twins and gates R1 to R64), advisories, and
the parts of the kit (A to L). A test names its rows with
`@pytest.mark.row`; `tests/requirements/rows.json` is the list, and a test checks that no row is
left without one. This page is written by `tests/reference/make_reference.py`; a test checks that it
is current.

| row | symptom | tests |
|---|---|---|
"""
TESTS = Path(__file__).parents[1]


def configuration() -> str:
    """The page of configuration keys."""
    return CONFIGURATION_HEAD + "".join(_rows(type_info(Config), "", in_list=False))


def commands() -> str:
    """The page of commands, as ``--help`` prints them."""
    parts = [COMMANDS_HEAD]
    for name in COMMANDS:
        parts += _help(root.get_command(click.Context(root), name), f"sidecar {name}", None)
    return "\n".join(parts)


def _rows(kind: Type, path: str, *, in_list: bool):
    for field in kind.fields:
        key = f"{path}.{field.encode_name}" if path else field.encode_name
        inner = _inner(field.type)
        if isinstance(field.type, VarTupleType) and isinstance(inner, StructType):
            yield from _rows(inner, f"{key}[]", in_list=True)
        elif isinstance(inner, StructType):
            yield from _rows(inner, key, in_list=in_list)
        else:
            variable = "" if in_list or isinstance(field.type, VarTupleType) else _variable(key)
            yield f"| `{key}` | {_name(field.type)} | {_default(field)} | {variable} |\n"


def _inner(kind: Type) -> Type:
    if isinstance(kind, VarTupleType):
        return kind.item_type
    if isinstance(kind, UnionType):
        return next(each for each in kind.types if type(each).__name__ != "NoneType")
    return kind


def _variable(key: str) -> str:
    return f"`SIDECAR_{key.replace('.', '_').upper()}`"


def _name(kind: Type) -> str:
    if isinstance(kind, VarTupleType):
        return f"list of {_name(kind.item_type)}"
    if isinstance(kind, LiteralType):
        return " \\| ".join(map(str, kind.values))
    if isinstance(kind, UnionType):
        return _name(_inner(kind))
    return {IntType: "whole number", BoolType: "true \\| false"}.get(type(kind), "text")


def _default(field) -> str:
    if field.required:
        return "required"
    default = field.default if field.default is not msgspec.NODEFAULT else ""
    if default is None or default == "" or default == ():
        return ""
    if isinstance(default, tuple):
        return f"`{list(default)}`"
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"


def _help(command: click.Command, title: str, parent: click.Context | None):
    context = click.Context(command, info_name=title, parent=parent, terminal_width=100)
    context.parent = None
    yield f"\n## `{title}`\n\n```\n{command.get_help(context)}\n```"
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            yield from _help(command.get_command(context, name), f"{title} {name}", context)


def openapi() -> str:
    """The control API's OpenAPI document."""
    return json.dumps(document(API_VERSION), indent=1, ensure_ascii=False)


def kit() -> str:
    """The test kit: rows, symptoms and the tests that carry them."""
    folder = TESTS / "requirements"
    symptoms = json.loads((folder / "symptoms.json").read_text())
    carried = _carried()
    lines = []
    for row in json.loads((folder / "rows.json").read_text()):
        tests = ", ".join(f"`{each}`" for each in carried.get(row["id"], ()))
        why = row["not_applicable"] and f"none: {row['not_applicable']}"
        lines.append(f"| {row['id']} | {symptoms[row['id']]} | {tests or why or 'none yet'} |\n")
    return KIT_HEAD + "".join(lines)


def _carried() -> dict[str, list[str]]:
    """Row to the tests that carry its mark; a file where all of its tests do."""
    found: dict[str, list[str]] = {}
    for path in sorted(TESTS.rglob("test_*.py"), key=lambda path: path.name):
        text = path.read_text()
        if "pytest.mark.row(" not in text:
            continue
        for node in ast.parse(text).body:
            for row in _marks(node):
                name = getattr(node, "name", "")
                place = f"{path.name}::{name}" if name else path.name
                found.setdefault(row, []).append(place)
    return found


def _marks(node: ast.stmt):
    if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark":
        marks = list(ast.walk(node.value))
    else:
        marks = getattr(node, "decorator_list", [])
    for each in marks:
        if isinstance(each, ast.Call) and ast.unparse(each.func) == "pytest.mark.row":
            yield from (ast.literal_eval(argument) for argument in each.args)


def tape() -> str:
    """The JSON Schema of a tape's lines."""
    return json.dumps(schema.document(), indent=1, ensure_ascii=False)


def coverage() -> str:
    """The schema of what `sidecar coverage` tells."""
    return json.dumps(coverage_told.schema(), indent=1, ensure_ascii=False)


def fidelity() -> str:
    """The JSON Schema of a fidelity report."""
    return json.dumps(fidelity_report.schema(), indent=1, ensure_ascii=False)


def report() -> str:
    """The JSON Schema of a report."""
    return json.dumps(report_schema.document(), indent=1, ensure_ascii=False)


PAGES = {
    "test-kit.md": kit,
    "configuration.md": configuration,
    "commands.md": commands,
    "openapi.json": openapi,
    "tape.schema.json": tape,
    "report.schema.json": report,
    "coverage.schema.json": coverage,
    "fidelity.schema.json": fidelity,
}


def main() -> None:
    """Write the pages, into the folder named on the command line if there is one."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else REFERENCE
    for name, page in PAGES.items():
        (folder / name).write_text(page().rstrip("\n") + "\n")
        sys.stdout.write(f"{folder.name}/{name}\n")


if __name__ == "__main__":
    main()
