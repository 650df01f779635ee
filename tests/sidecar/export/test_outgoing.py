"""What leaves with a publication: each item once, redacted, with what we know beside it."""

import json

import pytest
import telemetry_rig as rig
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)

from processors.model.evidence import Contradiction, Outcome
from processors.model.span import Batch, LogRecord
from processors.model.step import StepDecision
from processors.redact.rules import keeping, redact
from sidecar.export.metrics import passing
from sidecar.export.outgoing import Judged, Mark, came_back, sending
from sidecar.otlp.decode import decode
from sidecar.otlp.plain import attributes_of
from sidecar.pipeline.build import build
from sidecar.store.journal import JournalEntry

SECRET = "the customer's words"
NOW = 77


def mark(capture="full"):
    keep = None if capture == "full" else keeping(capture)
    return Mark(project="shop", sidecar_id="s1", keep=keep)


def run(*items, capture="full", sent=b"", change=lambda trace: trace):
    """The spans, log records and digests that leave with a publication of these items."""
    spans = tuple(item for item in items if not isinstance(item, LogRecord))
    logs = tuple(item for item in items if isinstance(item, LogRecord))
    batch = Batch(spans=spans, logs=logs)
    traces = [change(trace) for trace in build(batch, project="shop", now_ns=rig.NOW)]
    judged = [Judged(trace=redact(trace, capture), digest="d1") for trace in traces]
    found = sending(batch, judged, sent, mark(capture), now_ns=NOW)
    out = [decode(item.signal, "protobuf", item.payload) for item in found.items]
    return (
        [span for each in out for span in each.spans],
        [record for each in out for record in each.logs],
        found,
    )


def refund():
    return (
        rig.agent(1),
        rig.chat(2, parent=1, shown=[rig.text("user", SECRET)], response="r1"),
        rig.tool(3, "issue_refund", {"order": SECRET}, {"ok": True}, call_id="c1", parent=1),
    )


def by_name(spans, start):
    return next(span for span in spans if span.name.startswith(start))


def test_spans_leave_as_they_came_with_ours_beside():
    given_spans = refund()
    spans, _, _ = run(*given_spans)
    for span in spans:
        before = next(each for each in given_spans if each.span_id == span.span_id)
        assert before.attributes.items() <= span.attributes.items()
        assert replace(before, attributes={}, resource={}) == replace(
            span, attributes={}, resource={}
        )
        assert span.resource == {
            **before.resource,
            "agenttwin.project": "shop",
            "agenttwin.via": ["s1"],
        }
    tool = by_name(spans, "execute_tool")
    assert tool.attributes["agenttwin.step.kind"] == "tool_call"
    assert tool.attributes["agenttwin.outcome.status"] == "unverified"


def test_another_dialect_gets_the_newest_names_beside_its_own():
    own = {
        "openinference.span.kind": "LLM",
        "llm.model_name": "gpt-4o",
        "llm.provider": "openai",
        "llm.token_count.prompt": 10,
        "llm.token_count.completion": 4,
        "llm.input_messages.0.message.role": "user",
        "llm.input_messages.0.message.content": "hi",
    }
    spans, _, _ = run(rig.span(1, "LLM", attributes=own))
    got = spans[0].attributes
    assert own.items() <= got.items()
    assert got["gen_ai.operation.name"] == "chat"
    assert (got["gen_ai.usage.input_tokens"], got["gen_ai.usage.output_tokens"]) == (10, 4)
    shown = [{"role": "user", "parts": [{"type": "text", "content": "hi"}]}]
    assert json.loads(got["gen_ai.input.messages"]) == shown


def test_the_gateways_decision_and_receipt_are_on_the_span():
    def decided(trace):
        decision = StepDecision(effect="deny", decision_id="dec-1")
        steps = tuple(
            replace(step, decision=decision, receipt_id="rcp-1") if step.tool else step
            for step in trace.steps
        )
        return replace(trace, steps=steps)

    spans, _, _ = run(*refund(), change=decided)
    got = by_name(spans, "execute_tool").attributes
    assert got["agenttwin.decision.effect"] == "deny"
    assert (got["agenttwin.decision.id"], got["agenttwin.receipt.id"]) == ("dec-1", "rcp-1")


