"""Verifies a bundle, making its verdict again in a clean process: without environment, store,
network or tools.
"""

import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from msgspec import Struct

import sidecar
from processors.model.verdict import Verdict
from sidecar.gate.chain import log_faults
from sidecar.gate.examine import Derived, Integrity, integrity, stored_faults, verdict_faults

SECONDS_MAX: Final = 600.0
_PROGRAM = (
    "import sys; sys.path.insert(0, sys.argv[1]); from sidecar.gate.worker import main; main()"
)


class Stored(Struct, frozen=True, kw_only=True):
    """What a store knows of a bundle: its verdict, and the log of its project."""

    verdict: Verdict
    log: bytes


class Verified(Struct, frozen=True, kw_only=True):
    """What came of it; ``trusted`` are the ids of the keys that were asked for."""

    verdict_id: str
    holds: bool
    faults: tuple[str, ...]
    files: int
    root: str
    status: str | None
    digest: str
    signed_by: tuple[str, ...]
    trusted: tuple[str, ...]


def verify_bundle(
    files: Mapping[str, bytes],
    trusted: Mapping[str, Ed25519PublicKey],
    stored: Stored | None = None,
) -> Verified:
    """Everything of a bundle: bytes, signatures, who signed, the store's word, the verdict."""
    whole = integrity(files)
    found = [*whole.faults, *_claims(whole, trusted, stored)]
    derived = Derived()
    if not found and whole.verdict is not None:
        derived = derive_clean(files)
        found += verdict_faults(derived, whole.verdict)
    known = whole.verdict or (stored.verdict if stored else None)
    return Verified(
        verdict_id=known.verdict_id if known else "",
        holds=not found,
        faults=tuple(found),
        files=len(files),
        root=whole.root,
        status=derived.status,
        digest=derived.digest,
        signed_by=whole.signers,
        trusted=tuple(trusted),
    )


def _claims(
    whole: Integrity, trusted: Mapping[str, Ed25519PublicKey], stored: Stored | None
) -> Iterator[str]:
    if whole.verdict is None:
        return
    for keyid in trusted:
        if keyid not in whole.signers:
            yield f"it is not signed by {keyid}"
    if stored is not None:
        yield from stored_faults(whole.verdict, whole.root, stored.verdict)
        verdict = stored.verdict
        yield from log_faults(stored.log, verdict.verdict_id, whole.root, verdict.digest)


def derive_clean(files: Mapping[str, bytes]) -> Derived:
    """What a bundle comes to, as a process says that has nothing but the bundle."""
    (package,) = sidecar.__path__
    command = [sys.executable, "-I", "-B", "-c", _PROGRAM, str(Path(package).parent)]
    with TemporaryDirectory(prefix="sidecar-clean-") as folder:
        try:
            done = subprocess.run(  # noqa: S603 (our own interpreter, no shell)
                command,
                input=msgspec.msgpack.encode(dict(files)),
                capture_output=True,
                env={},
                cwd=folder,
                timeout=SECONDS_MAX,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return Derived(faults=(f"the clean process gave no answer: {error}",))
    try:
        return msgspec.json.decode(done.stdout, type=Derived)
    except msgspec.DecodeError:
        last = done.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
        return Derived(faults=(f"the clean process ended with {done.returncode}: {last}",))
