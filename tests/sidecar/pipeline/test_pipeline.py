"""From the journal to published traces, through real stores and every stage."""

import asyncio
import json
import sqlite3

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from processors.model.call import Receipt
from processors.model.evidence import Evidence
from sidecar import clock
from sidecar.store.journal import journal_cursor
from sidecar.store.ledger import Fact
from sidecar.store.traces import TraceQuery

BASE = 1_750_000_000_000_000_000
ROOT, CHAT, TOOL = 1, 2, 3
ATTRIBUTES = {
    ROOT: {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "refunds"},
    CHAT: {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"},
    TOOL: {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "issue_refund"},
}


def trace_id(number):
    return f"{number:032x}"


def export(trace, *numbers, service="shop-agent", **attributes):
    """A request with the given spans (ROOT, CHAT, TOOL or any other number) of one trace."""
    request = ExportTraceServiceRequest()
    group = request.resource_spans.add()
    group.resource.attributes.add(key="service.name").value.string_value = service
    scope = group.scope_spans.add()
    for number in numbers:
        span = scope.spans.add(
            trace_id=trace.to_bytes(16, "big"),
            span_id=number.to_bytes(8, "big"),
            parent_span_id=b"" if number == ROOT else ROOT.to_bytes(8, "big"),
            name=f"span {number}",
            start_time_unix_nano=BASE + number * 1000,
            end_time_unix_nano=BASE + number * 1000 + 500,
        )
        for key, value in {**ATTRIBUTES.get(number, {}), **attributes}.items():
            span.attributes.add(key=key).value.string_value = value
    return request.SerializeToString()


def receipt(trace, number=1, **fields):
    facts = {
        "receipt_id": f"r{number}", "call_id": f"c{number}", "phase": "executed",
        "project": "shop", "principal": "key:1", "principal_kind": "agent",
        "tool": "issue_refund", "class_": "irreversible", "action_hash": "sha256:0",
        "decision_id": "d1", "decision_effect": "allow", "reasons": (), "policy_revision": "1",
        "effect": "confirmed", "status": 200, "upstream_status": 200,
        "started_at_ns": BASE + 3100, "finished_at_ns": BASE + 3200,
        "trace_id": trace_id(trace), "span_id": f"{TOOL:016x}",
    }  # fmt: skip
    made = Receipt(**{**facts, **fields})
    return Fact(seq=number, project="shop", receipt=made, arguments={"order_id": "o-1"})


def span_ids(trace):
    return {source.span_id for step in trace.steps for source in step.sources if source.span_id}


def ids(*numbers):
    return {f"{number:016x}" for number in numbers}


def test_spans_become_a_published_trace(ingest):
    ingest.send(export(7, ROOT, CHAT, TOOL))
    ingest.settle(lambda: ingest.get(trace_id(7)))
    trace = ingest.get(trace_id(7))
    assert (trace.project, trace.revision, trace.service.name) == ("shop", 1, "shop-agent")
    assert {step.kind for step in trace.steps} >= {"agent", "model_call", "tool_call"}
    assert span_ids(trace) == ids(ROOT, CHAT, TOOL)


def test_json_and_protobuf_of_one_trace_meet(ingest):
    ingest.send(export(7, ROOT, CHAT))
    node = {
        "traceId": trace_id(7), "spanId": f"{TOOL:016x}", "parentSpanId": f"{ROOT:016x}",
        "name": "execute_tool issue_refund", "startTimeUnixNano": str(BASE + 10),
        "endTimeUnixNano": str(BASE + 20),
        "attributes": [
            {"key": key, "value": {"stringValue": value}} for key, value in ATTRIBUTES[TOOL].items()
        ],
    }  # fmt: skip
    body = {"resourceSpans": [{"scopeSpans": [{"spans": [node]}]}]}
    ingest.send(json.dumps(body).encode(), encoding="json")
    ingest.settle(lambda: (t := ingest.get(trace_id(7))) and len(span_ids(t)) == 3)


@pytest.mark.requirement("REC-06")
def test_a_late_span_makes_revision_2_and_the_same_again_makes_none(ingest):
    ingest.send(export(7, ROOT, CHAT))
    ingest.settle(lambda: ingest.get(trace_id(7)))
    ingest.send(export(7, TOOL))
    ingest.settle(lambda: ingest.get(trace_id(7)).revision == 2)
    assert span_ids(ingest.get(trace_id(7))) == ids(ROOT, CHAT, TOOL)
    assert span_ids(ingest.get(trace_id(7), revision=1)) == ids(ROOT, CHAT)
    ingest.send(export(7, TOOL, CHAT, ROOT))
    ingest.send(export(8, ROOT))  # a later trace: when it is there, the repeat has been looked at
    ingest.settle(lambda: ingest.get(trace_id(8)))
    assert ingest.get(trace_id(7)).revision == 2


def test_one_request_with_many_traces_and_two_tenants_keep_apart(ingest):
    both = export(1, ROOT, CHAT) + export(2, ROOT)  # protobuf messages concatenate
    ingest.send(both)
    ingest.send(export(1, TOOL), project="bank")
    ingest.settle(lambda: len(ingest.traces.list_traces(TraceQuery())) == 3)
    assert span_ids(ingest.get(trace_id(1), project="shop")) == ids(ROOT, CHAT)
    assert span_ids(ingest.get(trace_id(1), project="bank")) == ids(TOOL)


def test_nothing_is_published_before_the_trace_falls_silent(make_ingest):
    ingest = make_ingest(idle="1h")
    ingest.send(export(7, ROOT))
    taken = lambda: ingest.open_traces.cursor(cursor_of(ingest)) == 1  # noqa: E731
    ingest.settle(taken)
    assert ingest.get(trace_id(7)) is None
    ingest.close()


def cursor_of(ingest):
    return journal_cursor(ingest.journal.journal_id)


def test_a_receipt_joins_its_trace_by_id_and_one_without_spans_makes_a_trace(ingest):
    ingest.send(export(7, ROOT, TOOL))
    ingest.facts += [receipt(7, 1), receipt(9, 2), receipt(7, 3, trace_id=None)]
    ingest.settle(lambda: ingest.get(trace_id(9)) and ingest.get(trace_id(7)))
    ingest.settle(lambda: ingest.get(trace_id(7)).evidence)
    (evidence,) = ingest.get(trace_id(7)).evidence
    assert (evidence.receipt_id, evidence.held) == ("r1", True)
    alone = ingest.get(trace_id(9))
    assert [step.tool.name for step in alone.steps if step.kind == "tool_call"] == ["issue_refund"]
    assert alone.completeness != "complete"


def test_a_receipt_of_another_project_does_not_join(ingest):
    ingest.send(export(7, ROOT, TOOL), project="bank")
    ingest.facts.append(receipt(7))
    ingest.settle(lambda: len(ingest.traces.list_traces(TraceQuery())) == 2)
    assert ingest.get(trace_id(7), project="bank").evidence == ()


def test_probes_run_before_publishing_and_a_slow_one_delays_only_its_own_trace(ingest):
    slow = asyncio.Event()
    asked = []

    async def probe(trace):
        asked.append(trace.trace_id)
        if trace.trace_id == trace_id(1):
            await slow.wait()
        return (Evidence(evidence_id="p", source="probe", name="there", held=True),)

    ingest.probed = lambda trace: True
    ingest.probe = probe
    for number in (1, 2, 3):
        ingest.send(export(number, ROOT, TOOL))

    async def scenario():
        def others():
            return ingest.get(trace_id(2)) and ingest.get(trace_id(3))

        running = asyncio.create_task(ingest.run_until(lambda: ingest.get(trace_id(1))))
        async with asyncio.timeout(10):
            while not others():
                await asyncio.sleep(0.005)
        early = ingest.get(trace_id(1))
        slow.set()
        await running
        return early

    assert asyncio.run(scenario()) is None
    assert [e.name for e in ingest.get(trace_id(1)).evidence] == ["there"]
    assert sorted(asked) == [trace_id(1), trace_id(2), trace_id(3)]


def test_the_same_telemetry_again_does_not_probe_again(ingest):
    asked = []

    async def probe(trace):
        asked.append(trace.trace_id)
        return (Evidence(evidence_id="p", source="probe", name="there", held=len(asked) == 1),)

    ingest.probed = lambda trace: True
    ingest.probe = probe
    ingest.send(export(1, ROOT, TOOL))
    ingest.settle(lambda: ingest.get(trace_id(1)))
    ingest.send(export(1, ROOT, TOOL))
    ingest.send(export(2, ROOT))
    ingest.settle(lambda: ingest.get(trace_id(2)))
    assert asked == [trace_id(1), trace_id(2)]
    assert ingest.get(trace_id(1)).revision == 1


def test_a_probe_that_breaks_leaves_a_fault_and_holds_nobody_up(ingest):
    async def probe(trace):
        raise RuntimeError("a bug in a probe")

    ingest.probed = lambda trace: trace.trace_id == trace_id(1)
    ingest.probe = probe
    ingest.send(export(1, ROOT, TOOL))
    ingest.send(export(2, ROOT))
    ingest.settle(lambda: ingest.get(trace_id(2)) and faults(ingest))
    ((key, fault),) = faults(ingest)
    assert key == trace_id(1) and fault.startswith("RuntimeError in test_pipeline.py:")
    assert "a bug in a probe" not in fault


def rows(ingest, query):
    connection = sqlite3.connect(ingest.folder / "traces.db")
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()


def faults(ingest):
    return rows(ingest, "SELECT key, fault FROM open_trace WHERE fault IS NOT NULL")


def test_a_damaged_record_is_set_aside_and_the_next_is_taken(ingest):
    for number in (1, 2, 3):
        ingest.send(export(number, ROOT))
    connection = sqlite3.connect(ingest.folder / "journal.db")
    connection.execute("UPDATE record SET sealed = zeroblob(40) WHERE seq = 2")
    connection.commit()
    connection.close()
    ingest.settle(lambda: ingest.get(trace_id(3)))
    assert ingest.get(trace_id(2)) is None
    ((seq, reason),) = rows(ingest, "SELECT seq, reason FROM quarantine")
    assert seq == 2 and reason


def json_span(number, trace=7, **fields):
    node = {"traceId": trace_id(trace), "spanId": f"{number:016x}", "name": "x", **fields}
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [node]}]}]}).encode()


