"""A webhook's secrets, read from their file when they are needed: a changed one is used at once."""

from pathlib import Path

from sidecar.gateway.notify.message import read_secrets

_CHARS_MAX = 4096


class SecretUnusable(Exception):
    """The file cannot be read, or holds no secret; the text tells no content."""


def secrets_in(file: str) -> tuple[bytes, ...]:
    """The secrets to sign with. Raises SecretUnusable."""
    try:
        return read_secrets(Path(file).read_text(encoding="ascii")[:_CHARS_MAX])
    except OSError as error:
        raise SecretUnusable(f"the secret file {file} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SecretUnusable(f"the secret file {file} is not text") from None
    except ValueError as error:
        raise SecretUnusable(f"the secret file {file}: {error}") from None
