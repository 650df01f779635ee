"""The control credential's file: read where it is, made where it is not, for its owner alone."""

import base64
import os
from pathlib import Path

from sidecar import clock
from sidecar.errors import SidecarError

PREFIX = "tw_"
_CHARS_LEAST = 20


def new_key() -> str:
    """A new control credential."""
    return PREFIX + base64.urlsafe_b64encode(clock.random_bytes(32)).rstrip(b"=").decode()


def key_of(path: Path, *, make: bool) -> str:
    """The credential in a file; ``make``: put a new one there where there is none. Raises
    SidecarError.
    """
    if make:
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            pass
        except OSError as error:
            raise _unusable(path, f"cannot be made: {error.strerror}") from None
        else:
            with os.fdopen(descriptor, "w") as file:
                file.write(new_key() + "\n")
    try:
        text = path.read_text("ascii").strip()
    except OSError as error:
        raise _unusable(path, f"cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        text = ""
    if len(text) < _CHARS_LEAST or not text.isprintable() or " " in text:
        raise _unusable(path, f"holds no key (one line of at least {_CHARS_LEAST} characters)")
    return text


def _unusable(path: Path, what: str) -> SidecarError:
    return SidecarError(
        f"the control key {what}",
        where=str(path),
        do="Name the file that sidecar twin serve --key-file made.",
    )
