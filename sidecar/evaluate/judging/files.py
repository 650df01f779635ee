"""A judge's cache and calibration on disk.

Rules
1. A cached vote is written under a temporary name and renamed: what is there is whole. One that
   cannot be read is asked again.
2. Cache and calibration are for their owner only: they hold what was judged.
"""

import os
from pathlib import Path

import msgspec

from sidecar.errors import SidecarError
from sidecar.evaluate.judging.calibration import FORMAT, Calibration
from sidecar.evaluate.opinion import Vote


class FileCache:
    """Votes by key in a folder; nothing is kept where ``folder`` is None."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._held: dict[str, Vote] = {}

    def get(self, key: str) -> Vote | None:
        """The vote, or None."""
        if key not in self._held and self._folder is not None:
            try:
                data = self._path(self._folder, key).read_bytes()
                self._held[key] = msgspec.json.decode(data, type=Vote)
            except (OSError, msgspec.DecodeError):
                return None
        return self._held.get(key)

    def put(self, key: str, vote: Vote) -> None:
        """Keep a vote. Raises SidecarError where the folder cannot be written."""
        self._held[key] = vote
        if self._folder is not None:
            _write(self._path(self._folder, key), msgspec.json.encode(vote))

    @staticmethod
    def _path(folder: Path, key: str) -> Path:
        return folder / key[:2] / f"{key}.json"


def read_calibration(path: Path) -> Calibration:
    """The document. Raises SidecarError."""
    try:
        found = msgspec.json.decode(path.read_bytes(), type=Calibration)
    except OSError as error:
        raise SidecarError(
            f"the judge's calibration cannot be read: {error.strerror}",
            where=str(path),
            do="Write it with `sidecar scenario calibrate`, or leave judge.calibration out.",
        ) from None
    except msgspec.DecodeError as error:
        raise SidecarError(f"it is no calibration: {error}", where=str(path)) from None
    if found.format != FORMAT:
        raise SidecarError(f"its format is {found.format!r}, not {FORMAT!r}", where=str(path))
    return found


def write_calibration(path: Path, calibration: Calibration) -> None:
    """Write the document. Raises SidecarError."""
    _write(path, msgspec.json.format(msgspec.json.encode(calibration), indent=1) + b"\n")


def _write(path: Path, data: bytes) -> None:
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        part.replace(path)
    except OSError as error:
        raise SidecarError(f"it cannot be written: {error.strerror}", where=str(path)) from None
