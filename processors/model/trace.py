"""AgentTrace: ordered steps of one run, with claims, evidence and outcome.

Rules
1. Steps are in causal order, then by start, then by id; the same facts give the same trace.
2. A revision is numbered from 1; late facts publish revision n + 1 and never edit n.
3. ``usage_total`` is the sum over leaf model calls; aggregates count only where no leaf has usage.
"""

from msgspec import Struct

from processors.model.detection import Detection
from processors.model.evidence import Claim, Evidence, Outcome
from processors.model.names import Completeness
from processors.model.step import Step, Usage


class Service(Struct, frozen=True, kw_only=True):
    """The OpenTelemetry service that ran the agent."""

    name: str | None = None
    version: str | None = None


class TraceWarning(Struct, frozen=True, kw_only=True):
    """Something odd in the telemetry that a reader should know; ``code`` is from a closed set."""

    code: str
    detail: str


class AgentTrace(Struct, frozen=True, kw_only=True):
    """One agent run. ``trace_id`` is that of the earliest start when several were stitched."""

    trace_id: str
    trace_ids: tuple[str, ...] = ()
    conversation_id: str | None = None
    service: Service = Service()
    project: str = "default"
    revision: int = 1
    completeness: Completeness = "complete"
    warnings: tuple[TraceWarning, ...] = ()
    steps: tuple[Step, ...] = ()
    final_output: str | None = None
    claims: tuple[Claim, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    outcome: Outcome = Outcome()
    detections: tuple[Detection, ...] = ()
    usage_total: Usage = Usage()
