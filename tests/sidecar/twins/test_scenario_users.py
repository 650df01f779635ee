"""Users who answer: what they say follows from what was said to them and the seed, and ends."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.twins.user import Line, Turn, User, next_said

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
