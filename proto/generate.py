"""Write ``proto/sidecar/v1/*.proto`` from the table of operations, and ``sidecar/_pb`` from them.

The types of ``sidecar.control`` are the one description of the control API; messages are made from
them. A field keeps its number for good: the numbers of the files that are there are read first, a
new field gets the next one, and the number of a field that went is reserved.

protoc writes imports as the files lie below ``proto``; in the package they lie in ``sidecar/_pb``,
and that is the one thing rewritten.

    python proto/generate.py            write both
    python proto/generate.py FOLDER     write both into FOLDER, numbers as in the repository
"""

import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
from grpc_tools import protoc
from msgspec import inspect

from sidecar.control.operations import OPERATIONS, SERVICES, Operation

ROOT = Path(__file__).parents[1]
PACKAGE = "sidecar.v1"
_FOLDER = Path("sidecar/v1")
_WELL_KNOWN = "google/protobuf/struct.proto"
_SCALARS: dict[type, str] = {
    inspect.StrType: "string",
    inspect.IntType: "int64",
    inspect.BoolType: "bool",
    inspect.FloatType: "double",
    inspect.BytesType: "bytes",
}
_NUMBERED = re.compile(r"^ {2}(?:optional |repeated )?[\w.<>, ]+ (\w+) = (\d+);", re.MULTILINE)
_RESERVED = re.compile(r"^ {2}reserved ([\d, ]+);", re.MULTILINE)
_MESSAGE = re.compile(r"^message (\w+) \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)

Numbers = dict[str, tuple[dict[str, int], set[int]]]
"""Of each message, the numbers of its fields and those that are reserved."""


def numbers(folder: Path) -> Numbers:
    """The numbers in the files that are there."""
    found: Numbers = {}
    for file in sorted((folder / _FOLDER).glob("*.proto")):
        for name, body in _MESSAGE.findall(file.read_text()):
            fields = {field: int(number) for field, number in _NUMBERED.findall(body)}
            reserved = {int(each) for line in _RESERVED.findall(body) for each in line.split(",")}
            found[name] = fields, reserved
    return found


def proto_files(known: Numbers) -> dict[str, str]:
    """Every file's name and text."""
    shared: dict[str, str] = {}
    files = {}
    for service in SERVICES:
        operations = [each for each in OPERATIONS if each.service == service]
        name = f"{service.removesuffix('Service').lower()}.proto"
        files[name] = _file(service, operations, known, shared, name)
    return files


def _file(
    service: str,
    operations: list[Operation],
    known: Numbers,
    shared: dict[str, str],
    name: str,
) -> str:
    messages: dict[str, inspect.StructType] = {}
    imports: set[str] = set()
    for operation in operations:
        for record in (operation.asks, operation.gives):
            _collect(inspect.type_info(record), messages)
    texts = []
    for title, kind in messages.items():
        if title in shared:
            imports.add(f"{_FOLDER}/{shared[title]}")
            continue
        shared[title] = name
        texts.append(_message(title, kind, known.get(title, ({}, set()))))
    body = "\n".join([_service(service, operations), *texts])
    if "google.protobuf." in body:
        imports.add(_WELL_KNOWN)
    lines = "".join(f'import "{each}";\n' for each in sorted(imports))
    return (
        "// Written by proto/generate.py from the types of sidecar/control; do not edit.\n"
        f'syntax = "proto3";\n\npackage {PACKAGE};\n\n{lines}{chr(10) if lines else ""}{body}'
    )


def _collect(kind: inspect.Type, found: dict[str, inspect.StructType]) -> None:
    """Every record that a type is made of, outer ones first."""
    if isinstance(kind, inspect.StructType):
        title = _title(kind)
        if title in found:
            assert found[title].cls is kind.cls, f"two records are named {title}"
            return
        found[title] = kind
        for field in kind.fields:
            _collect(field.type, found)
    for below in _below(kind):
        _collect(below, found)


def _below(kind: inspect.Type) -> Iterator[inspect.Type]:
    if isinstance(kind, inspect.Metadata):
        yield kind.type
    elif isinstance(kind, inspect.UnionType):
        yield from kind.types
    elif isinstance(kind, inspect.VarTupleType | inspect.ListType):
        yield kind.item_type
    elif isinstance(kind, inspect.DictType):
        yield kind.value_type


def _title(kind: inspect.StructType) -> str:
    return kind.cls.__name__


def _service(service: str, operations: list[Operation]) -> str:
    lines = [_comment(SERVICES[service], ""), f"service {service} {{\n"]
    for operation in operations:
        stream = "stream " if operation.stream else ""
        lines.append(_comment(operation.summary, "  "))
        asks, gives = operation.asks.__name__, operation.gives.__name__
        lines.append(f"  rpc {operation.rpc}({asks}) returns ({stream}{gives});\n")
    return "".join([*lines, "}\n"])


def _message(title: str, kind: inspect.StructType, known: tuple[dict[str, int], set[int]]) -> str:
    used, reserved = dict(known[0]), set(known[1])
    names = [field.encode_name for field in kind.fields]
    reserved |= {number for name, number in used.items() if name not in names}
    following = max([0, *used.values(), *reserved]) + 1
    for name in names:
        if name not in used:
            used[name], following = following, following + 1
    lines = [_comment(kind.cls.__doc__ or "", ""), f"message {title} {{\n"]
    if reserved:
        lines.append(f"  reserved {', '.join(map(str, sorted(reserved)))};\n")
    for field in sorted(kind.fields, key=lambda field: used[field.encode_name]):
        may_lack = field.default is msgspec.UNSET
        may_lack |= title.endswith("Request") and not field.required
        lines.append(
            f"  {_type(field.type, may_lack)} {field.encode_name} = "
            f"{used[field.encode_name]};{_words(field.type)}\n"
        )
    return "".join([*lines, "}\n"])


def _type(kind: inspect.Type, optional: bool = False) -> str:
    if isinstance(kind, inspect.Metadata):
        return _type(kind.type, optional)
    if isinstance(kind, inspect.UnionType):
        real = [each for each in kind.types if not isinstance(each, inspect.NoneType)]
        if len({_type(each) for each in real}) > 1:
            raise TypeError(f"a field of several types has no message form: {kind}")
        return _type(real[0], True)
    if isinstance(kind, inspect.VarTupleType | inspect.ListType):
        return f"repeated {_type(kind.item_type)}"
    if isinstance(kind, inspect.DictType):
        value = _type(kind.value_type)
        return "google.protobuf.Struct" if value.endswith("Value") else f"map<string, {value}>"
    if isinstance(kind, inspect.AnyType):
        return "google.protobuf.Value"
    if isinstance(kind, inspect.StructType):
        return _title(kind)
    name = "string" if isinstance(kind, inspect.LiteralType) else _SCALARS[type(kind)]
    return f"optional {name}" if optional else name


def _words(kind: inspect.Type) -> str:
    """A closed set of words, as a comment: they are text on the wire, so that new ones can come."""
    found = sorted({str(value) for each in _literals(kind) for value in each.values})
    return f"  // {', '.join(found)}" if found else ""


def _literals(kind: inspect.Type) -> Iterator[inspect.LiteralType]:
    if isinstance(kind, inspect.LiteralType):
        yield kind
    elif not isinstance(kind, inspect.StructType):
        for below in _below(kind):
            yield from _literals(below)


def _comment(text: str, indent: str) -> str:
    lines: list[str] = []
    for paragraph in textwrap.dedent(text).strip().split("\n\n"):
        words = " ".join(paragraph.replace("``", "`").split())
        lines += [*textwrap.wrap(words, 96 - len(indent)), ""]
    return "".join(f"{indent}// {line}".rstrip() + "\n" for line in lines[:-1])


def compiled(protos: dict[str, str]) -> dict[str, str]:
    """The Python modules of the files: name and text."""
    with TemporaryDirectory() as folder:
        source, target = Path(folder, "proto"), Path(folder, "python")
        (source / _FOLDER).mkdir(parents=True)
        target.mkdir()
        for name, text in protos.items():
            (source / _FOLDER / name).write_text(text)
        well_known = Path(protoc.__file__).parent / "_proto"
        files = [str(_FOLDER / name) for name in protos]
        code = protoc.main(
            [
                *("protoc", f"-I{source}", f"-I{well_known}"),
                *(f"--python_out={target}", f"--grpc_python_out={target}", f"--pyi_out={target}"),
                *files,
            ]
        )
        if code:
            raise SystemExit(code)
        found = {
            f"v1/{path.name}": path.read_text().replace(
                f"from {PACKAGE} import", "from sidecar._pb.v1 import"
            )
            for path in sorted((target / _FOLDER).iterdir())
        }
    return {"__init__.py": "", "v1/__init__.py": "", **found}


def main(arguments: list[str]) -> None:
    """Write everything, below the folder that is named or in the repository."""
    target = Path(arguments[0]) if arguments else ROOT
    protos = proto_files(numbers(ROOT / "proto"))
    _write(target / "proto" / _FOLDER, protos)
    _write(target / "sidecar" / "_pb", compiled(protos))


def _write(folder: Path, files: dict[str, Any]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


if __name__ == "__main__":
    main(sys.argv[1:])
