"""Which traces are one run, and which are not."""

import pytest
from telemetry_rig import agent, answer, asked, call, chat, link, span, steps, text, traces

from processors.assemble.gather import gather
from processors.assemble.stitch import clues
from processors.model.span import Batch
from processors.normalise.detect import normalise

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


def test_an_answer_in_the_history_of_a_later_turn_joins_nothing():
    first = (
        chat(1, said=[asked(CALL)]),
        chat(2, trace=2, at=5, shown=HISTORY, said=[text("assistant", "Done.")]),
    )
    turn = [*HISTORY, text("assistant", "Done."), text("user", "and now?")]
    found = traces(
        *first, chat(3, trace=3, at=50, shown=turn, said=[text("assistant", "Nothing.")])
    )
    assert [len(trace.trace_ids) for trace in found] == [2, 1]
    assert [len(steps(trace, "tool_call")) for trace in found] == [1, 0]


def test_a_retry_that_is_shown_the_same_answer_afresh_is_the_same_run():
    (trace,) = traces(
        chat(1, said=[asked(CALL)]),
        chat(2, trace=2, at=5, shown=HISTORY, status_code=2),
        chat(3, trace=3, at=9, shown=HISTORY, said=[text("assistant", "Done.")]),
    )
    assert len(steps(trace, "tool_call")) == 1


def talk(number, at, conversation="c", **place):
    attributes = {"gen_ai.conversation.id": conversation}
    return chat(number, trace=number, at=at, attributes=attributes, **place)


def test_a_conversation_without_agents_is_one_run_while_it_goes_on():
    minutes = [talk(1, 0), talk(2, 50_000), talk(3, 100_000), talk(4, 900_000)]
    assert [len(trace.trace_ids) for trace in traces(*minutes)] == [3, 1]
    apart = traces(talk(1, 0), talk(2, 5, "d"), talk(3, 9, service="x"))
    assert len(apart) == 3


def test_turns_of_agents_stay_runs_of_one_conversation():
    def turn(number, at):
        root = agent(number * 10, trace=number, at=at, took=9)
        said = {"gen_ai.conversation.id": "c"}
        return root, chat(number, trace=number, parent=number * 10, at=at + 1, attributes=said)

    found = traces(*turn(1, 0), *turn(2, 20))
    assert [trace.conversation_id for trace in found] == ["c", "c"]


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (chat(1, said=[asked(CALL)]), chat(2, trace=2, at=5, shown=HISTORY)),
        (span(1), span(2, trace=2, links=(link(1),))),
        (chat(1, response="resp-1"), chat(2, trace=2, response="resp-1")),
        (talk(1, 0), talk(2, 5)),
    ],
)
def test_traces_that_are_stitched_share_a_clue(left, right):
    found = [clues(gather(normalise(Batch(spans=(one,))))) for one in (left, right)]
    assert found[0] & found[1]


def test_a_call_answered_in_its_own_trace_is_no_clue():
    whole = (chat(1, said=[asked(CALL)]), chat(2, at=5, shown=HISTORY))
    assert not [word for word in clues(gather(normalise(Batch(spans=whole)))) if CALL["id"] in word]
