"""Deleting what projects keep no longer."""

import asyncio
from contextlib import ExitStack, closing
from functools import cache

from msgspec import Struct

from sidecar import clock
from sidecar.app.opening import open_backend
from sidecar.app.sealing import keyring, master_key
from sidecar.app.stages import pipeline_rules
from sidecar.config import Loaded
from sidecar.pipeline.batch import Rules
from sidecar.store.envelope import Keyring
from sidecar.store.ports import OpenTraces

_PRUNE_MAX, _PRUNE_LOOKS = 256, 2


class Pruned(Struct, frozen=True, kw_only=True):
    """How many revisions are gone, and of how many traces the sealed telemetry."""

    revisions: int
    telemetry: int


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
        return asyncio.run(_pruned(opened, pipeline_rules(loaded)))


async def _pruned(store: OpenTraces, rules: Rules) -> Pruned:
    revisions = telemetry = 0
    idle = 0
    while idle < _PRUNE_LOOKS:  # once more: another sidecar may have been at it
        now_ns = clock.now_ns()
        gone = await store.expire(now_ns, _PRUNE_MAX)
        old = await store.prune(rules.retention(now_ns, _PRUNE_MAX))
        telemetry, revisions = telemetry + gone, revisions + old
        idle = 0 if gone or old else idle + 1
    return Pruned(revisions=revisions, telemetry=telemetry)
