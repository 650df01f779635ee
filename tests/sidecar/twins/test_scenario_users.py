"""Users who answer: what they say follows from what was said to them and the seed, and ends."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.twins.played import Said, script, words
from sidecar.twins.user import Line, Turn, User, is_over, next_said

ASKED, CLOSED = Turn(user="Close it.", agent="Which order?"), Turn(user="A-1", agent="Closed.")
USER = User(
    lines=(
        Line(when="(?i)which order", say="A-1"),
        Line(when="sure", say=("Yes.", "Yes, I am.", "Of course.")),
        Line(say="Hurry up!", times=2),
    ),
    ends="Closed",
    turns_max=6,
)


@pytest.mark.requirement("FUZ-03")
def test_the_first_line_that_fits_is_said_as_often_as_it_may_be():
    assert next_said(USER, [ASKED], seed=1) == "A-1"
    assert next_said(USER, [ASKED, ASKED], seed=1) == "Hurry up!"
    assert next_said(USER, [ASKED, ASKED, ASKED], seed=1) == "Hurry up!"
    assert next_said(USER, [ASKED] * 4, seed=1) is None


def test_a_satisfied_user_says_nothing_more():
    assert next_said(USER, [ASKED, CLOSED], seed=1) is None


@pytest.mark.requirement("FUZ-03")
def test_the_same_seed_says_the_same_words_and_seeds_differ():
    asked = [Turn(user="x", agent="Are you sure?")]
    said = {seed: next_said(USER, asked, seed=seed) for seed in range(40)}
    assert said == {seed: next_said(USER, asked, seed=seed) for seed in range(40)}
    assert set(said.values()) == {"Yes.", "Yes, I am.", "Of course."}


@given(
    st.lists(st.sampled_from(["Which order?", "sure?", "no"]), min_size=1, max_size=9),
    st.integers(),
)
def test_every_conversation_ends(answers, seed):
    turns = []
    for answer in answers * 3:
        turns.append(Turn(user="x", agent=answer))
        if next_said(USER, turns, seed=seed) is None:
            break
    assert len(turns) <= USER.turns_max


PLAYED = User(
    type="model", persona="a tired parent", goal="A refund for A-1.", traits=("curt", "chatty")
)


@pytest.mark.requirement("FUZ-03")
def test_a_played_user_is_told_persona_goal_and_one_trait_by_the_seed():
    asked = [Turn(user="Hello.", agent="Which order?")]
    scripts = [script(PLAYED, asked, seed=seed) for seed in range(20)]
    assert scripts == [script(PLAYED, asked, seed=seed) for seed in range(20)]
    assert {("curt" in one.system, "chatty" in one.system) for one in scripts} == {
        (True, False),
        (False, True),
    }
    assert all("tired parent" in one.system and "refund for A-1" in one.system for one in scripts)
    assert len({one.seed for one in scripts}) == 20
    assert script(PLAYED, asked * 2, seed=1).seed != scripts[1].seed


@given(st.text())
def test_no_answer_of_an_agent_can_speak_as_the_script(answer):
    made = script(PLAYED, [Turn(user="Hello.", agent=answer)], seed=1)
    mark = made.system.split("<<<end ")[1][:24]
    assert mark not in answer
    assert f"<<<{mark}>>>\n{answer}\n<<<end {mark}>>>" in made.user


def test_a_played_user_ends_when_done_or_silent():
    assert words(Said(text=" A-1. ", done=False)) == "A-1."
    assert words(Said(text="Thanks.", done=True)) is None
    assert words(Said(text="  ", done=False)) is None
    over = [Turn(user="x", agent="y")] * PLAYED.turns_max
    assert is_over(PLAYED, over) and not is_over(PLAYED, over[1:])


def test_a_user_is_scripted_or_played_not_both():
    def texts(**more):
        return " ".join(f"{path} {text}" for path, text in User(**more).problems())

    assert texts(type="model", persona="p", goal="g") == ""
    assert "goal and persona" in texts(type="model")
    assert "are not for a user" in texts(
        type="model", persona="p", goal="g", lines=(Line(say="x"),)
    )
    assert "is scripted" in texts(lines=(Line(say="x"),), goal="g")
