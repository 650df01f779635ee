"""Which recorded answer a call gets: each once, in order, identifiers by where they were made."""

import pytest

from sidecar.replay.recorded.lookup import Answer, Found, Miss, look_up, minted, told_now

pytestmark = pytest.mark.requirement("REP-01")

ONE, TWO = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"


def answer(tool="pay", result=None, told="", **arguments):
    return Answer(tool=tool, arguments=arguments, result=result, minted=minted(arguments, told))


class Asking:
    """An episode's calls, one after the other."""

    def __init__(self, *answers):
        self.answers = answers
        self.used, self.names = [], {}

    def __call__(self, tool="pay", **arguments):
        found = look_up(self.answers, self.used, self.names, tool, arguments)
        if isinstance(found, Miss):
            return found.detail
        assert isinstance(found, Found)
        self.used, self.names = [*self.used, found.place], found.names
        return told_now(self.answers[found.place].result, found.names)


def test_equal_calls_are_answered_in_the_order_they_were_recorded_and_no_oftener():
    ask = Asking(answer(result=1, a=1), answer("get", 7), answer(result=2, a=1))
    assert [ask(a=1), ask(a=1)] == [1, 2]
    assert ask(a=1) == "pay(a=1) was recorded 2 times, and is asked for once more"
    assert ask("get") == 7  # another order of different calls is no miss


def test_what_was_not_recorded_tells_the_nearest_call_and_where_it_differs():
    ask = Asking(answer(to="bob", sum=5), answer(to="ann", sum=7, note={"text": "hi"}))
    said = ask(to="ann", sum=8, note={"text": "hi"})
    assert said.startswith("pay(to='ann', sum=8")
    assert "nearest is call 2 of the recording" in said and said.endswith("other at /sum")
    assert ask("steal") == "the recording has no call of steal"


def test_a_number_in_a_path_is_the_same_number_and_a_flag_is_none():
    ask = Asking(answer(result="x", id=7, on=True))
    assert "other at /on" in ask(id="7", on="True")
    assert ask(id="7", on=True) == "x"


def test_an_identifier_of_the_agents_own_making_stands_for_the_recorded_one_from_then_on():
    ask = Asking(
        answer(result={"id": ONE, "text": f"paid as {ONE}."}, request=ONE, sum=5),
        answer("look", result={"of": ONE}, request=ONE),
    )
    assert ask(request=TWO, sum=5) == {"id": TWO, "text": f"paid as {TWO}."}
    assert "other at /request" in ask("look", request="33333333-3333-4333-8333-333333333333")
    assert ask("look", request=TWO) == {"of": TWO}


def test_an_identifier_that_the_agent_was_told_is_no_freedom():
    ask = Asking(answer(result=1, told=f"the order is {ONE}", order=ONE))
    assert "other at /order" in ask(order=TWO)
    assert ask(order=ONE) == 1


def test_two_made_identifiers_do_not_become_one():
    ask = Asking(answer(result=1, a=ONE, b=TWO))
    three = "33333333-3333-4333-8333-333333333333"
    assert isinstance(look_up(ask.answers, (), {}, "pay", {"a": three, "b": three}), Miss)
    # They may change places: what they are called is nobody's business but the agent's.
    assert ask(a=TWO, b=ONE) == 1


@pytest.mark.parametrize("arguments", [{}, {"a": 1, "b": 2}, {"a": [1]}, {"a": {}}, {"a": None}])
def test_more_or_less_or_another_shape_is_another_call(arguments):
    assert isinstance(look_up((answer(a=1),), (), {}, "pay", arguments), Miss)


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        (ONE, True),
        ("0123456789abcdef", True),
        ("2026-01-05T09:00:00.123Z", True),
        ("req-7f3a9b2c4d5e", True),
        ("A-1", False),
        ("please refund my order", False),
        ("confirmation-required", False),
    ],
)
def test_what_looks_like_an_identifier(text, is_one):
    assert minted({"x": [text]}, "") == ((text,) if is_one else ())
