"""Whole requests, replies and token counts in any provider's spelling."""

import pytest

from processors.model.exchange import counts, prompt, response_facts, said

pytestmark = pytest.mark.requirement("NRM-01")
HI = [{"role": "user", "content": "hi"}]


@pytest.mark.parametrize(
    ("request_", "roles"),
    [
        (HI, ["user"]),
        ([HI], ["user"]),
        ({"messages": HI, "model": "m"}, ["user"]),
        ({"system": "be kind", "messages": HI}, ["system", "user"]),
        ({"system": [{"type": "text", "text": "be kind"}], "messages": HI}, ["system", "user"]),
        ({"instructions": "be kind", "input": "hi"}, ["system", "user"]),
        ({"prompt": "hi"}, ["user"]),
        ("hi", ["user"]),
        ({"order": 7}, None),
        ([1, 2], None),
        (None, None),
        ("", None),
    ],
)
def test_a_request_shows_its_messages(request_, roles):
    found = prompt(request_)
    assert (found and [message.role for message in found]) == roles


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"choices": [{"message": {"role": "assistant", "content": "yes"}}]}, "yes"),
        ({"content": [{"type": "text", "text": "yes"}], "role": "assistant"}, "yes"),
        ({"output": [{"type": "message", "role": "assistant", "content": "yes"}]}, "yes"),
        ({"messages": [*HI, {"role": "assistant", "content": "yes"}]}, "yes"),
        ("yes", "yes"),
        ({"messages": HI}, None),
        ({"order": 7}, None),
        (7, None),
    ],
)
def test_a_reply_is_what_the_model_said_last(value, text):
    found = said(value)
    assert (found and found[0].parts[0].content) == text


SPELLINGS = [
    ({"input_tokens": 9, "output_tokens": 3}, (9, 3, None, None, None)),
    ({"prompt_tokens": 9, "completion_tokens": 3}, (9, 3, None, None, None)),
    ({"promptTokens": 9.0, "completionTokens": 3}, (9, 3, None, None, None)),
    (
        {
            "input_tokens": 9,
            "output_tokens": 3,
            "input_tokens_details": {"cached_tokens": 4},
            "output_tokens_details": {"reasoning_tokens": 2},
        },
        (9, 3, 4, None, 2),
    ),
    (
        {
            "input_tokens": 9,
            "output_tokens": 3,
            "cache_read_input_tokens": 4,
            "cache_creation_input_tokens": 2,
        },
        (15, 3, 4, 2, None),
    ),
    (
        {"input_tokens": 9, "output_tokens": 3, "total_tokens": 12, "cache_read_input_tokens": 4},
        (9, 3, 4, None, None),
    ),
    ({"input_tokens": -1, "output_tokens": True}, None),
    ({}, None),
    ([], None),
]


@pytest.mark.parametrize(("value", "expected"), SPELLINGS)
def test_counts_come_out_inclusive_in_every_spelling(value, expected):
    found = counts(value)
    assert expected == (
        found and (found.input, found.output, found.cache_read, found.cache_write, found.reasoning)
    )


@pytest.mark.parametrize(
    ("value", "facts"),
    [
        ({"id": "r", "model": "m", "stop_reason": "end_turn"}, ("r", "m", ("end_turn",))),
        ({"id": "r", "choices": [{"finish_reason": "stop"}, {}]}, ("r", None, ("stop",))),
        ({"id": 7, "choices": None}, (None, None, ())),
        ("text", (None, None, ())),
    ],
)
def test_what_a_reply_says_of_itself(value, facts):
    assert response_facts(value) == facts
