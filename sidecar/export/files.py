"""What an exporter reads from files: its credential and the roots it trusts.

Rules
1. A credential is read when it is needed, so that a rotated one is used at once; it is never kept,
   printed or logged.
"""

from pathlib import Path

from sidecar.errors import SidecarError
from sidecar.export.config import Otlp

Headers = tuple[tuple[str, str], ...]


class CredentialUnusable(Exception):
    """The credential's file cannot be read, or holds no header value; the text tells no content."""


def headers_of(otlp: Otlp) -> Headers:
    """The configured headers and the credential, names in lower case. Raises CredentialUnusable."""
    found = {name.lower(): value for name, value in otlp.headers.items()}
    if otlp.credential is not None:
        found[otlp.credential.header.lower()] = _secret(otlp.credential.file)
    return tuple(found.items())


def roots_of(otlp: Otlp) -> bytes | None:
    """The PEM roots of ``ca_file``; None for the system's. Raises SidecarError."""
    if not otlp.ca_file:
        return None
    try:
        return Path(otlp.ca_file).read_bytes()
    except OSError as error:
        raise SidecarError(
            f"an exporter's ca_file cannot be read: {error.strerror}", where=otlp.ca_file
        ) from None


def _secret(file: str) -> str:
    try:
        value = Path(file).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise CredentialUnusable(f"the credential file {file} cannot be read: {why}") from None
    if not value or not value.isprintable() or not value.isascii():
        raise CredentialUnusable(f"the credential file {file} holds no usable header value")
    return value
