"""The bytes of a document that somebody named: a path may name a device that never ends.

Rules
1. No more is read than a document may hold; what goes on after that is refused.
"""

from pathlib import Path
from typing import Final

from sidecar.errors import SidecarError
from sidecar.expression.bounded import TEXT_CHARS_MAX

BYTES_MAX: Final = 4 * TEXT_CHARS_MAX


def document_bytes(path: Path) -> bytes:
    """What stands in the file. Raises OSError, SidecarError where it goes on for too long."""
    with path.open("rb") as file:
        found = file.read(BYTES_MAX + 1)
    if len(found) > BYTES_MAX:
        raise SidecarError(f"it is longer than {BYTES_MAX} bytes", where=str(path))
    return found
