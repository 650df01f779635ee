"""Loops and repeated calls: what goes round in circles, and what only looks like it."""

import pytest
from detect_rig import asked, call, codes, detected, model

from processors.model.step import Agent, Step
from processors.verify.detect_loop import stretches
from processors.verify.detect_settings import LoopLimits, RepeatLimits, Settings


def look(number=1, result="same", **fields):
    return call("lookup_order", {"order": number}, result, **fields)


def test_the_same_look_up_again_and_again_is_a_loop_with_its_steps():
    (found,) = detected(asked("hi"), *(look() for _ in range(6)))
    assert (found.code, found.severity) == ("loop", "minor")
    assert found.measures == {"period": 1, "repeats": 6, "steps": 6}
    assert found.steps == tuple(f"t:{number}" for number in range(2, 8))
    assert "6 times" in found.sentence


def test_three_times_is_patience_and_four_is_a_loop():
    assert codes(*(look() for _ in range(3))) == []
    assert codes(*(look() for _ in range(4))) == ["loop"]


@pytest.mark.parametrize("period", range(2, 9))
def test_a_cycle_of_several_calls_is_a_loop(period):
    round_ = [look(number) for number in range(period)]
    (found,) = detected(*round_ * 4)
    assert found.measures["period"] == period
    assert found.measures["repeats"] == 4


def test_model_calls_between_and_the_order_of_keys_are_no_difference():
    steps = []
    for number in range(4):
        steps += [
            model(),
            call("lookup_order", {"a": 1, "b": 2.0} if number % 2 else {"b": 2, "a": 1}, "x"),
        ]
    assert codes(*steps) == ["loop"]


def test_polling_that_brings_news_is_none_until_it_is_long():
    polled = [look(result=f"{number} %") for number in range(5)]
    assert codes(*polled) == []
    assert codes(*polled, look(result="5 %")) == ["loop"]


def test_a_loop_that_acts_or_lasts_weighs_more():
    acts = [call("update_ticket", {"id": 1}, "ok"), look()] * 4
    assert detected(*acts)[0].severity == "major"
    assert detected(*(look() for _ in range(8)))[0].severity == "major"


def test_other_agents_in_between_do_not_hide_a_loop():
    steps = []
    for number in range(4):
        steps += [look(agent="one"), look(100 + number, agent="two")]
    assert codes(*steps) == ["loop"]


def test_calls_whose_arguments_nobody_captured_are_equal_to_nothing():
    assert codes(*(call("lookup_order", None, "x") for _ in range(20))) == []


def test_errors_that_come_back_the_same_are_a_loop():
    assert codes(*(look(result=None, error="no such order") for _ in range(5))) == ["loop"]


def test_answers_in_near_the_same_words_are_a_loop():
    text = "I am still looking into the order for you, attempt {}; please be so kind as to wait."
    said = [model(answer=text.format(number)) for number in range(5)]
    (found,) = detected(*said)
    assert found.code == "loop"
    assert found.steps == ("t:1", "t:2", "t:3", "t:4", "t:5")
    others = [
        f"Answer about {topic} and nothing else." for topic in ("cats", "dogs", "birds", "fish")
    ]
    assert codes(*(model(answer=text) for text in others)) == []


def test_the_limits_are_arguments():
    steps = [look() for _ in range(6)]
    off = Settings(loop=LoopLimits(repeats_min=0), repeat=RepeatLimits(reads_max=0))
    assert codes(*steps, settings=off) == []
    assert codes(*steps[:2], settings=Settings(loop=LoopLimits(repeats_min=2))) == ["loop"]


@pytest.mark.row("R62")
def test_a_read_repeated_between_other_reads_is_a_repeated_call():
    steps = []
    for number in range(4):
        steps += [look(), *(look(100 + 10 * number + extra) for extra in range(1, number + 2))]
    found = detected(*steps)
    assert [item.code for item in found] == ["repeated_call"]
    assert found[0].measures["repeats"] == 4


def test_a_read_after_an_effect_is_no_repetition():
    steps = []
    for number in range(6):
        steps += [look(), call("update_ticket", {"id": number}, "ok"), look(number + 50)]
    assert codes(*steps) == []


def test_a_call_and_its_own_span_on_the_other_side_are_one():
    steps = []
    for number in range(3):
        steps.append(look(step_id=f"out-{number}"))
        steps.append(look(step_id=f"in-{number}", parent_step_id=f"out-{number}"))
    assert codes(*steps) == []


def test_stretches_are_found_once_with_their_shortest_period():
    assert list(stretches([1, 1, 1, 1], 4, 2)) == [(0, 4, 1)]
    assert list(stretches([1, 2, 1, 2, 1, 2, 9], 4, 3)) == [(0, 6, 2)]
    assert list(stretches([-1, -1, -1, -1], 4, 2)) == []
    assert list(stretches([], 4, 2)) == []


def test_handovers_and_other_steps_are_no_calls():
    others = [
        Step(step_id=f"h{number}", kind="handoff", agent=Agent(name="a")) for number in range(9)
    ]
    assert codes(*others) == []
