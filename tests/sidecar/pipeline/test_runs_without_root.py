"""Runs spread over several traces: put together live, whatever the order, and redirected."""

import asyncio
import json
import sqlite3

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from telemetry_rig import MS, START, agent, answer, asked, call, chat, link, span, steps, text
from telemetry_rig import trace_id as tid

from sidecar.store.sqlite.runs import KEYS_MAX
from sidecar.store.traces import TraceQuery


def value(item):
    if isinstance(item, int):
        return {"intValue": str(item)}
    return {"stringValue": item}


def attributes(items):
    return [{"key": key, "value": value(item)} for key, item in items.items()]


def request(*spans):
    """An OTLP/JSON request of spans of the rig."""
    groups = [
        {
            "resource": {"attributes": attributes(one.resource)},
            "scopeSpans": [
                {
                    "scope": {"name": one.scope.name},
                    "spans": [
                        {
                            "traceId": one.trace_id,
                            "spanId": one.span_id,
                            "parentSpanId": one.parent_span_id or "",
                            "name": one.name,
                            "kind": one.kind,
                            "startTimeUnixNano": str(one.start_ns),
                            "endTimeUnixNano": str(one.end_ns),
                            "attributes": attributes(one.attributes),
                            "links": [
                                {"traceId": to.trace_id, "spanId": to.span_id} for to in one.links
                            ],
                        }
                    ],
                }
            ],
        }
        for one in spans
    ]
    return json.dumps({"resourceSpans": groups}).encode()


def bare_run(first=1, *, at=0, mark="a", turn=()):
    """A run of a bare model client: a trace for each of its three calls."""
    one = call(f"call_{mark}_000000001", "find", {"id": 7})
    two = call(f"call_{mark}_000000002", "pay", {"id": 7})
    history = [*turn, text("user", f"hi {mark}")]
    after_one = [*history, asked(one), answer(one["id"], "found")]
    after_two = [*after_one, asked(two), answer(two["id"], "paid")]
    done = text("assistant", f"Done {mark}.")
    return [
        chat(first, trace=first, at=at, shown=history, said=[asked(one)]),
        chat(first + 1, trace=first + 1, at=at + 10, shown=after_one, said=[asked(two)]),
        chat(first + 2, trace=first + 2, at=at + 20, shown=after_two, said=[done]),
    ]


def listed(ingest):
    return [found.trace_id for found in ingest.traces.list_traces(TraceQuery())]


def whole(ingest, number=1, size=3):
    found = ingest.get(tid(number))
    return found is not None and len(found.trace_ids) == size and len(listed(ingest)) == 1


def both(ingest):
    """Whether the runs that start at 1 and at 11 are there, whole, and nothing else is."""
    return sorted(listed(ingest)) == [tid(1), tid(11)] and all(
        len(ingest.get(found).trace_ids) == 3 for found in listed(ingest)
    )


def send_each(ingest, spans):
    for one in spans:
        ingest.send(request(one), encoding="json")


@pytest.mark.requirement("ASM-01")
def test_a_trace_for_each_call_becomes_one_run_and_the_other_ids_redirect(ingest):
    send_each(ingest, bare_run())
    ingest.settle(lambda: whole(ingest))
    trace = ingest.get(tid(1))
    assert trace.trace_id == tid(1)
    assert [step.tool.result for step in steps(trace, "tool_call")] == ["found", "paid"]
    assert trace.final_output == "Done a."
    for number in (2, 3):
        assert ingest.get(tid(number)) == trace
        assert ingest.get(tid(number), project="shop") == trace
        assert ingest.get(tid(number), project="bank") is None


def test_two_runs_stay_two_and_a_turn_that_repeats_history_repeats_no_step(ingest):
    first = bare_run(1, mark="a")
    repeated = [
        text("user", "hi a"),
        asked(call("call_a_000000001", "find", {"id": 7})),
        answer("call_a_000000001", "found"),
        text("assistant", "Done a."),
    ]
    second = bare_run(11, at=1000, mark="b", turn=repeated)
    send_each(ingest, [*first, *second])
    ingest.settle(
        lambda: (
            sorted(listed(ingest)) == [tid(1), tid(11)] and len(ingest.get(tid(11)).trace_ids) == 3
        )
    )
    assert [step.tool.name for step in steps(ingest.get(tid(11)), "tool_call")] == ["find", "pay"]
    assert len(steps(ingest.get(tid(1)), "tool_call")) == 2


def test_another_tenant_and_another_service_are_other_runs(ingest):
    one, two, three = bare_run()
    ingest.send(request(one, three), encoding="json")
    ingest.send(request(two), encoding="json", project="bank")
    ingest.settle(lambda: ingest.get(tid(2), project="bank") and ingest.get(tid(3), project="shop"))
    assert ingest.get(tid(2), project="bank").trace_ids == (tid(2),)


@pytest.mark.requirement("REC-06")
def test_an_earlier_start_that_comes_late_takes_the_run_over(ingest):
    one, two, three = bare_run()
    send_each(ingest, [two, three])
    ingest.settle(lambda: whole(ingest, 2, size=2))
    assert ingest.get(tid(2)).revision == 1
    ingest.restart()
    send_each(ingest, [one])
    ingest.settle(lambda: whole(ingest))
    assert listed(ingest) == [tid(1)]
    assert ingest.get(tid(2)).trace_id == tid(1)
    assert ingest.get(tid(2), revision=1).trace_ids == (tid(2), tid(3))  # what was said then stands


