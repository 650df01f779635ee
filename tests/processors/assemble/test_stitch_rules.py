"""Which traces are one run, and which are not."""

import pytest
from telemetry_rig import answer, asked, call, chat, link, span, steps, traces

CALL = call("call_aaaaaaaaaaaa", "t", {"n": 1})
HISTORY = [asked(CALL), answer(CALL["id"], "r")]


def test_a_trace_shown_the_answer_to_anothers_call_is_the_same_run():
    (trace,) = traces(chat(1, said=[asked(CALL)]), chat(2, trace=2, at=5, shown=HISTORY))
    assert trace.trace_id == trace.trace_ids[0] == f"{1:032x}"
    assert [step.tool.result for step in steps(trace, "tool_call")] == ["r"]


def test_another_service_is_another_run():
    assert (
        len(traces(chat(1, said=[asked(CALL)]), chat(2, trace=2, at=5, shown=HISTORY, service="x")))
        == 2
    )


def test_ids_that_restart_with_every_turn_stitch_nothing():
    short = call("call_0", "t", {})
    history = [asked(short), answer("call_0", "r")]
    assert len(traces(chat(1, said=[asked(short)]), chat(2, trace=2, at=5, shown=history))) == 2


def test_runs_that_use_the_same_ids_each_for_themselves_stay_apart():
    def run(number, at):
        return (
            span(number * 10, "root", trace=number, at=at, took=20),
            chat(number * 10 + 1, trace=number, parent=number * 10, at=at + 1, said=[asked(CALL)]),
            chat(number * 10 + 2, trace=number, parent=number * 10, at=at + 9, shown=HISTORY),
        )

    assert len(traces(*run(1, 0), *run(2, 100))) == 2


def test_an_answer_belongs_to_the_last_trace_that_asked_before():
    found = traces(
        chat(1, trace=1, said=[asked(CALL)]),
        chat(2, trace=2, at=5, shown=HISTORY),
        chat(3, trace=3, at=50, said=[asked(CALL)]),
        chat(4, trace=4, at=55, shown=HISTORY),
    )
    assert [len(trace.trace_ids) for trace in found] == [2, 2]


@pytest.mark.parametrize("there", [True, False])
def test_a_link_joins_only_traces_that_are_there(there):
    items = [span(1, links=(link(2, trace=2),))] + ([span(2, trace=2)] if there else [])
    assert len(traces(*items)) == 1
