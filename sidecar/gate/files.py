"""Evidence bundles on disk, the log that names them, and the policy they are held to.

Rules
1. A bundle is written under a temporary name and renamed when whole: a folder that is there is
   complete. Its writer holds what is under way, so that what a killed one left is known as such.
2. Folders and files are for their owner only: runs may hold what the agent saw.
3. A log is added to under a lock, and is on the disk before anybody is told of the verdict.
"""

import fcntl
import hashlib
import os
import re
import shutil
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from sidecar.errors import ExitCode, SidecarError
from sidecar.expression.document import convert, read, report
from sidecar.expression.files import document_bytes
from sidecar.gate.chain import Entry, entries, following, line_of
from sidecar.gate.evidence import Bundle, FileEntry, Sealed
from sidecar.gate.policy import GatePolicy, day_of, policy_problems
from sidecar.gate.rules import RULES
from sidecar.plain import plain

PART = ".part"
_OURS = re.compile(r"[0-9a-f]{32}")
"""A verdict's id: what else ends so in a folder that somebody named is theirs."""


def write_bundle(bundle: Bundle, folder: Path) -> Sealed:
    """Write a bundle into ``folder``, which must not be there yet, file by file. Raises
    SidecarError.
    """
    part = folder.with_name(folder.name + PART)
    try:
        part.mkdir(parents=True, mode=0o700)
        with _held(part):
            entries = [_written(part, name, data) for name, data in bundle.contents]
            sealed = bundle.seal(entries)
            for name, data in sealed.files.items():
                _written(part, name, (data,))
            part.rename(folder)
    except OSError as error:
        shutil.rmtree(part, ignore_errors=True)
        raise SidecarError(
            f"the evidence cannot be written: {error.strerror}",
            where=str(folder),
            do="Check that the folder is writable and has free space.",
        ) from error
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise
    return sealed


def remove_parts(folder: Path) -> list[Path]:
    """Remove what replays that were killed had begun to write into a folder of evidence, and say
    what. One that is being written is left alone: its writer holds it."""
    if not folder.is_dir():
        return []
    return [one for one in sorted(folder.glob(f"*{PART}")) if _is_left(one) and _removed(one)]


def _is_left(part: Path) -> bool:
    name = part.name.removesuffix(PART)
    return bool(_OURS.fullmatch(name)) and stat.S_ISDIR(part.lstat().st_mode)


def _removed(part: Path) -> bool:
    try:
        with _held(part, wait=False):
            shutil.rmtree(part)
    except OSError:  # its writer lives, or it is not ours to remove
        return False
    return True


@contextmanager
def _held(part: Path, *, wait: bool = True) -> Iterator[None]:
    """Hold a folder, as long as this process lives. Raises OSError."""
    descriptor = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        yield
    finally:
        os.close(descriptor)


def read_bundle(folder: Path) -> Mapping[str, bytes]:
    """All files of a bundle by relative path, each read when it is asked for. Raises SidecarError,
    then too."""
    if not folder.is_dir():
        raise SidecarError("there is no evidence", where=str(folder), do="Was it moved or deleted?")
    with _reading(folder):
        return _Folder(
            folder,
            [
                path.relative_to(folder).as_posix()
                for path in sorted(folder.rglob("*"))
                if _is_own_file(path, folder)
            ],
        )


class _Folder(Mapping[str, bytes]):
    """The files of a bundle, none of them held."""

    def __init__(self, folder: Path, names: Iterable[str]) -> None:
        self._folder = folder
        self._names = dict.fromkeys(names)

    def __getitem__(self, name: str) -> bytes:
        if name not in self._names:
            raise KeyError(name)
        with _reading(self._folder):
            descriptor = os.open(self._folder / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            with os.fdopen(descriptor, "rb") as file:
                return file.read()

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, name: object) -> bool:
        return name in self._names


@contextmanager
def _reading(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SidecarError(
            f"the evidence cannot be read: {error.strerror}", where=str(folder)
        ) from error


def log_path(folder: Path, project: str) -> Path:
    """Where the log of a project stands, in a folder of evidence."""
    return folder / f"{quote(project, safe='')}.log.jsonl"


def append_log(path: Path, entry: Entry) -> Entry:
    """Add an entry to a log; it as it stands there. Raises SidecarError.

    A log that is not whole is not added to: what follows would be said to be whole.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(descriptor, "r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            found, wrong = entries(file.read())
            if wrong:
                raise SidecarError(
                    f"the log of evidence does not hold: {wrong}",
                    where=str(path),
                    do="Keep it as it is, find out who changed it, and put back the whole one.",
                )
            made = following(found[-1] if found else None, entry)
            _append(file.fileno(), line_of(made))
    except OSError as error:
        raise SidecarError(
            f"the log of evidence cannot be written: {error.strerror}", where=str(path)
        ) from None
    return made


def last_told_ns(path: Path) -> int:
    """When the newest line of a log was told; 0 where there is none. Raises SidecarError."""
    found, _ = entries(read_log(path))
    return found[-1].at_ns if found else 0


def read_log(path: Path) -> bytes:
    """A log's bytes; none where there is no log. Raises SidecarError."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise SidecarError(
            f"the log of evidence cannot be read: {error.strerror}", where=str(path)
        ) from None


def read_policy(path: Path, now_ns: int) -> GatePolicy:
    """The policy of a ``gate.yaml`` on a day. Raises SidecarError that lists every problem."""
    try:
        document = read(document_bytes(path).decode(), name=str(path))
    except UnicodeDecodeError:
        raise SidecarError("it is not UTF-8 text", where=str(path)) from None
    except OSError as error:
        raise SidecarError(
            f"the gate's policy cannot be read: {error.strerror}",
            where=str(path),
            do="Check the path.",
        ) from None
    policy = convert(document, GatePolicy)
    severities = {one.id: one.severity for one in RULES}
    report(document, list(policy_problems(policy, severities, day_of(now_ns))))
    return policy


def _is_own_file(path: Path, folder: Path) -> bool:
    """Whether it is a file, and no folder. Raises SidecarError for anything else.

    A link leads to what is not in the bundle; a pipe holds no bytes that were written.
    """
    mode = path.lstat().st_mode
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
        return stat.S_ISREG(mode)
    name = plain(path.relative_to(folder).as_posix())
    kind = "a link" if stat.S_ISLNK(mode) else "a pipe, socket or device"
    raise SidecarError(
        f"the evidence does not hold: {name} is {kind}, not a file",
        where=str(folder),
        do="Take the bundle as it was written: it holds files alone.",
        code=ExitCode.FAILED,
    )


def _append(descriptor: int, line: bytes) -> None:
    """Add a line whole or not at all: half of one (a full disk) would end the log for good."""
    size = os.fstat(descriptor).st_size
    try:
        rest = line
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        os.fsync(descriptor)
    except OSError:
        os.ftruncate(descriptor, size)
        raise


def _written(part: Path, name: str, pieces: Iterable[bytes]) -> FileEntry:
    """Write one file of a bundle; its entry in the manifest."""
    path, size, seen = part / name, 0, hashlib.sha256()
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        for piece in pieces:
            file.write(piece)
            seen.update(piece)
            size += len(piece)
        file.flush()
        os.fsync(file.fileno())
    return FileEntry(path=name, size=size, sha256=f"sha256:{seen.hexdigest()}")
