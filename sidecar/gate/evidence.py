"""The bundle of evidence behind a verdict: every file hashed, and the root of them signed.

**Rules**
1. The bundle holds all a verdict was made from: plan, documents, policy, tools, every run, the
   gate's input, the comparison, and where it ran. It is made a file at a time, of runs that are
   read one at a time.
2. The manifest lists each file's size and SHA-256; its root (``merkle.py``) is signed, and kept
   with the stored verdict. The manifest and the statements stand outside it.
3. Anybody with the bundle can make the verdict again, without the store; ``examine.py`` does.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final
from urllib.parse import quote

import msgspec
import zstandard
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from msgspec import Struct, structs

from processors.model.verdict import Verdict
from sidecar.canonical import canonical, sha256
from sidecar.gate import dsse, merkle
from sidecar.gate.given import GateInput
from sidecar.gate.spelling import encoded, parts
from sidecar.gate.statement import Made, statements
from sidecar.replay.record import EpisodeRecord, is_slim
from sidecar.replay.run import ReplayResult

FORMAT: Final = "agenttwin-evidence/3"
MANIFEST: Final = "MANIFEST.json"
STATEMENTS: Final = "STATEMENTS.jsonl"
PINS, VERDICT, CASES = "plan.json", "verdict.json", "comparison.json"
POLICY, INPUT, TOOLS, ENVIRONMENT = (
    "gate-policy.json", "gate-input.json", "tools.json", "environment.json",
)  # fmt: skip
CIRCUMSTANCES: Final = "circumstances.json"
KEYS, RUNS, SLIM, INPUTS = "keys/", "cases/", "runs/", "inputs/"
SLIM_RUNS: Final = 500
"""So many slim records stand in one file."""
NAME_MAX: Final = 180
_LEVEL: Final = 3
README: Final = "README.txt"
_README = b"""Evidence of a gate verdict. Nothing here needs the store it came from.

To check every byte, the signatures, and that the runs come to this verdict:

    sidecar gate verify PATH-OF-THIS-FOLDER --key PUBLIC-KEY.pem

MANIFEST.json lists every file; STATEMENTS.jsonl holds in-toto statements in DSSE envelopes that
sign its root. The keys in keys/ say which key signed, not whose it is: name the one you trust.
"""


class FileEntry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One file of a bundle."""

    path: str
    size: int
    sha256: str


class Manifest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All files of a bundle but itself and the statements; ``root`` is that of the list."""

    format: str
    root: str
    files: tuple[FileEntry, ...]


class Sealed(Struct, frozen=True, kw_only=True):
    """What stands outside the manifest, and the verdict as it is stored: with the bundle's root."""

    files: dict[str, bytes]
    manifest: Manifest
    verdict: Verdict


class Bundle(Struct, frozen=True, kw_only=True):
    """A bundle that is to be written: files in pieces, each made when it is asked for, and what
    seals their list."""

    contents: Iterable[tuple[str, Iterable[bytes]]]
    seal: Callable[[Iterable[FileEntry]], Sealed]


def bundle(
    result: ReplayResult,
    given: GateInput,
    verdict: Verdict,
    *,
    folder: str,
    made: Made,
    keys: Sequence[Ed25519PrivateKey],
) -> Bundle:
    """The evidence of a verdict; ``folder`` is where it will stand, as the verdict names it."""

    def seal(entries: Iterable[FileEntry]) -> Sealed:
        manifest = manifest_of(entries)
        lines = [
            dsse.encoded(dsse.signed(one, keys))
            for one in statements(result.pins, verdict, manifest.root, made)
        ]
        evidence = {
            **verdict.evidence,
            "folder": folder,
            "root": manifest.root,
            "signed_by": [dsse.keyid(key.public_key()) for key in keys],
        }
        return Sealed(
            files={
                MANIFEST: encoded(manifest),
                STATEMENTS: b"".join(line + b"\n" for line in lines),
            },
            manifest=manifest,
            verdict=structs.replace(verdict, evidence=evidence),
        )

    return Bundle(contents=_contents(result, given, verdict, made, keys), seal=seal)


def _contents(
    result: ReplayResult,
    given: GateInput,
    verdict: Verdict,
    made: Made,
    keys: Sequence[Ed25519PrivateKey],
) -> Iterator[tuple[str, Iterable[bytes]]]:
    yield PINS, (encoded(result.pins),)
    yield POLICY, (encoded(given.policy),)
    yield CIRCUMSTANCES, (encoded(given.circumstances),)
    yield INPUT, parts(given)
    yield CASES, parts(given.results)
    yield VERDICT, (encoded(verdict),)
    yield TOOLS, (encoded(made.tools),)
    yield ENVIRONMENT, (encoded(made.environment),)
    yield README, (_README,)
    for name, data in result.files.items():
        yield f"{INPUTS}{_safe(name)}", (data,)
    for key in keys:
        yield f"{KEYS}{_file_of(key)}", (dsse.public_pem(key.public_key()),)
    yield from _runs(result.runs)


def _runs(runs: Iterable[EpisodeRecord]) -> Iterator[tuple[str, Iterable[bytes]]]:
    """Each whole record in a file of its own, the slim ones many together, in order."""
    text, count, number = bytearray(), 0, 0
    for run in runs:
        if not is_slim(run):
            yield run_path(run), (encoded(run),)
            continue
        text += msgspec.json.encode(run) + b"\n"
        count += 1
        if count == SLIM_RUNS:
            yield slim_path(number), (_compressed(text),)
            text, count, number = bytearray(), 0, number + 1
    if count:
        yield slim_path(number), (_compressed(text),)


def slim_path(number: int) -> str:
    """Where the so-many-th file of slim records stands, from 0."""
    return f"{SLIM}{number:06d}.jsonl.zst"


def slim_lines(lines: Iterable[bytes]) -> bytes:
    """Slim records, a line each, as one file."""
    return _compressed(b"".join(line + b"\n" for line in lines))


def _compressed(text: bytes | bytearray) -> bytes:
    return zstandard.ZstdCompressor(level=_LEVEL).compress(text)


def run_path(run: EpisodeRecord) -> str:
    """Where a run's record stands in the bundle."""
    return f"{run_folder(run.case)}/{run.side}-{run.run}.json"


def run_folder(case: str) -> str:
    """Where the whole records of a case stand."""
    return f"{RUNS}{_folder_of(case)}"


def manifest_of(entries: Iterable[FileEntry]) -> Manifest:
    """The manifest of files."""
    ordered = tuple(sorted(entries, key=lambda one: one.path))
    return Manifest(format=FORMAT, root=root_of(ordered), files=ordered)


def root_of(entries: Sequence[FileEntry]) -> str:
    """The root over a list of files."""
    return merkle.root([canonical(msgspec.to_builtins(one)) for one in entries])


def _folder_of(case: str) -> str:
    """A folder's name for any case: never ``.`` or ``..``, nor longer than file systems hold."""
    name = quote(case, safe="")
    if len(name) > NAME_MAX:
        return f"{name[:NAME_MAX]}~{sha256(case.encode()).removeprefix('sha256:')[:16]}"
    return name if name.strip(".") else name.replace(".", "%2E")


def _file_of(key: Ed25519PrivateKey) -> str:
    return dsse.keyid(key.public_key()).removeprefix("sha256:") + ".pem"


def _safe(name: str) -> str:
    """The path of a document below ``inputs/``: a step upwards is spelt out, so none is taken."""
    parts = (part for part in name.split("/") if part not in ("", "."))
    return "/".join("%2E%2E" if part == ".." else quote(part, safe=" ") for part in parts)
