"""The bundle of evidence behind a verdict: every file hashed, and the root of them signed.

**Rules**
1. The bundle holds all a verdict was made from: plan, documents, policy, tools, every run, the
   gate's input, the comparison, and where it ran.
2. The manifest lists each file's size and SHA-256; its root (``merkle.py``) is signed, and kept
   with the stored verdict. The manifest and the statements stand outside it.
3. Anybody with the bundle can make the verdict again, without the store; ``examine.py`` does.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from msgspec import Struct, structs

from processors.model.verdict import Verdict
from sidecar.canonical import canonical, sha256
from sidecar.gate import dsse, merkle
from sidecar.gate.conclude import gate_input
from sidecar.gate.policy import GatePolicy
from sidecar.gate.statement import Made, statements
from sidecar.replay.record import EpisodeRecord
from sidecar.replay.run import ReplayResult

FORMAT: Final = "agenttwin-evidence/2"
MANIFEST: Final = "MANIFEST.json"
STATEMENTS: Final = "STATEMENTS.jsonl"
PINS, VERDICT, CASES = "plan.json", "verdict.json", "comparison.json"
POLICY, INPUT, TOOLS, ENVIRONMENT = (
    "gate-policy.json", "gate-input.json", "tools.json", "environment.json",
)  # fmt: skip
KEYS, RUNS, INPUTS = "keys/", "cases/", "inputs/"
NAME_MAX: Final = 180
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


class Bundle(Struct, frozen=True, kw_only=True):
    """A bundle before it is written: files by path, the manifest, and the verdict with its root."""

    files: dict[str, bytes]
    manifest: Manifest
    verdict: Verdict


def bundle(
    result: ReplayResult,
    verdict: Verdict,
    *,
    folder: str,
    made: Made,
    keys: Sequence[Ed25519PrivateKey],
    policy: GatePolicy | None = None,
) -> Bundle:
    """The files of the evidence; ``folder`` is where they will stand, as the verdict names it."""
    policy, pins = policy or GatePolicy(), result.pins
    files: dict[str, bytes] = {
        PINS: encoded(pins),
        POLICY: encoded(policy),
        INPUT: encoded(gate_input(pins, result.runs, policy, verdict.created_at_ns)),
        CASES: encoded(result.results),
        VERDICT: encoded(verdict),
        TOOLS: encoded(made.tools),
        ENVIRONMENT: encoded(made.environment),
        README: _README,
        **{f"{INPUTS}{_safe(name)}": data for name, data in result.files.items()},
        **{f"{KEYS}{_file_of(key)}": dsse.public_pem(key.public_key()) for key in keys},
    }
    for run in result.runs:
        files[run_path(run)] = encoded(run)
    manifest = manifest_of(files)
    lines = [
        dsse.encoded(dsse.signed(one, keys))
        for one in statements(pins, verdict, manifest.root, made)
    ]
    evidence = {
        **verdict.evidence,
        "folder": folder,
        "root": manifest.root,
        "signed_by": [dsse.keyid(key.public_key()) for key in keys],
    }
    return Bundle(
        files={
            **files,
            MANIFEST: encoded(manifest),
            STATEMENTS: b"".join(line + b"\n" for line in lines),
        },
        manifest=manifest,
        verdict=structs.replace(verdict, evidence=evidence),
    )


def run_path(run: EpisodeRecord) -> str:
    """Where a run's record stands in the bundle."""
    return f"{RUNS}{_folder_of(run.case)}/{run.side}-{run.run}.json"


def manifest_of(files: Mapping[str, bytes]) -> Manifest:
    """The manifest of files."""
    entries = tuple(
        FileEntry(path=path, size=len(files[path]), sha256=sha256(files[path]))
        for path in sorted(files)
    )
    return Manifest(format=FORMAT, root=root_of(entries), files=entries)


def root_of(entries: Sequence[FileEntry]) -> str:
    """The root over a list of files."""
    return merkle.root([canonical(msgspec.to_builtins(one)) for one in entries])


def encoded(value: Any) -> bytes:
    """The one spelling of a record in a bundle."""
    return msgspec.json.format(msgspec.json.encode(value), indent=1) + b"\n"


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
