"""What a change of policy is judged by: bounded, and of each sort some."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from processors.model.call import Reason
from sidecar.gateway.policy.live.memory import Memory, sort_of
from sidecar.gateway.policy.result import PolicyAnswer

ANSWER = PolicyAnswer(effect="allow", reasons=(Reason(code="x"),))


def one(number):
    return str(number).encode(), ANSWER


@given(st.integers(0, 8), st.lists(st.sampled_from("abcd"), max_size=60))
def test_it_is_bounded_keeps_the_newest_and_some_of_each_sort(most, names):
    memory = Memory(most)
    for number, name in enumerate(names):
        memory.add((name, "allow"), one(number))
    kept = [int(encoded) for encoded, _ in memory]
    assert len(kept) == len(memory) == min(most, len(names))
    told = Counter(names[number] for number in kept)
    for name, count in Counter(names).items():
        if most >= len(set(names)):
            assert told[name] >= min(count, most // len(set(names)))
        own = [number for number in kept if names[number] == name]
        newest = [number for number, each in enumerate(names) if each == name][-len(own) or 99 :]
        assert own == newest, "the oldest of a sort goes first"


def test_other_decisions_take_the_place_of_those_before():
    memory = Memory(3)
    memory.add(("a", "allow"), one(1))
    memory.replace([(("b", "deny"), one(number)) for number in range(5)])
    assert [encoded for encoded, _ in memory] == [b"2", b"3", b"4"]


def test_tools_that_are_not_registered_are_one_sort():
    strange = [
        {"resource": {"id": name, "properties": {"registered_class": "unlisted"}}} for name in "ab"
    ]
    assert len({sort_of(each, ANSWER) for each in strange}) == 1
    assert sort_of({"resource": {"id": "pay"}}, ANSWER) == ("pay", "allow")
    assert sort_of({}, ANSWER) == sort_of({"resource": 1}, ANSWER) == ("", "allow")
