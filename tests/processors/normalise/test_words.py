"""Providers, finish reasons and token counts have one spelling and one meaning."""

import pytest

from processors.model.step import Model, Usage
from processors.normalise.words import canonical_model, finish_word, inclusive, provider_word


@pytest.mark.parametrize(
    ("written", "word"),
    [
        ("OpenAI", "openai"),
        ("az.ai.openai", "azure.ai.openai"),
        ("AWS", "aws.bedrock"),
        ("Gemini", "gcp.gemini"),
        ("NewOne", "newone"),
        ("langgraph", None),
        (None, None),
    ],
)
def test_a_provider_has_one_name_and_a_framework_is_none(written, word):
    assert provider_word(written) == word


@pytest.mark.parametrize(
    ("written", "word"),
    [
        ("tool_calls", "tool_call"),
        ("FinishReason.TOOL_CALLS", "tool_call"),
        ("tool-calls", "tool_call"),
        ("MAX_TOKENS", "length"),
        ("end_turn", "stop"),
        ("STOP", "stop"),
        ("content-filter", "content_filter"),
        ("PAUSED", "PAUSED"),
    ],
)
def test_a_finish_reason_has_one_word_and_unknown_ones_stay(written, word):
    assert finish_word(written) == word


def test_a_model_is_rewritten_only_where_it_must_be():
    plain = Model(provider="openai", finish_reasons=("stop",))
    assert canonical_model(plain) is plain
    assert canonical_model(Model(provider="xai")).provider == "x_ai"
    assert canonical_model(None) is None


@pytest.mark.parametrize(
    ("usage", "total"),
    [
        (Usage(input=10, cache_read=64, cache_write=6), 80),
        (Usage(input=100, cache_read=64), 100),
        (Usage(input=10), 10),
        (Usage(output=3), None),
    ],
)
def test_input_counts_cached_tokens(usage, total):
    assert inclusive(usage).input == total
