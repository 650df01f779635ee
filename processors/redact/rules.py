"""Redaction: the last stage before anything of a trace is kept, shown or sent on.

Rules
1. ``off``: every captured text and value goes: messages, outputs, arguments, results, the final
   answer, claims' texts, identifiers and amounts, errors' and free texts, evidence data, attributes
   that ``allowed`` does not list. Ids, names, times, status, usage, decisions and the outcome stay.
2. ``redacted``: texts stay, with what ``detectors`` find replaced on the project's terms;
   attributes of unknown keys go; claims and excerpts show no word, and no two in a row, that the
   texts they were cut from do not (``parts``). ``full``: all stays.
3. ``content_state`` keeps that there was something: what lost anything is ``redacted``.
4. Redacting twice changes nothing, and the same trace gives the same result.
"""

from typing import assert_never

from msgspec.structs import replace

from processors.model.detection import Detection, Exhibit
from processors.model.evidence import Claim, Contradiction, Evidence, Outcome
from processors.model.names import Capture
from processors.model.trace import AgentTrace, Service, TraceWarning
from processors.redact.keeping import Keeping, Masked, NamesOnly
from processors.redact.parts import Parts
from processors.redact.steps import redact_step
from processors.redact.terms import Terms

# Warnings whose detail is a step's id or a tool's name, or a sentence that names nothing.
_NAMING_WARNINGS = frozenset({"args_mismatch", "clock_skew", "possible_duplicate_effect"})
_FIXED_WARNINGS = frozenset({"late_after_expiry", "detection_bounded"})


def redact(trace: AgentTrace, on: Terms | Capture, keep: Keeping | None = None) -> AgentTrace:
    """The trace as a project on these terms may keep it; a capture alone is its plain terms.

    ``keep`` is ``keeping(on)``, handed in by a caller with many traces: what repeats from trace to
    trace is then looked at once. The result is the same.
    """
    keep = keep or keeping(on)
    return trace if keep is None else redact_with(trace, keep)


def keeping(on: Terms | Capture) -> Keeping | None:
    """How a project on these terms keeps things, with a memory of its own; None keeps all."""
    terms = on if isinstance(on, Terms) else Terms(capture=on)
    match terms.capture:
        case "off":
            return NamesOnly(terms)
        case "redacted":
            return Masked(terms)
        case "full":
            return None
        case never:
            assert_never(never)


def redact_with(trace: AgentTrace, keep: Keeping) -> AgentTrace:
    """The trace as this keeping keeps it."""
    service = trace.service
    steps = tuple(redact_step(step, keep) for step in trace.steps)
    final = keep.text(trace.final_output) if trace.final_output else trace.final_output
    parts = Parts(trace.steps, steps, trace.final_output, final)
    return replace(
        trace,
        conversation_id=keep.name(trace.conversation_id) if trace.conversation_id else None,
        service=Service(
            name=keep.name(service.name) if service.name else service.name,
            version=keep.name(service.version) if service.version else service.version,
        ),
        warnings=tuple(_warning(warning, keep) for warning in trace.warnings),
        steps=steps,
        final_output=final,
        claims=tuple(_claim(claim, keep, parts) for claim in trace.claims),
        evidence=tuple(_evidence(item, keep) for item in trace.evidence),
        outcome=_outcome(trace.outcome, keep),
        detections=tuple(_detection(item, keep, parts) for item in trace.detections),
    )


def _warning(warning: TraceWarning, keep: Keeping) -> TraceWarning:
    if warning.code in _FIXED_WARNINGS:
        return warning
    if warning.code in _NAMING_WARNINGS:
        return TraceWarning(code=warning.code, detail=keep.name(warning.detail))
    return TraceWarning(code=warning.code, detail=keep.code(warning.detail) or "")


def _outcome(outcome: Outcome, keep: Keeping) -> Outcome:
    if not outcome.contradictions:
        return outcome
    found = tuple(_contradiction(item, keep) for item in outcome.contradictions)
    return replace(outcome, contradictions=found)


def _contradiction(item: Contradiction, keep: Keeping) -> Contradiction:
    """Its detail is a name, and behind a colon a sentence of ours."""
    name, colon, sentence = item.detail.rpartition(": ")
    return replace(item, detail=f"{keep.name(name)}{colon}{sentence}") if colon else item


def _claim(claim: Claim, keep: Keeping, parts: Parts) -> Claim:
    amount = claim.amount and keep.text(claim.amount)
    if amount and not parts.shows_amount(amount):
        amount = None
    kept = [keep.text(one) for one in claim.objects]
    return replace(
        claim,
        subject=keep.name(claim.subject) if claim.subject else claim.subject,
        text=_part(claim.text, keep, parts),
        action=keep.name(claim.action) if claim.action else claim.action,
        objects=tuple(after for after in kept if after and parts.shows(after)),
        amount=amount,
        currency=keep.name(claim.currency) if claim.currency and amount else None,
    )


def _part(text: str | None, keep: Keeping, parts: Parts) -> str | None:
    after = keep.text(text) if text else text
    return parts.text(after) if after else after


def _evidence(item: Evidence, keep: Keeping) -> Evidence:
    return replace(
        item,
        name=keep.name(item.name),
        subject=keep.name(item.subject) if item.subject else item.subject,
        detail=keep.code(item.detail) if item.detail else item.detail,
        data=keep.data(item.data),
    )


def _detection(item: Detection, keep: Keeping, parts: Parts) -> Detection:
    """Its sentence and remedy hold tool names only; exhibits hold content."""
    sentence, remedy = item.sentence, item.remedy
    for name in sorted(item.subjects, key=len, reverse=True):  # one may begin with another
        kept = keep.name(name)
        if kept != name:
            sentence, remedy = sentence.replace(name, kept), remedy.replace(name, kept)
    return replace(
        item,
        sentence=sentence,
        remedy=remedy,
        subjects=tuple(keep.name(name) for name in item.subjects),
        evidence=tuple(_exhibit(one, keep, parts) for one in item.evidence),
    )


def _exhibit(item: Exhibit, keep: Keeping, parts: Parts) -> Exhibit:
    return replace(
        item,
        field=_place(item.field, keep, parts) if item.field else item.field,
        excerpt=_part(item.excerpt, keep, parts),
    )


def _place(field: str, keep: Keeping, parts: Parts) -> str | None:
    """A place in a step: which field of it is ours to tell, the keys below it are content."""
    head, dot, below = field.partition(".")
    ours, kept = keep.code(head), keep.text(below) if dot else None
    if ours is None or not kept:
        return ours
    return f"{ours}.{parts.place(kept)}"
