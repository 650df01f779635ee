"""Every written shape of a message gives the one vocabulary."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from processors.model.message import messages, reply, text_of, tool_message

ASKED = ("tool_call", "c1", "look_up", {"id": 1})
ANSWERED = ("tool_call_response", "c1", None, "found")


def flat(value):
    found = messages(value)
    return [(m.role, [(p.type, p.id, p.name, p.content) for p in m.parts]) for m in found]


@pytest.mark.parametrize(
    "written",
    [
        {
            "role": "assistant",
            "parts": [{"type": "tool_call", "id": "c1", "name": "look_up", "arguments": {"id": 1}}],
        },
        {
            "role": "assistant",
            "tool_calls": [{"id": "c1", "function": {"name": "look_up", "arguments": {"id": 1}}}],
        },
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "c1", "name": "look_up", "input": {"id": 1}}],
        },
        {
            "role": "assistant",
            "content": [{"toolUse": {"toolUseId": "c1", "name": "look_up", "input": {"id": 1}}}],
        },
        {
            "type": "ai",
            "data": {
                "content": "",
                "tool_calls": [{"id": "c1", "name": "look_up", "args": {"id": 1}}],
            },
        },
        {
            "lc": 1,
            "id": ["x", "AIMessage"],
            "kwargs": {
                "content": "",
                "tool_calls": [{"id": "c1", "name": "look_up", "args": {"id": 1}}],
            },
        },
    ],
)
def test_a_requested_call_in_any_spelling_is_one_part(written):
    assert flat([written]) == [("assistant", [ASKED])]


@pytest.mark.parametrize(
    "written",
    [
        {
            "role": "tool",
            "parts": [{"type": "tool_call_response", "id": "c1", "response": "found"}],
        },
        {"role": "user", "parts": [{"type": "tool_call_response", "id": "c1", "result": "found"}]},
        {"role": "tool", "tool_call_id": "c1", "content": "found"},
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "found"}],
        },
        {
            "role": "user",
            "content": [{"toolResult": {"toolUseId": "c1", "content": [{"text": "found"}]}}],
        },
        {"type": "function_call_output", "call_id": "c1", "output": "found"},
    ],
)
def test_an_answer_in_any_spelling_is_one_part_of_a_tool_message(written):
    assert flat([written]) == [("tool", [ANSWERED])]


def test_text_parts_join_and_null_parts_vanish():
    (message,) = messages([{"role": "user", "parts": [{"type": "text", "content": "a"}, None]}])
    assert text_of(message) == "a"


def test_unknown_parts_are_kept_whole():
    part = {"type": "hologram", "beam": 3}
    assert flat([{"role": "user", "parts": [part]}]) == [("user", [("generic", None, None, part)])]


@pytest.mark.parametrize("odd", ["text", 3, None, [1], {"a": 1}, [["x", 1]]])
def test_what_is_no_list_of_messages_is_none(odd):
    assert messages(odd) is None


@pytest.mark.parametrize(
    "whole",
    [
        {"choices": [{"message": {"role": "assistant", "content": "done"}}]},
        {
            "output": [
                {
                    "type": "message",
                    "role": "assistant",
                    "content": [{"type": "output_text", "text": "done"}],
                }
            ]
        },
        {"role": "assistant", "content": [{"type": "text", "text": "done"}]},
        {"generations": [[{"text": "done", "message": {"role": "assistant", "content": "done"}}]]},
        [{"output": [{"type": "message", "role": "assistant", "content": "done"}]}],
    ],
)
def test_a_whole_response_object_gives_its_messages(whole):
    assert [text_of(message) for message in reply(whole)] == ["done"]


def test_a_dumped_tool_message_gives_content_id_and_failure():
    dump = {"type": "tool", "data": {"content": "no", "tool_call_id": "c1", "status": "error"}}
    assert tool_message(dump) == ("no", "c1", True)
    assert tool_message({"content": "no"}) is None


@given(
    st.recursive(
        st.none() | st.integers() | st.text(),
        lambda x: (
            st.lists(x)
            | st.dictionaries(
                st.sampled_from(
                    ["role", "parts", "content", "type", "tool_calls", "id", "data", "kwargs"]
                ),
                x,
            )
        ),
        max_leaves=8,
    )
)
def test_no_shape_raises(value):
    found = messages(value)
    assert found is None or isinstance(found, tuple)
    reply(value)
