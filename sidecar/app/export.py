"""The exporters' process: how it opens what it needs."""

from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path

import msgspec

from sidecar.app.opening import existing, open_backend
from sidecar.app.sealing import keyring
from sidecar.app.settings import ExportSettings
from sidecar.export.client import open_lane
from sidecar.export.driver import dice, export
from sidecar.pipeline.worker import Life, live


def export_main() -> int:
    """The entry of the exporters' process (see ``pipeline.worker``)."""
    return live(_open_export, "export")


def _open_export(settings: bytes) -> Life:
    given = msgspec.json.decode(settings, type=ExportSettings)
    existing(given.loaded)
    stack = ExitStack()
    stores = stack.enter_context(open_backend(given.loaded))
    keys = stack.enter_context(closing(stores.keys()))
    ring = keyring(keys, given.master)
    outbox = stack.enter_context(closing(stores.outbox(ring, given.source)))
    own_ports = frozenset(given.own_ports)
    start = Path(given.loaded.folder)
    lanes = [open_lane(each, start, own_ports) for each in given.loaded.config.export]

    return Life(run=partial(export, lanes, outbox, dice), close=stack.close)
