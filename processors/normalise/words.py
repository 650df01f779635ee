"""One word per provider and per finish reason, whatever the emitter writes.

Rules
1. Unknown words stay: a provider in lower case, a finish reason as written. Nothing is guessed.
2. A framework is no provider: its name becomes None.
3. ``input`` tokens count cached ones; a count below its own cache is exclusive and is added up.

Source: semantic-conventions-genai ``gen_ai.provider.name``, output messages' ``finish_reason``.
"""

import msgspec

from processors.model.step import Model, Usage

PROVIDERS: dict[str, str] = {
    "openai-chat": "openai",
    **dict.fromkeys(("az.ai.openai", "azure", "azure_openai"), "azure.ai.openai"),
    "az.ai.inference": "azure.ai.inference",
    "azure-openai": "azure.ai.openai",
    **dict.fromkeys(("aws", "bedrock", "aws_bedrock", "amazon-bedrock"), "aws.bedrock"),
    **dict.fromkeys(("vertex_ai", "google.vertex"), "gcp.vertex_ai"),
    "mistral": "mistral_ai",
    **dict.fromkeys(("gemini", "google"), "gcp.gemini"),
    "xai": "x_ai",
}
# What the AI SDK writes after the provider.
_INTERFACES = frozenset(
    {
        *("chat", "responses", "messages", "completion", "completions", "embedding"),
        *("generative-ai", "image", "speech", "transcription"),
    }
)
FRAMEWORKS = frozenset(
    {
        *("strands-agents", "langchain", "langgraph", "autogen", "gcp.vertex.agent", "crewai"),
        *("microsoft.agent_framework", "pydantic-ai", "openai_agents"),
    }
)
FINISH_REASONS: dict[str, str] = {
    **dict.fromkeys(("tool_calls", "tool_use", "function_call", "function_calls"), "tool_call"),
    "tool-calls": "tool_call",
    **dict.fromkeys(("max_tokens", "max_output_tokens"), "length"),
    **dict.fromkeys(("end_turn", "stop_sequence", "completed"), "stop"),
    **dict.fromkeys(("safety", "content-filter"), "content_filter"),
}


def canonical_model(model: Model | None) -> Model | None:
    """The model with canonical words."""
    if model is None:
        return None
    provider = provider_word(model.provider)
    reasons = tuple(finish_word(word) for word in model.finish_reasons)
    if (provider, reasons) == (model.provider, model.finish_reasons):
        return model
    return msgspec.structs.replace(model, provider=provider, finish_reasons=reasons)


def provider_word(written: str | None) -> str | None:
    """The canonical name of a provider; None for a framework."""
    if written is None:
        return None
    word = written.lower()
    if word in FRAMEWORKS:
        return None
    vendor, _, interface = word.rpartition(".")
    if vendor and interface in _INTERFACES:
        word = vendor
    return PROVIDERS.get(word, word)


def finish_word(written: str) -> str:
    """The canonical finish reason, or the word as written."""
    word = written.rpartition("FinishReason.")[2].lower()
    known = FINISH_REASONS.get(word, word)
    return known if known in _CANONICAL else written


def inclusive(usage: Usage | None) -> Usage | None:
    """The usage with cached tokens counted in ``input`` (rule 3)."""
    if usage is None or usage.input is None:
        return usage
    read, write = usage.cache_read or 0, usage.cache_write or 0
    if read + write <= usage.input:
        return usage
    return msgspec.structs.replace(usage, input=usage.input + read + write)


_CANONICAL = frozenset({"stop", "length", "content_filter", "tool_call", "error"})
