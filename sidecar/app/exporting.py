"""What leaves: the exporters' process, from its parent, and the sidecar's own spans."""

from collections.abc import Set
from contextlib import AsyncExitStack, closing
from pathlib import Path

import msgspec

from processors.value import duration_ns
from sidecar.app.parts import Part, start
from sidecar.app.settings import ExportSettings
from sidecar.config import Loaded
from sidecar.egress.client import Egress
from sidecar.egress.rules import LeadsBack, TargetRefused
from sidecar.errors import SidecarError
from sidecar.export.worker import ExportWatch
from sidecar.pipeline.process import PipelineProcess
from sidecar.store.backend import (
    Backend,
)
from sidecar.store.outbox import Lane
from sidecar.telemetry import log

_EXPORT_MAIN = "sidecar.app.export:export_main"
_VET_NS = 2 * 10**9


def prepare_export(loaded: Loaded, stores: Backend, source: str) -> None:
    """A place in the outbox for each exporter, before anything is put in."""
    lanes = [
        Lane(name=exporter.title, bytes_max=exporter.otlp.queue.bytes_max)
        for exporter in loaded.config.export
    ]
    forgotten = stores.prepare_outbox(lanes, source)
    if forgotten:
        log("export").warning(
            "export_forgotten", requests=forgotten, reason="their exporter is gone"
        )


async def start_export(
    stack: AsyncExitStack,
    loaded: Loaded,
    stores: Backend,
    source: str,
    master: bytes,
    egress: Egress,
    own_ports: set[int],
) -> int | None:
    """The exporters' process, and the watch over it. Raises SidecarError for one that leads back.

    It starts when everything listens: only then are all ports of ours known.
    """
    for index, exporter in enumerate(loaded.config.export):
        try:
            await egress.vetted(exporter.target, deadline_ns=_VET_NS)
        except LeadsBack:
            raise SidecarError(
                "an exporter leads back to the sidecar itself",
                where=f"configuration key export.{index}.otlp.endpoint",
                do="Export to another receiver (docs/howto/collector.md).",
            ) from None
        except TargetRefused as error:
            log("export").warning("export_not_reachable_yet", reason=str(error))
    progress = stack.enter_context(closing(stores.export_progress()))
    settings = ExportSettings(
        loaded=loaded, master=master, own_ports=tuple(sorted(own_ports)), source=source
    )
    process = PipelineProcess(_EXPORT_MAIN, msgspec.json.encode(settings), "export")
    await start(stack, process)
    await start(stack, ExportWatch(progress))
    return process.pid


def open_own_traces(loaded: Loaded, own_ports: Set[int]) -> Part:
    """The sidecar's own spans, on their way out. Raises SidecarError for an unusable ca_file."""
    # The SDK and the wires are loaded by who asked for them.
    from sidecar.export.client import open_lane
    from sidecar.export.own.client import OwnTracing

    config = loaded.config.telemetry.traces
    assert config.exporter is not None
    lane = open_lane(config.exporter, Path(loaded.folder), frozenset(own_ports))
    timeout_ns = duration_ns(config.exporter.otlp.timeout)
    return OwnTracing(lane.sender, ratio=config.ratio, timeout_ns=timeout_ns)
