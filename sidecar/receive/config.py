"""The receivers' configuration."""

from msgspec import Struct

from sidecar.errors import Problem
from sidecar.listen.config import Tls
from sidecar.otlp.limits import Limits


class Journal(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``bytes_max``: size at which the journal answers RESOURCE_EXHAUSTED / 429."""

    bytes_max: int = 2 * 1024**3


class Config(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where OTLP arrives; an empty address is off. ``request_bytes_max`` is decompressed.

    ``limits``: what one request, span or log record may hold (docs/specs/ingest.md, "Limits").
    """

    grpc: str = "127.0.0.1:4317"
    http: str = "127.0.0.1:4318"
    journal: Journal = Journal()
    request_bytes_max: int = 20 * 1024**2
    limits: Limits = Limits()
    grpc_tls: Tls = Tls()
    http_tls: Tls = Tls()

    def problems(self) -> list[Problem]:
        """What is wrong with the values, dotted below ``receive``."""
        found = []
        if self.journal.bytes_max < 1024**2:
            found.append(Problem("journal.bytes_max", "must be at least 1048576 (1 MiB)"))
        if self.request_bytes_max < 1024:
            found.append(Problem("request_bytes_max", "must be at least 1024"))
        if self.limits.waiting_bytes_max < self.request_bytes_max:
            text = "must be at least receive.request_bytes_max, or no large request is ever taken"
            found.append(Problem("limits.waiting_bytes_max", text))
        found += [
            Problem(f"grpc_tls.{each.path}", each.text)
            for each in self.grpc_tls.problems(grpc=True)
        ]
        found += [Problem(f"http_tls.{each.path}", each.text) for each in self.http_tls.problems()]
        found += [Problem(f"limits.{each.path}", each.text) for each in self.limits.problems()]
        return found
