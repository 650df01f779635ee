"""Blocks of one message are one text: a secret that they share is seen."""

import itertools
import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from processors.model.step import Message, Part, Step
from processors.model.trace import AgentTrace
from processors.redact.leaves import masked, masked_text
from processors.redact.masker import Masker
from processors.redact.rules import redact
from processors.redact.terms import Terms

SECRET = "GEp7CgQ0PBQ7"
SHARED = [
    ["my password=", f"{SECRET} and more"],
    ["-----BEGIN PRIVATE KEY-----\nMIIabc", f"{SECRET}\n-----END PRIVATE KEY-----", " done"],
    ["call jo", "@", f"{SECRET}.example"],
    ['{"password": "x1"}', "api_key=", f"{SECRET} ok"],
]


def trace(texts):
    parts = tuple(Part(type="text", content=text) for text in texts)
    step = Step(
        step_id="s",
        kind="model_call",
        messages_out=(Message(role="assistant", parts=parts),),
        output=[{"type": "text", "text": text} for text in texts],
    )
    return AgentTrace(trace_id="0" * 32, steps=(step,))


@pytest.mark.requirement("RED-02")
@pytest.mark.parametrize("texts", SHARED)
def test_a_secret_that_blocks_share_is_in_none_of_them(texts):
    kept = redact(trace(texts), "redacted")
    assert SECRET.encode() not in msgspec.json.encode(kept)
    (step,) = kept.steps
    assert len(step.messages_out[0].parts) == len(step.output) == len(texts)
    assert step.content_state["messages_out"] == "redacted"
    assert redact(kept, "redacted") == kept
    for block in ({"type": "text"}, {"type": "text", "more": []}):
        first = [{**block, "content": text} for text in texts]
        for parts in (first, [{"text": text, **block} for text in texts]):
            sent = json.dumps([{"role": "user", "parts": parts}, {"role": "user", "parts": []}])
            assert SECRET not in masked_text(sent, Masker())


def test_blocks_that_share_nothing_stay_as_they_are_and_one_dropped_takes_no_other():
    texts = ["Hello", ' {"a": 1}', '{"b": 2}', "and so on"]
    (step,) = redact(trace(texts), "redacted").steps
    assert [part.content for part in step.messages_out[0].parts] == texts
    blocks = [{"type": "text", "text": text} for text in ("Hello, ", "jo@a.example", " bye")]
    shown = [one["text"] for one in masked(blocks, Masker())]
    assert shown == ["Hello, ", "[email]", " bye"]
    dropping = Masker(Terms(capture="redacted", actions={"email": "drop"}))
    assert [one["text"] for one in masked(blocks, dropping)] == ["Hello, ", "[dropped]", " bye"]
    calls = [
        {"type": "text", "text": "password="},
        {"type": "image"},
        {"type": "text", "text": "of it"},
    ]
    assert masked(calls, Masker()) is calls


@given(st.lists(st.text(max_size=8), max_size=5), st.data())
def test_however_a_text_is_cut_its_secret_is_gone(around, data):
    text = f"{''.join(around)} password={SECRET} "
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=4)))
    ends = [0, *cuts, len(text)]
    blocks = [{"type": "text", "text": text[a:b]} for a, b in itertools.pairwise(ends)]
    once = masked(blocks, Masker())
    assert SECRET not in "".join(one["text"] for one in once)
    assert masked(once, Masker()) == once


DATA = [
    "+49 170 7774121",
    "4194875749118629",
    "450-43-8841",
    "jo@a.example",
    f"password={SECRET}",
    "DE89370400440532013000",
    "%34%31%39%34875749118629",
]


@pytest.mark.requirement("RED-02")
@given(
    st.lists(st.sampled_from(DATA), min_size=2, max_size=4),
    st.sampled_from(["", " ", "7", "x", "\\n"]),
)
def test_what_is_hidden_alone_is_hidden_beside_others(data, glue):
    """Digits before digits make one longer number, in which no detector sees the first."""
    for terms in (Terms(capture="redacted"), Terms(capture="redacted", actions={"email": "drop"})):
        masker = Masker(terms)
        blocks = [{"type": "text", "text": f"{glue}{datum}"} for datum in data]
        hidden = [datum for datum in data if datum not in masker.mask(f"{glue}{datum}")]
        once = masked(blocks, masker)
        shown = "".join(one["text"] for one in once)
        assert not [datum for datum in hidden if datum in shown]
        assert masked(once, masker) == once
