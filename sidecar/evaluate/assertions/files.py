"""Assertions from a file."""

from pathlib import Path
from typing import Final

from sidecar.errors import SidecarError
from sidecar.evaluate.assertions.parse import Named, assertions_of
from sidecar.tape.files import opened

BYTES_MAX: Final = 64 * 1024**2


def read_assertions(path: Path) -> tuple[Named, ...]:
    """The assertions of a file. Raises SidecarError."""
    try:
        with opened(path) as file:
            data = file.read(BYTES_MAX + 1)
    except OSError as error:
        raise SidecarError(
            f"the assertions cannot be read: {error.strerror}", where=str(path)
        ) from None
    if len(data) > BYTES_MAX:
        raise SidecarError("the assertions are larger than 64 MiB", where=str(path))
    return assertions_in(data, name=str(path))


def assertions_in(data: bytes, *, name: str) -> tuple[Named, ...]:
    """The same of what a file holds: UTF-8, whatever the machine's own encoding is."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise SidecarError("the assertions are no UTF-8", where=name) from None
    return assertions_of(text, name=name)