def test_numbers_that_fit_nowhere_are_kept_exactly_and_hold_nobody_up(ingest):
    huge = 10**25
    attributes = [
        {"key": "gen_ai.operation.name", "value": {"stringValue": "execute_tool"}},
        {"key": "gen_ai.tool.name", "value": {"stringValue": "issue_refund"}},
        {"key": "gen_ai.tool.call.arguments", "value": {"stringValue": f'{{"n": {huge}}}'}},
        {"key": "odd", "value": {"intValue": str(huge)}},
    ]
    odd = json_span(1, attributes=attributes, startTimeUnixNano=str(huge), endTimeUnixNano=-5)
    ingest.send(odd, encoding="json")
    ingest.send(export(8, ROOT))
    ingest.settle(lambda: ingest.get(trace_id(7)) and ingest.get(trace_id(8)))
    (tool,) = [step for step in ingest.get(trace_id(7)).steps if step.kind == "tool_call"]
    assert tool.tool.arguments == {"n": huge}
    assert len(ingest.traces.list_traces(TraceQuery())) == 2


def test_a_record_no_stage_can_take_is_set_aside_with_its_reason_and_without_its_content(ingest):
    ingest.send(export(1, ROOT))
    ingest.send(b"\xff secret 4111")
    ingest.send(export(3, ROOT))
    ingest.settle(lambda: ingest.get(trace_id(1)) and ingest.get(trace_id(3)))
    ((seq, reason),) = rows(ingest, "SELECT seq, reason FROM quarantine")
    assert seq == 2 and reason.startswith("Undecodable in ")


