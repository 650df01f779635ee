"""The stages as one pure composition: build, attach receipts, plan probes, judge, detect, redact.

Rules
1. The same parts, receipts and evidence give the same trace; the time is an argument.
2. Redaction is the last stage; what ``conclude`` returns is the first form that may be kept.
3. Probes are planned on the unredacted trace, whose arguments they need, and run by the driver.
4. A receipt without any span still makes a trace.
5. Where a trace's older telemetry has expired, its last revision stands for it.
"""

from collections.abc import Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from processors.model.call import ReceiptFact
from processors.model.evidence import Claim, Evidence
from processors.model.names import Capture, SideEffectClass
from processors.model.span import Batch
from processors.model.step import Step
from processors.model.trace import AgentTrace, TraceWarning
from processors.redact.keeping import Keeping
from processors.redact.rules import redact_with
from processors.redact.terms import Terms
from processors.verify.detect import detect
from processors.verify.detect_settings import DEFAULTS, Settings
from processors.verify.outcome import judge
from processors.verify.receipts import attach
from sidecar.otlp.limits import LIMITS, Limits
from sidecar.pipeline.build import built
from sidecar.pipeline.clues import digests
from sidecar.pipeline.keepers import Keepers
from sidecar.pipeline.pack import join, unpack
from sidecar.store.codec import Codec
from sidecar.store.traces import Digests, PartKind, Retention, content_digest


class ProjectRules(Struct, frozen=True, kw_only=True):
    """What of a project's content is kept, and how long its sealed telemetry lives.

    ``terms`` are those of ``capture`` unless more is said. ``traces_ns``: how long published
    revisions live, None for ever; ``datasets_ns``: what items say that were made from runs.
    """

    capture: Capture = "off"
    terms: Terms | None = None
    content_ns: int
    traces_ns: int | None = None
    datasets_ns: int | None = None


class Rules(Struct, frozen=True, kw_only=True):
    """What the stages need to know beside telemetry: tool classes, and each project's rules.

    ``limits`` are those of one span or log record; ``detect`` are the detectors' thresholds.
    """

    tools: Mapping[str, SideEffectClass]
    projects: Mapping[str, ProjectRules]
    otherwise: ProjectRules
    keepers: Keepers = field(default_factory=Keepers)
    limits: Limits = LIMITS
    detect: Settings = DEFAULTS

    def of(self, project: str) -> ProjectRules:
        """The rules of a project; one that is not listed has the defaults."""
        return self.projects.get(project, self.otherwise)

    def retention(self, now_ns: int, limit: int) -> Retention:
        """Which published revisions are too old, and which items of datasets."""
        return Retention(
            now_ns=now_ns,
            limit=limit,
            ages_ns={name: rules.traces_ns for name, rules in self.projects.items()},
            otherwise_ns=self.otherwise.traces_ns,
            items_ages_ns={name: rules.datasets_ns for name, rules in self.projects.items()},
            items_otherwise_ns=self.otherwise.datasets_ns,
        )

    def keep(self, project: str) -> Keeping | None:
        """How a project's content is kept; None keeps everything."""
        rules = self.of(project)
        return self.keepers.of(project, rules.terms or Terms(capture=rules.capture))


class Opened(Struct, frozen=True, kw_only=True):
    """An open trace's content, unsealed; ``bases`` stand for parts that have expired.

    ``lost``: items of it that are not here, for it had too many.
    """

    project: str
    key: str
    parts: tuple[tuple[PartKind, bytes], ...]
    bases: tuple[AgentTrace, ...] = ()
    lost: int = 0


class Assembled(Struct, frozen=True, kw_only=True):
    """The traces of an open trace, and the clues by which more of them is found."""

    traces: tuple[AgentTrace, ...]
    clues: tuple[bytes, ...] = ()


class Concluded(Struct, frozen=True, kw_only=True):
    """A trace ready to keep, and its digests."""

    trace: AgentTrace
    digests: Digests


_receipts = Codec(ReceiptFact)


def pack_receipt(fact: ReceiptFact) -> bytes:
    """A receipt as the payload of a part."""
    return _receipts.encode(fact)


def telemetry(opened: Opened) -> Batch:
    """All telemetry of an open trace, as it was received."""
    return join([unpack(payload) for kind, payload in opened.parts if kind == "telemetry"])


def assembled(opened: Opened, batch: Batch, *, now_ns: int) -> Assembled:
    """The traces of an open trace's ``telemetry``, receipts attached, nothing redacted."""
    receipts = [_receipts.decode(payload) for kind, payload in opened.parts if kind == "receipt"]
    traces, words = built(batch, project=opened.project, now_ns=now_ns)
    if not traces and receipts:
        traces = (_bare(opened),)
    for base in opened.bases:
        traces = tuple(_continued(base, trace) for trace in traces)
    if opened.lost:
        traces = tuple(_truncated(trace) for trace in traces)
    attached = tuple(attach(trace, receipts, now_ns) for trace in traces)
    return Assembled(traces=attached, clues=digests(words))


def conclude(
    trace: AgentTrace,
    evidence: Sequence[Evidence],
    rules: Rules,
    *,
    now_ns: int,
    heard: Sequence[Claim] = (),
) -> Concluded:
    """The trace judged with what the probes saw and an extractor ``heard``, then redacted."""
    plain = _judged(trace, rules, now_ns)
    facts = content_digest(plain)
    if not evidence and not heard:
        return Concluded(trace=plain, digests=Digests(content=facts, facts=facts))
    more = replace(trace, evidence=(*trace.evidence, *evidence), claims=(*trace.claims, *heard))
    probed = _judged(more, rules, now_ns)
    return Concluded(trace=probed, digests=Digests(content=content_digest(probed), facts=facts))


def _judged(trace: AgentTrace, rules: Rules, now_ns: int) -> AgentTrace:
    judged = judge(trace, tools=rules.tools, now_ns=now_ns)
    judged = detect(judged, tools=rules.tools, settings=rules.detect)
    keep = rules.keep(trace.project)
    return judged if keep is None else redact_with(judged, keep)


def _truncated(trace: AgentTrace) -> AgentTrace:
    """A trace of which there was more than one may have. How much more is in the metrics."""
    warning = TraceWarning(
        code="trace_over_limit", detail="the trace has more items than one may have"
    )
    return replace(trace, completeness="truncated", warnings=(*trace.warnings, warning))


def _bare(opened: Opened) -> AgentTrace:
    """A trace of which only the gateway knows."""
    return AgentTrace(
        trace_id=opened.key,
        trace_ids=(opened.key,),
        project=opened.project,
        completeness="missing_root",
    )


def _continued(base: AgentTrace, late: AgentTrace) -> AgentTrace:
    """A trace whose older telemetry has expired: the last revision's steps, and the late ones.

    A trace that shares no id with the base is another one, and stays as it is.
    """
    ids = tuple(dict.fromkeys((*base.trace_ids, *late.trace_ids)))
    if len(ids) == len(base.trace_ids) + len(late.trace_ids):
        return late
    steps: dict[str, Step] = {step.step_id: step for step in base.steps}
    steps.update((step.step_id, step) for step in late.steps)
    warning = TraceWarning(
        code="late_after_expiry", detail="older telemetry had expired; its last revision stands"
    )
    return replace(
        base,
        trace_ids=ids,
        steps=tuple(sorted(steps.values(), key=lambda step: (step.start_ns, step.step_id))),
        warnings=(*(item for item in base.warnings if item != warning), warning),
        final_output=late.final_output or base.final_output,
    )