def test_nobody_speaks_for_us_but_a_claim_stays():
    forged = {"agenttwin.outcome.status": "verified_success", "agenttwin.claim.status": "success"}
    given_span = rig.span(1, "work", attributes=forged)
    other = replace(
        given_span,
        resource={"service.name": "a", "agenttwin.project": "theirs", "agenttwin.via": ["s0"]},
    )
    spans, _, _ = run(other)
    assert spans[0].attributes.get("agenttwin.outcome.status") != "verified_success"
    assert spans[0].attributes["agenttwin.claim.status"] == "success"
    assert spans[0].resource["agenttwin.project"] == "shop"
    assert spans[0].resource["agenttwin.via"] == ["s0", "s1"]
    assert came_back(spans[0].resource, "s1") and not came_back(spans[0].resource, "s2")


@pytest.mark.requirement("RED-01")
def test_with_capture_off_no_content_leaves_from_any_place():
    everywhere = rig.span(
        4,
        f"say {SECRET} and more of it than any name has words",
        parent=1,
        status_message=SECRET,
        status_code=2,
        attributes={
            "gen_ai.prompt": SECRET,
            "my.own.key": SECRET,
            "url.full": f"http://h/p?{SECRET}",
        },
        events=(rig.event("exception", **{"exception.message": SECRET, "gen_ai.content": SECRET}),),
        links=(replace(rig.link(1), attributes={"why": SECRET}),),
    )
    everywhere = replace(everywhere, resource={**everywhere.resource, "owner": SECRET})
    record = rig.log(4, "gen_ai.user.message", {"content": SECRET}, attributes={"x": SECRET})
    _, _, found = run(*refund(), everywhere, record, capture="off")
    sent = b"".join(item.payload for item in found.items)
    assert b"customer" not in sent and b"words" not in sent
    spans, records, _ = run(*refund(), everywhere, record, capture="off")
    kept = by_name(spans, "execute_tool").attributes
    assert kept["gen_ai.tool.name"] == "issue_refund"
    assert kept["gen_ai.tool.call.arguments"] == "[redacted]"
    owned = next(span for span in spans if span.span_id == rig.span_id(4))
    assert owned.resource["owner"] == owned.attributes["my.own.key"] == "[redacted]"
    assert owned.status_message == "" and owned.status_code == 2
    assert [each.body for each in records if not each.event_name.startswith("gen_ai.eval")] == [
        None
    ]


def test_with_capture_redacted_data_are_masked_and_the_rest_stays():
    spans, _, found = run(
        rig.chat(1, shown=[rig.text("user", "write to bob@example.com about order 7")]),
        capture="redacted",
    )
    assert b"bob@example.com" not in b"".join(item.payload for item in found.items)
    assert "[email] about order 7" in spans[0].attributes["gen_ai.input.messages"]


def test_where_it_runs_is_no_content_but_what_is_unlisted_is():
    place = {"k8s.pod.name": "agent-7", "host.name": "h1", "cloud.region": "eu", "team": "refunds"}
    spans, _, _ = run(replace(rig.span(1), resource=place), capture="off")
    assert spans[0].resource["k8s.pod.name"] == "agent-7"
    assert spans[0].resource["team"] == "[redacted]"


@pytest.mark.requirement("REC-06")
@given(st.lists(st.integers(1, 6), min_size=1, max_size=12), st.data())
def test_an_item_leaves_once_however_often_and_in_what_groups_it_comes(order, data):
    """Each publication sees everything so far, as the pipeline does; each span leaves once."""
    cuts = data.draw(st.lists(st.integers(0, len(order)), max_size=3).map(sorted))
    sent, left, logs = b"", [], []
    for cut in [*cuts, len(order)]:
        seen = order[:cut]
        items = [rig.span(n) for n in seen] + [rig.log(n, "e", str(n)) for n in seen]
        spans, records, found = run(*items, sent=sent)
        sent += found.sent
        left += [span.span_id for span in spans]
        logs += [record.body for record in records if record.event_name == "e"]
    assert sorted(left) == sorted({rig.span_id(n) for n in order})
    assert sorted(logs) == sorted({str(n) for n in order})


def test_of_two_versions_of_a_span_the_fuller_leaves():
    early = replace(rig.span(1), end_ns=0)
    spans, _, _ = run(early, rig.span(1), early)
    assert [span.end_ns for span in spans] == [rig.span(1).end_ns]


