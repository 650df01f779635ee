"""Evidence bundles on disk.

Rules
1. A bundle is written under a temporary name and renamed when whole: a folder that is there is
   complete.
2. Folders and files are for their owner only: runs may hold what the agent saw.
"""

import os
import shutil
from pathlib import Path

from sidecar.errors import SidecarError
from sidecar.expression.document import convert, read, report
from sidecar.gate.evidence import Bundle
from sidecar.gate.policy import GatePolicy, policy_problems
from sidecar.gate.rules import RULES


def write_bundle(bundle: Bundle, folder: Path) -> None:
    """Write all files into ``folder``, which must not be there yet. Raises SidecarError."""
    part = folder.with_name(folder.name + ".part")
    try:
        part.mkdir(parents=True, mode=0o700)
        for name, data in bundle.files.items():
            _write(part / name, data)
        part.rename(folder)
    except OSError as error:
        shutil.rmtree(part, ignore_errors=True)
        raise SidecarError(
            f"the evidence cannot be written: {error.strerror}",
            where=str(folder),
            do="Check that the folder is writable and has free space.",
        ) from error


def read_bundle(folder: Path) -> dict[str, bytes]:
    """All files of a bundle by relative path. Raises SidecarError."""
    if not folder.is_dir():
        raise SidecarError("there is no evidence", where=str(folder), do="Was it moved or deleted?")
    try:
        return {
            path.relative_to(folder).as_posix(): path.read_bytes()
            for path in sorted(folder.rglob("*"))
            if path.is_file()
        }
    except OSError as error:
        raise SidecarError(
            f"the evidence cannot be read: {error.strerror}", where=str(folder)
        ) from error


def read_policy(path: Path) -> GatePolicy:
    """The policy of a ``gate.yaml``. Raises SidecarError that lists every problem."""
    try:
        document = read(path.read_bytes().decode(), name=str(path))
    except UnicodeDecodeError:
        raise SidecarError("it is not UTF-8 text", where=str(path)) from None
    except OSError as error:
        raise SidecarError(
            f"the gate's policy cannot be read: {error.strerror}",
            where=str(path),
            do="Check the path.",
        ) from None
    policy = convert(document, GatePolicy)
    report(document, list(policy_problems(policy, {one.id: one.severity for one in RULES})))
    return policy


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
