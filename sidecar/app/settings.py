"""What child processes are told by their parent."""

from msgspec import Struct

from sidecar.config import Loaded


class PipelineSettings(Struct, frozen=True, kw_only=True):
    """One line to the pipeline's process; the master key travels by pipe, never by argument."""

    loaded: Loaded
    master: bytes


class ExportSettings(Struct, frozen=True, kw_only=True):
    """The same to the exporters' process; ``own_ports`` are never dialled on this machine.

    ``source`` names this sidecar among those that share a database.
    """

    loaded: Loaded
    master: bytes
    own_ports: tuple[int, ...]
    source: str