def test_a_call_of_its_own_that_comes_late_takes_a_trace_back(ingest):
    one = call("call_a_000000001", "find", {"id": 7})
    shown = [text("user", "hi"), asked(one), answer(one["id"], "found")]
    asker = chat(1, trace=1, said=[asked(one)])
    reader = chat(3, trace=2, at=20, shown=shown, said=[text("assistant", "Done.")])
    send_each(ingest, [asker, reader])
    ingest.settle(lambda: whole(ingest, size=2))
    send_each(ingest, [chat(2, trace=2, at=10, said=[asked(one)])])
    ingest.settle(lambda: len(listed(ingest)) == 2)
    assert ingest.get(tid(2)).trace_id == tid(2)
    assert ingest.get(tid(1)).trace_ids == (tid(1),)


def test_links_join_a_team_whose_messages_are_traces(ingest):
    spans = [
        span(1, "publish", trace=1, took=50),
        agent(2, trace=2, at=1, links=(link(1, trace=1),)),
        span(3, "ack", trace=3, at=40, links=(link(2, trace=2),)),
    ]
    send_each(ingest, reversed(spans))
    ingest.settle(lambda: whole(ingest))
    assert ingest.get(tid(3)).trace_id == tid(1)


def test_calls_of_one_conversation_without_agent_or_ids_are_one_run_within_a_minute(ingest):
    def talk(number, at):
        said = {"gen_ai.conversation.id": "c1"}
        return chat(number, trace=number, at=at, said=[text("assistant", "ok")], attributes=said)

    send_each(ingest, [talk(1, 0), talk(2, 30_000), talk(3, 600_000)])
    ingest.settle(lambda: sorted(listed(ingest)) == [tid(1), tid(3)])
    assert ingest.get(tid(2)).trace_id == tid(1)


def test_what_comes_after_the_telemetry_expired_joins_the_published_run(ingest):
    send_each(ingest, bare_run()[:2])
    ingest.settle(lambda: whole(ingest, size=2))
    asyncio.run(ingest.open_traces.expire(1 << 62, 10))
    for table in ("part", "run_key", "clue", "open_trace"):
        assert rows(ingest, table) == 0
    send_each(ingest, [span(99, "late", trace=2, at=12)])
    ingest.settle(lambda: ingest.get(tid(1)).revision == 2)
    trace = ingest.get(tid(2))
    assert trace.trace_id == tid(1)
    assert {"late"} < {step.name for step in trace.steps}
    assert [warning.code for warning in trace.warnings] == ["late_after_expiry"]


def rows(ingest, table):
    connection = sqlite3.connect(ingest.folder / "traces.db")
    try:
        return connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
    finally:
        connection.close()


def test_a_run_has_bounds(ingest):
    spans = [
        span(number, "hop", trace=number, at=number, links=(link(1, trace=1),))
        for number in range(1, KEYS_MAX + 20)
    ]
    ingest.send(request(*spans), encoding="json")
    ingest.settle(lambda: len(listed(ingest)) >= 1 and not rows(ingest, "open_trace") > 20)
    assert rows(ingest, "run_key") == len(spans)
    assert rows(ingest, "open_trace") == len(spans) - KEYS_MAX + 1


def record(name, at, **more):
    keys = {"event.name": f"codex.{name}", "conversation.id": "s1"}
    keys.update({key.replace("__", "."): item for key, item in more.items()})
    node = {
        "timeUnixNano": str(START + at * MS),
        "attributes": attributes(keys),
    }
    resource = {"attributes": attributes({"service.name": "codex"})}
    body = {"resourceLogs": [{"resource": resource, "scopeLogs": [{"logRecords": [node]}]}]}
    return json.dumps(body).encode()


def test_a_session_of_records_alone_is_one_trace_that_late_records_revise(ingest):
    done = {
        "event__kind": "response.completed",
        "input_token_count": "12",
        "output_token_count": "3",
    }
    ingest.send(record("sse_event", 1, **done), signal="logs", encoding="json")
    ingest.settle(lambda: listed(ingest))
    ran = {"tool_name": "shell", "call_id": "c1", "arguments": "{}", "success": "true"}
    ingest.send(record("tool_result", 9, **ran), signal="logs", encoding="json")
    ingest.settle(lambda: ingest.get(listed(ingest)[0]).revision == 2)
    (found,) = listed(ingest)
    trace = ingest.get(found)
    assert (trace.conversation_id, trace.service.name) == ("s1", "codex")
    assert [step.kind for step in trace.steps] == ["model_call", "tool_call"]


@pytest.mark.requirement("NRM-04")
@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_order_repetition_and_batches_change_nothing(make_ingest, data):
    spans = [*bare_run(1, mark="a"), *bare_run(11, at=500, mark="b")]
    sent = data.draw(
        st.permutations([*spans, *data.draw(st.lists(st.sampled_from(spans), max_size=3))])
    )
    ingest = make_ingest()
    while sent:
        size = data.draw(st.integers(1, len(sent)))
        ingest.send(request(*sent[:size]), encoding="json")
        sent = sent[size:]
        if sent and data.draw(st.booleans()):
            ingest.settle(lambda: listed(ingest))
            ingest.restart()

    ingest.settle(lambda: both(ingest))
    for first, mark in ((1, "a"), (11, "b")):
        trace = ingest.get(tid(first))
        assert trace.trace_ids == (tid(first), tid(first + 1), tid(first + 2))
        assert [step.tool.result for step in steps(trace, "tool_call")] == ["found", "paid"]
        assert trace.final_output == f"Done {mark}."
        assert ingest.get(tid(first + 2)).trace_id == tid(first)
    ingest.close()
