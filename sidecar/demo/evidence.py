"""What the sidecar concluded: traces, receipts and calls read from its store, as ``show`` reads
them.

Rules
1. A trace is read when the pipeline has published it; waiting is polling with a deadline.
2. Nothing is computed here: outcomes and evidence are the sidecar's.
"""

import time
from collections.abc import Callable, Sequence

from processors.model.evidence import Evidence
from processors.model.trace import AgentTrace
from sidecar.app import opening
from sidecar.demo.stage import Stage
from sidecar.errors import SidecarError

PUBLISH_SECONDS = 30.0


def published(stage: Stage, trace_id: str, enough: Callable[[AgentTrace], bool]) -> AgentTrace:
    """The trace once ``enough`` holds of it, or as it stands at the deadline.

    Raises SidecarError when it was never published.
    """
    deadline = time.monotonic() + PUBLISH_SECONDS
    with opening.open_traces(stage.loaded) as traces:
        while True:
            trace = traces.get_trace(trace_id)
            if trace is not None and enough(trace):
                return trace
            if time.monotonic() > deadline:
                break
            time.sleep(0.2)
    if trace is None:
        raise SidecarError(
            f"trace {trace_id} was not published in {PUBLISH_SECONDS:.0f} s",
            where=str(stage.files / "sidecar.log"),
        )
    return trace


def of_source(trace: AgentTrace, source: str) -> list[Evidence]:
    """The evidence of one source (receipt, probe) about the refund."""
    return [e for e in trace.evidence if (e.source, e.subject) == (source, "issue_refund")]


def call_ids(stage: Stage, receipt_ids: Sequence[str]) -> tuple[str, ...]:
    """The calls that these receipts are of, in order, each once."""
    with opening.open_ledger(stage.loaded) as ledger:
        found = [ledger.get_receipt(one, None) for one in receipt_ids]
    return tuple(dict.fromkeys(receipt.call_id for receipt in found if receipt is not None))
