"""Detectors over a trace: ways of going wrong that its steps show (ASM-02).

Rules
1. Pure: the same trace, registry and settings give the same detections, in the order of ``CODES``.
2. A detector says nothing of what nobody captured, and nothing of an empty trace.
3. Detections change no outcome; detecting again replaces what was detected before, save where the
   telemetry it was seen in has expired.
4. Bounded: at most 32 detections a code and 64 steps in each; what is left out is counted, and text
   too long to be read is said, as warnings of the trace.

docs/specs/detectors.md has each detector; ``detect_settings`` the thresholds.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from msgspec.structs import replace

from processors.model.detection import CODES, Detection
from processors.model.names import SideEffectClass
from processors.model.trace import AgentTrace, TraceWarning
from processors.verify.detect_burn import burns
from processors.verify.detect_calls import Run
from processors.verify.detect_conduct import idle_claims, out_of_order, unapproved
from processors.verify.detect_found import Found
from processors.verify.detect_injection import injections
from processors.verify.detect_loop import loops, repeats
from processors.verify.detect_retry import retries
from processors.verify.detect_settings import DEFAULTS, Settings

DETECTIONS_MAX: Final = 32
STEPS_MAX: Final = 64
_RANK: Final = {code: place for place, code in enumerate(CODES)}
_BOUNDED: Final = TraceWarning(
    code="detection_bounded", detail="some results are too long to be read whole by detectors"
)
_EXPIRED: Final = "late_after_expiry"
_LEFT_OUT: Final = "detections_left_out"


def detect(
    trace: AgentTrace,
    *,
    tools: Mapping[str, SideEffectClass],
    settings: Settings = DEFAULTS,
) -> AgentTrace:
    """The trace with its detections. ``tools`` are the gateway's registry: name to class."""
    if not trace.steps and not trace.detections:
        return trace
    run = Run(trace, tools)
    led, bounded = injections(run, settings.injection)
    found = [*_found(run, settings), *led]
    if not (found or bounded or trace.detections or trace.warnings):
        return trace
    kept: list[Detection] = []
    counts: Counter[str] = Counter()
    for one in sorted(found, key=lambda one: _RANK[one.code]):
        counts[one.code] += 1
        if counts[one.code] <= DETECTIONS_MAX:
            kept.append(_numbered(one, len(kept) + 1))
    kept += _inherited(trace, kept)
    warnings = list(_warnings(trace, counts, bounded))
    if not kept and not trace.detections and tuple(warnings) == trace.warnings:
        return trace
    return replace(trace, detections=tuple(kept), warnings=tuple(warnings))


def _found(run: Run, settings: Settings) -> Iterator[Found]:
    circles: list[Found] = []
    if len(run.trace.steps) >= settings.loop.repeats_min:
        circles = list(loops(run, settings.loop))
        yield from circles
    yield from burns(run.trace, settings.budget)
    if run.trace.claims:
        yield from idle_claims(run)
    if not run.uses:
        return
    told = any(use.receipts or use.step.decision is not None for use in run.uses)
    if told or len(run.uses) > 1:
        yield from retries(run)
        yield from repeats(run, settings.repeat, (step for one in circles for step in one.steps))
    if told or settings.approvals.tools:
        yield from unapproved(run, settings.approvals)
    if settings.order:
        yield from out_of_order(run, settings.order)


def _inherited(trace: AgentTrace, kept: list[Detection]) -> list[Detection]:
    """What was seen in telemetry that has expired since, numbered on."""
    if not any(item.code == _EXPIRED for item in trace.warnings):
        return []
    known = {(item.code, item.steps) for item in kept}
    old = [item for item in trace.detections if (item.code, item.steps) not in known]
    return [
        replace(item, detection_id=f"detection-{len(kept) + number}")
        for number, item in enumerate(old, 1)
    ]


def _numbered(found: Found, number: int) -> Detection:
    steps = tuple(dict.fromkeys(found.steps))
    return Detection(
        detection_id=f"detection-{number}",
        code=found.code,
        severity=found.severity,
        sentence=found.sentence,
        remedy=found.remedy,
        steps=steps[:STEPS_MAX],
        subjects=tuple(found.subjects),
        evidence=tuple(found.evidence),
        measures={**found.measures, "steps": len(steps)} if steps else found.measures,
    )


def _warnings(
    trace: AgentTrace, counts: Mapping[str, int], bounded: bool
) -> Iterator[TraceWarning]:
    yield from (item for item in trace.warnings if item.code not in (_LEFT_OUT, _BOUNDED.code))
    for code, count in counts.items():
        if count > DETECTIONS_MAX:
            yield TraceWarning(code=_LEFT_OUT, detail=f"{code}:{count - DETECTIONS_MAX}")
    if bounded:
        yield _BOUNDED