def test_telemetry_of_no_agent_is_marked_and_not_tried_again(ingest):
    log = {"timeUnixNano": "5", "body": {"stringValue": "GET / 200"}}
    body = {"resourceLogs": [{"scopeLogs": [{"logRecords": [log]}]}]}
    ingest.send(json.dumps(body).encode(), signal="logs", encoding="json")
    ingest.settle(lambda: faults(ingest))
    assert faults(ingest) == [("log::0", "no_step")]
    assert not rows(ingest, UNPUBLISHED)


def test_late_telemetry_after_expiry_keeps_what_was_published(make_ingest):
    ingest = make_ingest()
    ingest.content_ns = 1
    ingest.restart()
    ingest.send(export(7, ROOT, CHAT))
    ingest.settle(lambda: ingest.get(trace_id(7)))
    asyncio.run(ingest.open_traces.expire(clock.now_ns(), 100))
    assert rows(ingest, "SELECT count(*) FROM part") == [(0,)]
    ingest.send(export(7, TOOL))
    ingest.settle(lambda: ingest.get(trace_id(7)).revision == 2)
    trace = ingest.get(trace_id(7))
    assert span_ids(trace) == ids(ROOT, CHAT, TOOL)
    assert "late_after_expiry" in {warning.code for warning in trace.warnings}
    ingest.close()


