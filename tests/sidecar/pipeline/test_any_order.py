"""However requests arrive, the trace that is published at the end is the same (NRM-04, REC-06).

The same run is sent as spans and as log records, permuted, doubled, split into any requests, with
pauses in which the trace falls silent and is published, and with restarts of the pipeline. The
clock is ours: time passes only where a move says so.
"""

import asyncio
import json
import tempfile
from pathlib import Path

import pytest
from conftest import Ingest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from tier import examples

from processors.model.span import LogRecord, Span, SpanEvent, SpanLink
from sidecar import clock
from sidecar.otlp.encode import encode_spans, write_attributes
from sidecar.store.traces import TraceQuery

START = 1_760_000_000_000_000_000
SECOND = 1_000_000_000
IDLE = 30 * SECOND
RUN, OTHER = f"{0xA1:032x}", f"{0xB2:032x}"


def message(role, **part):
    return {"role": role, "parts": [part]}


def span(number, name, *, parent=None, trace=RUN, at=0, took=1000, **more):
    return Span(
        trace_id=trace,
        span_id=f"{number:016x}",
        parent_span_id=None if parent is None else f"{parent:016x}",
        name=name,
        kind=3,
        start_ns=START + at,
        end_ns=START + at + took,
        resource={"service.name": "shop"},
        **more,
    )


def record(number, name, body, *, trace=RUN, at=0):
    return LogRecord(
        trace_id=trace,
        span_id=f"{number:016x}",
        time_ns=START + at,
        event_name=name,
        body=body,
        resource={"service.name": "shop"},
    )


def model(**attributes):
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "m",
        "gen_ai.usage.input_tokens": 7,
        **{key.replace("__", "."): json.dumps(value) for key, value in attributes.items()},
    }


