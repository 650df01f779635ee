"""Evidence that comes after a trace was published judges it again: a new revision, the old kept."""

import json

import pytest

from processors.model.evidence import Evidence
from sidecar import clock
from tests.sidecar.pipeline.test_pipeline import CHAT, ROOT, TOOL, export, receipt, trace_id

ANSWER = json.dumps(
    [
        {
            "role": "assistant",
            "parts": [{"type": "text", "content": "Your refund has been issued."}],
            "finish_reason": "stop",
        }
    ]
)


def outcome(trace):
    codes = [one.code for one in trace.outcome.contradictions]
    return trace.outcome.status, codes


def answered(ingest):
    ingest.send(export(7, ROOT, CHAT, **{"gen_ai.output.messages": ANSWER}))
    ingest.send(export(7, TOOL))
    ingest.settle(lambda: (t := ingest.get(trace_id(7))) and len(t.steps) == 3)
    return ingest.get(trace_id(7)).revision


@pytest.mark.requirement("OUT-04")
@pytest.mark.parametrize(
    ("effect", "status", "after"),
    [
        ("confirmed", 200, ("verified_success", [])),
        ("not_executed", 422, ("contradicted", ["claimed_success_state_failed"])),
        ("unknown", 409, ("indeterminate", [])),
    ],
)
def test_a_receipt_after_publication_judges_again(ingest, effect, status, after):
    first = answered(ingest)
    before = ("contradicted", ["span_without_receipt"])
    assert outcome(ingest.get(trace_id(7))) == before
    ingest.facts.append(receipt(7, effect=effect, status=status))
    ingest.settle(lambda: ingest.get(trace_id(7)).revision > first)
    assert outcome(ingest.get(trace_id(7))) == after
    assert outcome(ingest.get(trace_id(7), revision=first)) == before
    assert ingest.get(trace_id(7)).claims == ingest.get(trace_id(7), revision=first).claims


@pytest.mark.requirement("OUT-04")
def test_what_a_probe_sees_later_judges_again(ingest):
    later = []

    async def probe(trace):
        made = [step for step in trace.steps if step.tool is not None]
        held = False if later else None
        return tuple(
            Evidence(
                evidence_id=f"probe:ledger:{step.step_id}",
                source="probe",
                name="ledger",
                held=held,
                subject="issue_refund",
                step_id=step.step_id,
                observed_ns=clock.now_ns(),
            )
            for step in made
        )

    ingest.probed, ingest.probe = (lambda trace: len(trace.steps) == 3), probe
    ingest.facts.append(receipt(7))
    answered(ingest)  # perhaps before the receipt, which is then judged with it
    ingest.settle(lambda: outcome(ingest.get(trace_id(7))) == ("indeterminate", []))
    first = ingest.get(trace_id(7)).revision
    later.append(True)
    ingest.facts.append(receipt(7, number=2, phase="replayed"))
    ingest.settle(lambda: ingest.get(trace_id(7)).revision > first)
    assert outcome(ingest.get(trace_id(7))) == ("contradicted", ["claimed_success_state_failed"])
    assert outcome(ingest.get(trace_id(7), revision=first)) == ("indeterminate", [])
