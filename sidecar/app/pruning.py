"""Deleting what projects keep no longer."""

import asyncio
from contextlib import ExitStack, closing
from functools import cache

from msgspec import Struct

from sidecar import clock
from sidecar.app.datasets import every_dataset
from sidecar.app.opening import open_backend
from sidecar.app.sealing import keyring, master_key
from sidecar.app.stages import pipeline_rules
from sidecar.config import Loaded
from sidecar.pipeline.batch import Rules
from sidecar.store.datasets import Erasure, Outliving
from sidecar.store.envelope import Keyring
from sidecar.store.ports import Datasets, OpenTraces

_PRUNE_MAX, _PRUNE_LOOKS = 256, 2


class Pruned(Struct, frozen=True, kw_only=True):
    """How many revisions are gone, of how many traces the sealed telemetry, and of how many items
    of datasets what they said. ``outliving``: datasets that still say what gone traces said."""

    revisions: int
    telemetry: int
    items: int
    outliving: tuple[Outliving, ...]


def prune_store(loaded: Loaded) -> Pruned:
    """Delete now what projects keep no longer; how much. Raises StoreUnavailable.

    A running sidecar does the same by itself, a little at a time.
    """
    with ExitStack() as stack:
        stores = stack.enter_context(open_backend(loaded))
        stack.enter_context(closing(stores.traces()))  # an empty store is not made to be pruned

        @cache
        def ring() -> Keyring:
            return keyring(stack.enter_context(closing(stores.keys())), master_key(loaded))

        opened = stack.enter_context(
            closing(
                stores.open_traces(
                    lambda project: ring()(project), loaded.config.assemble.bounds, "prune"
                )
            )
        )
        rules = pipeline_rules(loaded)
        with closing(stores.datasets(write=True)) as datasets:
            items = _erased(datasets, rules)
            revisions, telemetry = asyncio.run(_pruned(opened, rules))
            return Pruned(
                revisions=revisions,
                telemetry=telemetry,
                items=items,
                outliving=tuple(datasets.outliving()),
            )


def _erased(store: Datasets, rules: Rules) -> int:
    retention = rules.retention(clock.now_ns(), _PRUNE_MAX)
    erased = 0
    for project in sorted({one.project for one in every_dataset(store)}):
        before_ns = retention.items_before_ns(project)
        while before_ns is not None:
            some = Erasure(project=project, limit=_PRUNE_MAX, before_ns=before_ns)
            gone = store.erase_items(some)
            erased += gone
            if not gone:
                break
    return erased


async def _pruned(store: OpenTraces, rules: Rules) -> tuple[int, int]:
    revisions = telemetry = 0
    idle = 0
    while idle < _PRUNE_LOOKS:  # once more: another sidecar may have been at it
        now_ns = clock.now_ns()
        gone = await store.expire(now_ns, _PRUNE_MAX)
        old = await store.prune(rules.retention(now_ns, _PRUNE_MAX))
        telemetry, revisions = telemetry + gone, revisions + old
        idle = 0 if gone or old else idle + 1
    return revisions, telemetry