CALL = {"type": "tool_call", "id": "call_9f8e7d6c", "name": "refund", "arguments": {"order": 1}}
ANSWER = {"type": "tool_call_response", "id": "call_9f8e7d6c", "response": "Error: no such order"}
ASKED = [message("assistant", **CALL)]
SEEN = [*ASKED, message("tool", **ANSWER)]
ITEMS = (
    span(
        1, "invoke_agent shop", took=90_000,
        attributes={"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "shop"},
    ),
    span(2, "chat m", parent=1, at=1000, attributes=model(gen_ai__output__messages=ASKED)),
    span(
        3, "execute_tool refund", parent=1, at=3000,
        attributes={"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "refund"},
        events=(SpanEvent(name="exception", attributes={"exception.type": "KeyError"}),),
        status_code=2,
    ),
    span(4, "chat m", parent=1, at=9000, attributes=model(gen_ai__input__messages=SEEN)),
    span(5, "GET /orders", parent=99, at=9500),
    span(
        1, "continued", trace=OTHER, at=200_000,
        attributes={"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "shop"},
        links=(SpanLink(trace_id=RUN, span_id=f"{1:016x}"),),
    ),
    span(2, "chat m", trace=OTHER, parent=1, at=201_000, attributes=model()),
    record(4, "gen_ai.choice", {"message": {"content": "It was refunded."}}, at=9900),
    record(4, "gen_ai.user.message", {"content": "Refund order 1"}, at=9001),
    record(2, "gen_ai.user.message", {"content": "Refund order 1"}, at=1001),
    record(2, "gen_ai.system.message", {"content": "Be kind"}, trace=OTHER, at=201_001),
)  # fmt: skip


class Run(Ingest):
    """An ingest path whose clock is ours."""

    def __init__(self, folder):
        super().__init__(folder, idle="30s")

    def request(self, items):
        """The items as one request of each service."""
        spans = [item for item in items if isinstance(item, Span)]
        logs = [item for item in items if isinstance(item, LogRecord)]
        if spans:
            self.send(encode_spans(spans))
        if logs:
            self.send(encode_logs(logs), signal="logs")

    async def settled(self):
        """Every step, until none finds anything to do at this moment."""
        steps = (self.pipeline.take_in, self.pipeline.publish_due)
        while any([await step() for step in steps]):
            pass

    def rest(self):
        asyncio.run(self.settled())

    def published(self):
        """All newest revisions, but for their numbers."""
        found = {}
        for line in self.traces.list_traces(TraceQuery()):
            trace = self.traces.get_trace(line.trace_id, line.project)
            found[trace.trace_id] = replace(trace, revision=0)
        return found


def encode_logs(records):
    request = ExportLogsServiceRequest()
    for each in records:
        group = request.resource_logs.add()
        write_attributes(each.resource, group.resource.attributes)
        made = group.scope_logs.add().log_records.add(
            trace_id=bytes.fromhex(each.trace_id),
            span_id=bytes.fromhex(each.span_id),
            time_unix_nano=each.time_ns,
            event_name=each.event_name,
        )
        body = made.body.kvlist_value.values
        write_attributes(each.body, body)
    return request.SerializeToString()


@pytest.fixture
def now(monkeypatch):
    """The clock, in a list of one number."""
    moment = [START + 3600 * SECOND]
    monkeypatch.setattr(clock, "now_ns", lambda: moment[0])
    return moment


def play(moves, now):
    """What is published after the moves and a long silence; and the number of revisions."""
    with tempfile.TemporaryDirectory() as folder:
        run = Run(Path(folder))
        try:
            for move, items in moves:
                now[0] += SECOND
                run.request(items)
                if move == "silence":
                    run.rest()
                    now[0] += 2 * IDLE
                    run.rest()
                elif move == "restart":
                    run.rest()
                    run.restart()
                elif move == "crash":
                    run.restart()  # before anything was taken in
            run.rest()
            now[0] += 2 * IDLE
            run.rest()
            return run.published(), run.traces.list_traces(TraceQuery())
        finally:
            run.close()


moves = st.tuples(
    st.permutations(ITEMS),
    st.lists(st.sampled_from(ITEMS), max_size=5),
    st.lists(st.integers(1, 5), min_size=16, max_size=16),
    st.lists(st.sampled_from(["", "", "silence", "restart", "crash"]), min_size=16, max_size=16),
)


def requests(order, again, sizes, between):
    """(what happens then, items) for each request."""
    items = [*order, *again]
    for size, move in zip(sizes, between, strict=True):
        if items:
            yield move, items[:size]
            del items[:size]
    if items:
        yield "", items


@pytest.mark.requirement("NRM-04")
@pytest.mark.requirement("REC-06")
@settings(
    max_examples=examples(60),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(moves)
def test_however_requests_arrive_what_is_published_at_the_end_is_the_same(now, drawn):
    expected, _ = play([("", ITEMS)], now)
    assert list(expected) == [RUN]
    found, _ = play(list(requests(*drawn)), now)
    assert found == expected


def test_the_expected_run_is_what_was_meant(now):
    expected, _ = play([("", ITEMS)], now)
    trace = expected[RUN]
    assert trace.trace_ids == (RUN, OTHER)
    (tool,) = [step for step in trace.steps if step.kind == "tool_call"]
    assert (tool.name, tool.status, tool.tool.arguments) == ("refund", "error", {"order": 1})
    sources = {(s.trace_id, s.span_id) for step in trace.steps for s in step.sources}
    assert {(item.trace_id, item.span_id) for item in ITEMS if isinstance(item, Span)} <= sources


@pytest.mark.requirement("REC-06")
def test_late_data_opens_the_trace_again_and_makes_the_next_revision(now):
    first, rest = ITEMS[:3], ITEMS[3:]
    found, lines = play([("silence", first), ("silence", rest), ("silence", ITEMS)], now)
    assert [line.revision for line in lines if line.trace_id == RUN] == [2]
    assert found == play([("", ITEMS)], now)[0]


@pytest.mark.requirement("NRM-04")
def test_what_is_open_lies_on_the_disk_and_survives_a_restart(now, tmp_path):
    run = Run(tmp_path)
    run.request(ITEMS[:4])
    run.rest()
    assert run.published() == {}
    run.restart()
    run.request(ITEMS[4:])
    run.rest()
    now[0] += 2 * IDLE
    run.rest()
    found = run.published()
    run.close()
    assert found == play([("", ITEMS)], now)[0]
