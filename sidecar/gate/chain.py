"""The log of evidence of a project: one line a verdict, each holding the hash of the one before.

**Rules**
1. Lines are only ever added. A line's ``hash`` covers all the rest of it, ``previous`` among it.
2. A verdict whose line is gone, changed or out of order is a fault of the log, and named.
"""

from collections.abc import Iterable, Iterator

import msgspec
from msgspec import Struct

from processors.model.verdict import Verdict
from sidecar.canonical import digest

START = "sha256:" + "0" * 64


class Entry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One verdict of a project, and the root of its evidence; ``number`` counts from 1."""

    number: int
    previous: str
    project: str
    verdict_id: str
    status: str | None
    digest: str
    root: str
    at_ns: int
    hash: str = ""


def following(last: Entry | None, entry: Entry) -> Entry:
    """``entry`` as the one after ``last``."""
    numbered = msgspec.structs.replace(
        entry,
        number=last.number + 1 if last else 1,
        previous=last.hash if last else START,
        hash="",
    )
    return msgspec.structs.replace(numbered, hash=hash_of(numbered))


def entry_of(verdict: Verdict, root: str) -> Entry:
    """The entry of a verdict, before it has a place in the log."""
    return Entry(
        number=0,
        previous="",
        project=verdict.project,
        verdict_id=verdict.verdict_id,
        status=verdict.status,
        digest=verdict.digest,
        root=root,
        at_ns=verdict.created_at_ns,
    )


def hash_of(entry: Entry) -> str:
    """The hash of an entry without its own."""
    value = msgspec.to_builtins(msgspec.structs.replace(entry, hash=""))
    value["at_ns"] = str(entry.at_ns)  # beyond what every reader's numbers hold
    return digest(value, domain="agenttwin-evidence-log/1")


def line_of(entry: Entry) -> bytes:
    """The one spelling of an entry."""
    return msgspec.json.encode(entry) + b"\n"


def entries(data: bytes) -> tuple[list[Entry], str]:
    """The entries of a log, and what is wrong with it: empty where nothing is."""
    found: list[Entry] = []
    for number, line in enumerate(data.split(b"\n")[:-1] if data else [], 1):
        try:
            entry = msgspec.json.decode(line, type=Entry)
        except (msgspec.DecodeError, RecursionError) as error:
            return found, f"line {number} of the log cannot be read: {error}"
        last = found[-1] if found else None
        if following(last, entry) != entry or line_of(entry) != line + b"\n":
            return found, f"line {number} of the log is not as it was written"
        found.append(entry)
    if data and not data.endswith(b"\n"):
        return found, "the last line of the log is cut"
    return found, ""


def log_faults(data: bytes, verdict_id: str, root: str, verdict_digest: str) -> Iterator[str]:
    """What is wrong with a log, and with what it says of one verdict."""
    found, wrong = entries(data)
    if wrong:
        yield wrong
        return
    own = _of(found, verdict_id)
    if own is None:
        yield "the log holds no line of this verdict"
    elif (own.root, own.digest) != (root, verdict_digest):
        yield f"line {own.number} of the log names another root or digest"


def _of(found: Iterable[Entry], verdict_id: str) -> Entry | None:
    return next((one for one in found if one.verdict_id == verdict_id), None)
