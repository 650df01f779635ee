"""Verifies a bundle, making its verdict again in a clean process: without environment, store,
network or tools.
"""

import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE
from tempfile import TemporaryDirectory, TemporaryFile
from typing import Final

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from msgspec import Struct

import sidecar
from processors.model.verdict import Verdict
from sidecar.canonical import sha256
from sidecar.gate.asked import answered
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
        derived = derive_clean(files, {one.path: one.sha256 for one in whole.files})
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


def derive_clean(files: Mapping[str, bytes], listed: Mapping[str, str] | None = None) -> Derived:
    """What a bundle comes to, as a process says that has nothing but the bundle.

    ``listed`` are the digests that its files had when they were found whole: one that has another
    by now is told.
    """
    (package,) = sidecar.__path__
    command = [sys.executable, "-I", "-B", "-c", _PROGRAM, str(Path(package).parent)]
    with TemporaryDirectory(prefix="sidecar-clean-") as folder, TemporaryFile() as told:
        running = subprocess.Popen(  # noqa: S603 (our own interpreter, no shell)
            command, stdin=PIPE, stdout=PIPE, stderr=told, env={}, cwd=folder
        )
        with running, _at_most(running, SECONDS_MAX) as late:
            try:
                found = _asked(running, files, listed or {})
            except _Changed as error:
                return Derived(faults=(str(error),))
            except (OSError, msgspec.DecodeError):
                found = None  # it says why on stderr
            finally:
                running.kill()
        told.seek(0)
        last = told.read().decode("utf-8", "replace").strip().rpartition("\n")[2]
    if found is not None:
        return found
    if late.is_set():
        return Derived(faults=(f"the clean process gave no answer in {SECONDS_MAX:g} s",))
    return Derived(faults=(f"the clean process ended with {running.returncode}: {last}",))


class _Changed(Exception):
    """A file is not as it was found whole."""


def _asked(
    running: "subprocess.Popen[bytes]", files: Mapping[str, bytes], listed: Mapping[str, str]
) -> Derived | None:
    """What it comes to; each file it asks for is held against its digest once more."""

    def read(name: str) -> bytes:
        data = files[name]
        if name in listed and sha256(data) != listed[name]:
            raise _Changed(f"{name} was changed while it was read")
        return data

    assert running.stdin is not None and running.stdout is not None
    found = answered(list(files), read, running.stdout, running.stdin)
    if found is None:
        running.wait()
    return found


@contextmanager
def _at_most(running: "subprocess.Popen[bytes]", seconds: float) -> Iterator[threading.Event]:
    """End a process that takes longer; whether it did."""
    late = threading.Event()

    def end() -> None:
        late.set()
        running.kill()

    clock = threading.Timer(seconds, end)
    clock.start()
    try:
        yield late
    finally:
        clock.cancel()
