"""The pipeline's process: what its parent tells it, and how it opens what it needs."""

from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

import msgspec

from processors.model.evidence import Evidence
from processors.model.trace import AgentTrace
from sidecar import clock
from sidecar.app.opening import JOURNAL, existing, open_backend
from sidecar.app.sealing import keyring, redaction_keys
from sidecar.app.settings import PipelineSettings
from sidecar.app.stages import leaving, pipeline_rules
from sidecar.config import Loaded
from sidecar.pipeline.batch import Rules
from sidecar.pipeline.driver import Ports as PipelinePorts
from sidecar.pipeline.worker import Work
from sidecar.pipeline.worker import serve as serve_pipeline
from sidecar.store.journal import journal_cursor
from sidecar.store.sqlite.journal import SqliteJournalReader

if TYPE_CHECKING:
    from sidecar.app.asking import Asking


def pipeline_main() -> int:
    """The entry of the pipeline's process (see ``pipeline.worker``)."""
    return serve_pipeline(_open_pipeline)


def _open_pipeline(settings: bytes) -> Work:
    given = msgspec.json.decode(settings, type=PipelineSettings)
    loaded, folder = given.loaded, existing(given.loaded)
    stack = ExitStack()
    stores = stack.enter_context(open_backend(loaded))
    keys = stack.enter_context(closing(stores.keys()))
    ring = keyring(keys, given.master)
    journal = stack.enter_context(closing(SqliteJournalReader(folder / JOURNAL, sealers=ring)))
    source, bounds = journal_cursor(journal.journal_id), loaded.config.assemble.bounds
    opened = stack.enter_context(closing(stores.open_traces(ring, bounds, source)))
    traces = stack.enter_context(closing(stores.traces()))
    ledger = stack.enter_context(closing(stores.read_ledger(ring)))
    digest_keys = redaction_keys(keys, ring)
    rules = pipeline_rules(loaded, lambda p: digest_keys.current(p, clock.now_ns()))
    asking = _asking(loaded, rules)
    ports = PipelinePorts(
        journal=journal,
        open_traces=opened,
        traces=traces,
        facts_after=ledger.facts_after,
        probed=asking.probed if asking else _nothing_probed,
        probe=asking.probe if asking else _no_evidence,
        leaving=leaving(loaded.config, rules, journal.journal_id, given.master),
        hear=asking.hear if asking else None,
    )

    return Work(
        ports=ports,
        config=loaded.config.assemble,
        rules=rules,
        finish=asking.close if asking else _nothing_held,
        close=stack.close,
    )


def _asking(loaded: Loaded, rules: Rules) -> "Asking | None":
    config = loaded.config
    if not (config.probes or config.claims.llm.url):
        return None
    from sidecar.app.asking import open_asking  # loads HTTP, expressions and more

    return open_asking(loaded, rules)


def _nothing_probed(_: AgentTrace) -> bool:
    return False


async def _no_evidence(_: AgentTrace) -> tuple[Evidence, ...]:
    return ()


async def _nothing_held() -> None:
    pass