def test_with_capture_off_no_content_is_kept_in_the_clear(make_ingest):
    ingest = make_ingest(capture="off")
    ingest.send(export(7, ROOT, TOOL, **{"gen_ai.tool.call.arguments": '{"card": "4111-1111"}'}))
    ingest.settle(lambda: ingest.get(trace_id(7)))
    (tool,) = [step for step in ingest.get(trace_id(7)).steps if step.kind == "tool_call"]
    assert tool.tool.name == "issue_refund" and "4111" not in repr(ingest.get(trace_id(7)))
    ingest.close()


deliveries = st.lists(
    st.lists(st.tuples(st.integers(1, 3), st.integers(1, 5)), min_size=1, max_size=4),
    min_size=1,
    max_size=6,
)


@pytest.mark.requirement("REC-06")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
@given(deliveries, st.data())
def test_order_repetition_batching_and_restarts_change_nothing(make_ingest, batches, data):
    """Goal: content depends on what was sent alone. Method: send it once in order, and shuffled."""

    def published(order, restarts):
        ingest = make_ingest()
        for index, batch in enumerate(order):
            ingest.send(b"".join(export(trace, number) for trace, number in batch))
            if index in restarts:
                asyncio.run(ingest.pipeline.take_in())
                asyncio.run(ingest.pipeline.publish_due())
                ingest.restart()
        ingest.send(export(99, ROOT))
        ingest.settle(lambda: ingest.get(trace_id(99)))
        ingest.settle(lambda: not rows(ingest, UNPUBLISHED))
        found = {
            number: (trace := ingest.get(trace_id(number))) and (trace.steps, trace.completeness)
            for number in (1, 2, 3)
        }
        ingest.close()
        return found

    once = sorted({item for batch in batches for item in batch})
    shuffled = data.draw(st.permutations(batches + batches[:2]))
    restarts = data.draw(st.sets(st.integers(0, len(shuffled)), max_size=2))
    assert published(shuffled, restarts) == published([once], set())


UNPUBLISHED = "SELECT 1 FROM open_trace WHERE version > published_version"