def test_the_outcome_is_an_evaluation_event_at_the_root_span():
    codes = (Contradiction(code="duplicate_effect", detail="d"),)
    outcome = Outcome(status="contradicted", contradictions=codes)
    _, (event,), found = run(*refund(), change=lambda trace: replace(trace, outcome=outcome))
    assert event.event_name == "gen_ai.evaluation.result"
    assert (event.trace_id, event.span_id) == (rig.trace_id(1), rig.span_id(1))
    assert event.time_ns == NOW and event.resource["service.name"] == "agent"
    assert event.attributes == {
        "gen_ai.evaluation.name": "agenttwin.outcome",
        "gen_ai.evaluation.score.label": "contradicted",
        "gen_ai.evaluation.score.value": 0.0,
        "gen_ai.evaluation.explanation": "duplicate_effect",
        "agenttwin.outcome.status": "contradicted",
        "agenttwin.contradiction.codes": ["duplicate_effect"],
        "agenttwin.trace.digest": "d1",
    }
    assert [item.if_revised for item in found.items if item.signal == "logs"] == [rig.trace_id(1)]


def test_a_trace_without_an_agents_step_gets_no_word_of_ours():
    spans, records, _ = run(rig.span(1, "GET /orders"))
    assert not records and spans[0].attributes == {}


def test_telemetry_of_no_agent_passes_through_redacted():
    batch = Batch(spans=(rig.span(1, "GET /", attributes={"x": SECRET}),))
    found = sending(batch, (), b"", mark("off"), now_ns=NOW)
    (span,) = decode("traces", "protobuf", found.items[0].payload).spans
    assert span.name == "GET /" and span.attributes == {"x": "[redacted]"}


def test_requests_stay_small_and_hold_everything():
    spans = [rig.span(n, attributes={"pad": "x" * 5000}) for n in range(1, 400)]
    left, _, found = run(*spans)
    assert sorted(span.span_id for span in left) == [rig.span_id(n) for n in range(1, 400)]
    assert all(len(item.payload) <= 256 * 1024 for item in found.items)
    assert sum(item.items for item in found.items if item.signal == "traces") == 399


def metrics(*points, resource=None):
    request = ExportMetricsServiceRequest()
    group = request.resource_metrics.add()
    for key, value in (resource or {"service.name": "agent"}).items():
        slot = group.resource.attributes.add(key=key).value
        if isinstance(value, list):
            for item in value:
                slot.array_value.values.add(string_value=item)
        else:
            slot.string_value = value
    metric = group.scope_metrics.add().metrics.add(
        name="gen_ai.client.token.usage", description=SECRET, unit="{token}"
    )
    for attributes in points:
        point = metric.sum.data_points.add(as_int=1)
        for key, value in attributes.items():
            point.attributes.add(key=key).value.string_value = value
    return JournalEntry(
        project="shop",
        principal="k",
        signal="metrics",
        encoding="protobuf",
        payload=request.SerializeToString(),
        received_ns=1,
    )


def passed(entry, capture):
    found = passing(entry, mark(capture), b"key")
    if not found.items:
        return None, [], found
    (item,) = found.items
    request = ExportMetricsServiceRequest.FromString(item.payload)
    (group,) = request.resource_metrics
    metric = group.scope_metrics[0].metrics[0]
    points = [attributes_of(point.attributes) for point in metric.sum.data_points]
    return (attributes_of(group.resource.attributes), metric), points, found


def test_metrics_pass_whole_under_full_and_are_marked():
    (resource, metric), points, _ = passed(metrics({"user": SECRET}), "full")
    assert metric.description == SECRET and points == [{"user": SECRET}]
    assert resource["agenttwin.via"] == ["s1"] and resource["agenttwin.project"] == "shop"


def test_with_capture_off_metrics_keep_their_series_apart_and_tell_nothing():
    (_, metric), points, found = passed(
        metrics(
            {"gen_ai.request.model": "gpt-4o", "user": "alice the first"},
            {"gen_ai.request.model": "gpt-4o", "user": "bob the second"},
            {"gen_ai.request.model": "gpt-4o", "user": "alice the first"},
        ),
        "off",
    )
    assert b"alice" not in found.items[0].payload and metric.description == ""
    assert {point["gen_ai.request.model"] for point in points} == {"gpt-4o"}
    assert points[0]["user"] == points[2]["user"] != points[1]["user"]
    assert points[0]["user"].startswith("[redacted] ")


def test_metrics_that_came_back_are_left_out_and_counted():
    back = metrics({}, {}, resource={"service.name": "a", "agenttwin.via": ["s0", "s1"]})
    _, _, found = passed(back, "full")
    assert (found.items, found.looped) == ((), 2)
