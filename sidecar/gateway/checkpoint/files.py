"""Anchors in files: checkpoints appended, each on the disk before it counts."""

import os
from collections.abc import Sequence
from pathlib import Path

_MODE = 0o600


def append(path: Path, lines: Sequence[str]) -> None:
    """Append the lines, durably. Raises OSError."""
    text = "".join(f"{each}\n" for each in lines).encode()
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, _MODE)
    try:
        written = os.write(descriptor, text)
        if written != len(text):
            raise OSError(f"{path} took {written} of {len(text)} bytes")
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
