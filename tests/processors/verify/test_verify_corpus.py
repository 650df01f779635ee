"""Outcomes on captured telemetry whose truth is known, with receipts made of that truth.

The receipts are what a gateway in front of the captured tools would have written: the tools' own
log says which call did what.
"""

import json
from pathlib import Path

import pytest

from processors.model.call import Receipt, ReceiptFact
from processors.model.span import Batch
from processors.redact.rules import redact
from processors.verify.outcome import judge
from processors.verify.receipts import attach
from sidecar.otlp.decode import decode
from sidecar.pipeline.build import build

CORPUS = Path(__file__).parents[4] / "shared" / "corpora" / "otlp"
TOOLS = {
    "issue_refund": "irreversible",
    "send_email": "irreversible",
    "lookup_order": "read",
    "check_refund_policy": "read",
}
LIBRARIES = (
    "agent-framework",
    "opentelemetry-instrumentation-openai-agents",
    "openinference-instrumentation-openai-agents",
    "openinference-instrumentation-langchain",
    "opentelemetry-instrumentation-genai-openai",
)
NOW = 2 * 10**18


def captures(scenario):
    if not CORPUS.is_dir():
        pytest.skip("needs ../shared (corpora/otlp), which is absent here")
    found = [
        folder
        for library in LIBRARIES
        for folder in sorted((CORPUS / library).glob(f"{scenario}*"))
        if "two_runs" not in folder.name
    ]
    assert found
    return found


def batch_of(folder):
    spans, logs = [], []
    for path in sorted(folder.glob("*.*.*")):
        stem, signal, form = path.name.split(".")
        if form == "json" and (folder / f"{stem}.{signal}.binpb").exists():
            continue
        encoding = "json" if form == "json" else "protobuf"
        batch = decode(signal, encoding, path.read_bytes())
        spans += batch.spans
        logs += batch.logs
    return Batch(spans=tuple(spans), logs=tuple(logs))


def did_happen(call, refunds_left):
    """Whether the tools' own log says that the call had its effect (which a timeout may follow)."""
    if call["name"] != "issue_refund":
        return True
    answered = isinstance(call.get("result"), dict) and call["result"].get("status") == "ok"
    return answered or ("error" in call and refunds_left > 0)


def facts_of(truth, trace_id):
    facts, left = [], len(truth["outcome"]["refunds_issued"])
    for number, call in enumerate(truth["tool_calls"]):
        happened = did_happen(call, left)
        left -= happened and call["name"] == "issue_refund"
        receipt = Receipt(
            receipt_id=f"r{number}",
            call_id=f"c{number}",
            phase="executed",
            project="default",
            principal="p",
            principal_kind="agent",
            tool=call["name"],
            class_=TOOLS[call["name"]],
            action_hash=f"h{number}",
            decision_id="d",
            decision_effect="allow",
            reasons=(),
            policy_revision="1",
            effect="confirmed" if happened else "not_executed",
            status=200 if happened else 402,
            started_at_ns=call["start_ns"] + 1000,
            finished_at_ns=call.get("end_ns", call["start_ns"]) - 1000,
            trace_id=trace_id,
        )
        facts.append(ReceiptFact(receipt=receipt, arguments=call["arguments"]))
    return facts


def run_of(folder):
    traces = build(batch_of(folder), project="default", now_ns=NOW)
    return max(traces, key=lambda trace: sum(step.kind == "tool_call" for step in trace.steps))


def verdicts(scenario, *, gateway=True, tools=TOOLS):
    for folder in captures(scenario):
        truth = json.loads((folder / "meta.json").read_text())["ground_truth"]
        trace = run_of(folder)
        facts = facts_of(truth, trace.trace_id) if gateway else ()
        yield folder, truth, judge(attach(trace, facts, NOW), tools=tools, now_ns=NOW)


@pytest.mark.requirement("OUT-01")
@pytest.mark.requirement("OUT-03")
@pytest.mark.parametrize("scenario", ["baseline", "wrong_order", "parallel", "stream", "handoff"])
def test_a_run_that_did_what_it_says_is_a_verified_success(scenario):
    for folder, _, trace in verdicts(scenario):
        assert trace.outcome.status == "verified_success", folder.name
        assert trace.outcome.contradictions == ()
        assert redact(trace, "off").outcome == trace.outcome


@pytest.mark.requirement("OUT-03")
def test_a_false_success_is_contradicted_wherever_the_answer_was_captured():
    heard = 0
    for folder, _, trace in verdicts("false_success"):
        if trace.final_output is None:
            assert trace.outcome.status == "verified_failure", folder.name
            continue
        heard += 1
        codes = [item.code for item in trace.outcome.contradictions]
        assert codes == ["claimed_success_state_failed"], folder.name
    assert heard


@pytest.mark.requirement("OUT-03")
def test_a_refund_made_twice_is_a_duplicate_and_only_a_warning_without_receipts():
    for folder, truth, trace in verdicts("retry_dup"):
        assert len(truth["outcome"]["refunds_issued"]) == 2
        assert [item.code for item in trace.outcome.contradictions] == ["duplicate_effect"], folder
    for folder, _, trace in verdicts("retry_dup", gateway=False, tools={}):
        assert trace.outcome.status == "unverified", folder.name
        arguments = [
            s.tool.arguments for s in trace.steps if s.tool and "refund" in (s.tool.name or "")
        ]
        warned = any(item.code == "possible_duplicate_effect" for item in trace.warnings)
        assert warned or None in arguments, folder.name


@pytest.mark.requirement("OUT-03")
@pytest.mark.parametrize("scenario", ["baseline", "retry_dup", "injection"])
def test_governed_tools_that_bypass_the_gateway_are_seen(scenario):
    for folder, _, trace in verdicts(scenario, gateway=False):
        codes = {item.code for item in trace.outcome.contradictions}
        shown = any(step.tool and step.status in ("ok", "unset") for step in trace.steps)
        assert codes == ({"span_without_receipt"} if shown else set()), folder.name


@pytest.mark.parametrize("scenario", ["[a-z]", "baseline*content_off"])
def test_without_gateway_or_probe_nothing_is_verified_and_nobody_accused(scenario):
    for folder, _, trace in verdicts(scenario, gateway=False, tools={}):
        assert trace.outcome.status == "unverified", folder.name
        assert trace.outcome.contradictions == ()
