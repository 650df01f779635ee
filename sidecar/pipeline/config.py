"""The pipeline's configuration (key ``assemble``)."""

from msgspec import Struct

from processors.value import duration_ns
from sidecar.errors import Problem


class Config(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``idle``: how long a trace must be silent before a revision is published."""

    idle: str = "30s"

    @property
    def idle_ns(self) -> int:
        """``idle`` in nanoseconds."""
        return duration_ns(self.idle)

    def problems(self) -> list[Problem]:
        """What is wrong with the values, dotted below ``assemble``."""
        try:
            duration_ns(self.idle)
        except ValueError as error:
            return [Problem("idle", str(error))]
        return []
