"""The receivers' configuration."""

from msgspec import Struct

from sidecar.errors import Problem


class Journal(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``bytes_max``: size at which the journal answers RESOURCE_EXHAUSTED / 429."""

    bytes_max: int = 2 * 1024**3


class Config(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where OTLP arrives; an empty address is off. ``request_bytes_max`` is decompressed."""

    grpc: str = "127.0.0.1:4317"
    http: str = "127.0.0.1:4318"
    journal: Journal = Journal()
    request_bytes_max: int = 20 * 1024**2

    def problems(self) -> list[Problem]:
        """What is wrong with the values, dotted below ``receive``."""
        found = []
        if self.journal.bytes_max < 1024**2:
            found.append(Problem("journal.bytes_max", "must be at least 1048576 (1 MiB)"))
        if self.request_bytes_max < 1024:
            found.append(Problem("request_bytes_max", "must be at least 1024"))
        return found
