"""Records as lines: what is written, and what a line says.

**Rules**
1. A line is the canonical form of its record; reading tolerates other spellings of the same JSON,
   and refuses a key that stands twice.
2. What a record holds beyond what this version knows comes back as it was.
3. A line is bounded before it is read.
"""

import base64
import binascii
import gzip
import json
import zlib
from typing import Any, Final, cast, get_args

import msgspec

from sidecar.canonical import NotCanonical, canonical
from sidecar.tape.faults import TapeIncomparable, TapeUnreadable
from sidecar.tape.model import MAJOR, Blob, Event, Header, Record, Seal
from sidecar.tape.moment import nanoseconds
from sidecar.tape.value import is_digest, matches

LINE_BYTES_MAX: Final = 128 * 1024 * 1024
BLOB_BYTES_MAX: Final = 64 * 1024 * 1024
GZIP_FROM: Final = 4096
KINDS: Final[dict[str, type[Record]]] = {
    "header": Header,
    "event": Event,
    "blob": Blob,
    "seal": Seal,
}
_NAMES: Final = {kind: name for name, kind in KINDS.items()}
_FIELDS: Final = {
    kind: frozenset(field.encode_name for field in msgspec.structs.fields(kind)) - {"more"}
    for kind in KINDS.values()
}


def _inner(kind: type[Record]) -> dict[str, frozenset[str]]:
    """The fields of a record that are records themselves, and theirs."""
    found: dict[str, frozenset[str]] = {}
    for field in msgspec.structs.fields(kind):
        for part in (field.type, *get_args(field.type)):
            if isinstance(part, type) and issubclass(part, msgspec.Struct):
                inner = msgspec.structs.fields(part)
                found[field.encode_name] = frozenset(one.encode_name for one in inner)
    return found


_INNER: Final = {kind: _inner(kind) for kind in KINDS.values()}


def as_dict(record: Record) -> dict[str, Any]:
    """A record as JSON-like values, ``rec`` among them."""
    found = cast(dict[str, Any], msgspec.to_builtins(record))
    more = found.pop("more", {})
    if isinstance(record, Header):
        found["schema"] = record.schema
    if isinstance(record, Event):
        found["v"] = record.v
    for key, item in more.items():
        known = found.get(key)
        found[key] = item if known is None else {**item, **known}
    found["rec"] = _NAMES[type(record)]
    return found


def as_line(record: Record) -> bytes:
    """A record as a line, its end included. Raises NotCanonical."""
    return canonical(as_dict(record)) + b"\n"


def from_line(line: bytes) -> Record:
    """The record of a line. Raises ValueError with what is wrong, TapeIncomparable for a schema."""
    return read_line(line)[0]


def read_line(line: bytes) -> tuple[Record, bytes]:
    """The record of a line, and the line's canonical form without its end. Raises as above."""
    value, text = _parsed(line)
    return from_dict(value), text


def from_dict(value: Any) -> Record:
    """The record of JSON-like values. Raises as ``from_line``."""
    if not isinstance(value, dict):
        raise ValueError("no object")
    kind = KINDS.get(str(value.get("rec")))
    if kind is None:
        raise ValueError("no record of a kind there is")
    if kind is Header:
        _check_schema(value.get("schema"))
    return _converted(value, kind)


def _converted(value: dict[str, Any], kind: type[Record]) -> Record:
    known = {key: item for key, item in value.items() if key in _FIELDS[kind]}
    try:
        found = msgspec.convert(known, kind)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from None
    if isinstance(found, Blob):
        if not 0 <= found.size <= BLOB_BYTES_MAX:
            raise ValueError("a blob larger than a tape may hold")
        return found
    if isinstance(found, Header):
        _check_moments(found)
    more = {key: item for key, item in value.items() if key not in _FIELDS[kind] and key != "rec"}
    for key, inner in _INNER[kind].items():
        part = known.get(key)
        if isinstance(part, dict) and (rest := {k: v for k, v in part.items() if k not in inner}):
            more[key] = rest
    return msgspec.structs.replace(found, more=more) if more else found


def blob_of(digest: str, data: bytes, *, packed: bool) -> Blob:
    """The record of a payload."""
    if not packed:
        return Blob(id=digest, size=len(data))
    gz = len(data) > GZIP_FROM
    inner = compressed(data) if gz else data
    return Blob(id=digest, size=len(data), data=base64.b64encode(inner).decode(), gz=gz)


def blob_data(blob: Blob) -> bytes | None:
    """A packed blob's bytes; None where it has none here. Raises ValueError."""
    if blob.data is None:
        return None
    try:
        data = base64.b64decode(blob.data, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("a blob that is no base64") from None
    if blob.gz:
        data = inflated(data, blob.size)
    check_blob(blob, data)
    return data


def check_blob(blob: Blob, data: bytes) -> None:
    """Raises ValueError unless bytes are the blob's."""
    if len(data) != blob.size:
        raise ValueError("a blob of another size than it says")
    if not matches(blob.id, data):
        raise ValueError("a blob whose content has another digest")


def compressed(data: bytes) -> bytes:
    """Bytes in gzip, the same for the same bytes."""
    return gzip.compress(data, 6, mtime=0)


def inflated(data: bytes, size: int) -> bytes:
    """The bytes of a gzip member, said to be ``size`` and never more. Raises ValueError."""
    if not 0 <= size <= BLOB_BYTES_MAX:
        raise ValueError("a blob larger than a tape may hold")
    inflate = zlib.decompressobj(wbits=31)
    try:
        found = inflate.decompress(data, size + 1)
    except zlib.error:
        raise ValueError("a blob that is no gzip") from None
    if len(found) != size or not inflate.eof or inflate.unused_data:
        raise ValueError("a blob of another size than it says")
    return found


def _check_moments(header: Header) -> None:
    nanoseconds(header.captured_at)
    if header.expires_at is not None:
        nanoseconds(header.expires_at)


def _check_schema(schema: Any) -> None:
    name, _, version = str(schema).partition("/")
    major = version.partition(".")[0]
    if name != "tape" or not major.isdecimal() or len(major) > 4:
        raise TapeUnreadable("the header's schema is that of no tape", do="Give a tape.")
    if int(major) != MAJOR:
        raise TapeIncomparable(
            f"this is a tape/{int(major)}, and this program reads tape/{MAJOR}",
            do="Write it anew with: sidecar tape migrate, of a program that reads both.",
        )


def _parsed(line: bytes) -> tuple[Any, bytes]:
    if len(line) > LINE_BYTES_MAX:
        raise ValueError("longer than a line of a tape may be")
    try:
        value = msgspec.json.decode(line)
        text = canonical(value)
        if text != line.rstrip(b"\r\n"):  # in canonical form no key stands twice
            value = json.loads(line, object_pairs_hook=_object)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, NotCanonical) as error:
        raise ValueError("no JSON a tape may hold") from error
    return value, text


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key that stands twice")
    return found


def ids_are_digests(record: Record) -> bool:
    """Whether everything a record names as a digest is one."""
    if isinstance(record, Blob):
        return is_digest(record.id)
    if isinstance(record, Event):
        message = record.err.message if record.err else None
        named = (record.in_, record.out, record.in_n, record.out_n, record.in_b, message)
        return all(is_digest(one) for one in (*named, *record.chunks) if one is not None)
    return all(map(is_digest, record.codecs.values())) if isinstance(record, Header) else True
