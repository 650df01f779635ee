"""The pipeline's configuration (key ``assemble``)."""

from msgspec import Struct

from processors.value import duration_ns
from sidecar.errors import Problem
from sidecar.store.traces import Bounds


class Config(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``idle``: how long a trace must be silent before a revision is published.

    The others bound what is kept (docs/specs/ingest.md, "Limits"): of one trace, items and unpacked
    bytes; of the sealed telemetry of all traces, bytes on the disk and the number of traces.
    """

    idle: str = "30s"
    trace_items_max: int = Bounds().trace_items_max
    trace_bytes_max: int = Bounds().trace_bytes_max
    held_bytes_max: int = Bounds().held_bytes_max
    open_traces_max: int = Bounds().open_traces_max

    @property
    def bounds(self) -> Bounds:
        """The bounds of the store."""
        return Bounds(**{name: getattr(self, name) for name in _LEAST})

    @property
    def idle_ns(self) -> int:
        """``idle`` in nanoseconds."""
        return duration_ns(self.idle)

    def problems(self) -> list[Problem]:
        """What is wrong with the values, dotted below ``assemble``."""
        found = [
            Problem(name, f"must be at least {least}")
            for name, least in _LEAST.items()
            if getattr(self, name) < least
        ]
        try:
            duration_ns(self.idle)
        except ValueError as error:
            found.append(Problem("idle", str(error)))
        return found


_LEAST = {
    "trace_items_max": 1,
    "trace_bytes_max": 1024,
    "held_bytes_max": 1024**2,
    "open_traces_max": 1,
}
