"""What a provider's API was sent and what it gave back: whole requests, replies and token counts.

Rules
1. A value of an unknown shape is None: who has it keeps it elsewhere, nothing is guessed.
2. Token counts come out inclusive: cached tokens in ``input``, reasoning in ``output``. Where the
   parts and a total are given, the sum decides which way they were written.
3. A tool definition dumped between the messages is no message.

Shapes: OpenAI chat and Responses, Anthropic, LangChain; usage objects of these, LangChain's
``usage_metadata``, Langfuse's flat ``usage_details``, MLflow's ``tokenUsage``.
"""

from typing import Any

from processors.model.message import messages, parts, reply
from processors.model.step import Message, Part, Usage

Node = dict[str, Any]

_INPUT = ("input_tokens", "prompt_tokens", "inputTokens", "promptTokens", "input")
_OUTPUT = ("output_tokens", "completion_tokens", "outputTokens", "completionTokens", "output")
_TOTAL = ("total_tokens", "totalTokens", "total")
_INPUT_DETAILS = ("prompt_tokens_details", "input_tokens_details", "input_token_details")
_OUTPUT_DETAILS = ("completion_tokens_details", "output_tokens_details", "output_token_details")
_READ = (
    *("cache_read_input_tokens", "cachedInputTokens", "input_cache_read", "input_cached_tokens"),
    *("cache_read", "cached_tokens"),
)
_WRITE = (
    *("cache_creation_input_tokens", "input_cache_creation", "input_cache_write"),
    *("cache_creation", "cache_write", "cache_write_tokens"),
)
_REASONING = ("output_reasoning", "output_reasoning_tokens", "reasoning", "reasoning_tokens")
_FLAT = (  # without a total: Anthropic's and Langfuse's own counts leave the cache out of input
    *("input_cache_read", "input_cached_tokens", "input_cache_creation", "input_cache_write"),
    *("cache_read_input_tokens", "cache_creation_input_tokens"),
)


def prompt(value: Any) -> tuple[Message, ...] | None:
    """The messages of a whole request, or of whatever stands for one; None for anything else.

    ``{"messages"}``, ``{"input", "instructions"}``, ``{"system", "prompt"}``, a list, or a text.
    """
    if isinstance(value, str):
        return (Message(role="user", parts=parts(value)),) if value else None
    if not isinstance(value, dict):
        return _without_definitions(messages(value))
    told = value.get("system", value.get("instructions"))
    system = (Message(role="system", parts=parts(told)),) if told else ()
    for key in ("messages", "input", "prompt", "contents"):
        if value.get(key) is not None and "role" not in value:
            shown = prompt(value[key])
            return (*system, *shown) if shown else None
    return messages(value)


def said(value: Any) -> tuple[Message, ...] | None:
    """The messages of a whole reply, or of whatever stands for one; None for anything else.

    Of a dumped state or history only what the model said last.
    """
    if isinstance(value, str):
        return (Message(role="assistant", parts=parts(value)),) if value else None
    if isinstance(value, dict) and isinstance(value.get("messages"), list):
        history = messages(value["messages"], "assistant")
        return history[-1:] if history and history[-1].role == "assistant" else None
    return reply(value)


def response_facts(value: Any) -> tuple[str | None, str | None, tuple[str, ...]]:
    """(response id, response model, finish reasons) of a reply object, as far as it says."""
    if not isinstance(value, dict):
        return None, None, ()
    generation = value.get("generations")
    while isinstance(generation, list) and generation:
        generation = generation[0]
    if isinstance(generation, dict):
        return _langchain_facts(generation)
    choices = value.get("choices")
    reasons = [c.get("finish_reason") for c in choices if isinstance(c, dict)] if choices else []
    reasons.append(value.get("stop_reason"))
    return (
        _text(value.get("id")),
        _text(value.get("model")),
        tuple(reason for reason in reasons if isinstance(reason, str) and reason),
    )


def _langchain_facts(generation: Node) -> tuple[str | None, str | None, tuple[str, ...]]:
    message = generation.get("message")
    inner = message.get("kwargs", message.get("data")) if isinstance(message, dict) else None
    metadata = inner.get("response_metadata") if isinstance(inner, dict) else None
    facts = metadata if isinstance(metadata, dict) else {}
    info = generation.get("generation_info")
    reason = facts.get("finish_reason") or facts.get("stop_reason")
    if not reason and isinstance(info, dict):
        reason = info.get("finish_reason")
    return (
        _text(facts.get("id")),
        _text(facts.get("model_name")),
        (reason,) if isinstance(reason, str) and reason else (),
    )


def counts(value: Any) -> Usage | None:
    """The token counts of a usage object in any provider's spelling; None without any."""
    if not isinstance(value, dict):
        return None
    shown, given = _count(value, _INPUT), _count(value, _OUTPUT)
    if shown is None and given is None:
        return None
    read, write = _detail(value, _INPUT_DETAILS, _READ), _detail(value, _INPUT_DETAILS, _WRITE)
    reasoning = _detail(value, _OUTPUT_DETAILS, _REASONING)
    total = _count(value, _TOTAL)
    cached = (read or 0) + (write or 0)
    if _apart(value, shown, given, total, cached):
        shown = (shown or 0) + cached
    if total is not None and given is not None and shown is not None and reasoning:
        given += reasoning if shown + given + reasoning == total else 0
    return Usage(input=shown, output=given, cache_read=read, cache_write=write, reasoning=reasoning)


def _apart(
    value: Node, shown: int | None, given: int | None, total: int | None, cached: int
) -> bool:
    """Whether cached tokens were counted beside the input tokens rather than in them."""
    if not cached or shown is None:
        return False
    if total is not None and given is not None:
        reasoning = _detail(value, _OUTPUT_DETAILS, _REASONING) or 0
        return shown + given + cached in (total, total - reasoning)
    return any(key in value for key in _FLAT)


def _detail(value: Node, nests: tuple[str, ...], keys: tuple[str, ...]) -> int | None:
    for nest in nests:
        inner = value.get(nest)
        if isinstance(inner, dict) and (found := _count(inner, keys)) is not None:
            return found
    return _count(value, keys)


def _count(node: Node, keys: tuple[str, ...]) -> int | None:
    for key in keys:
        found = node.get(key)
        if isinstance(found, float) and found.is_integer():
            found = int(found)
        if type(found) is int and found >= 0:
            return found
    return None


def _without_definitions(found: tuple[Message, ...] | None) -> tuple[Message, ...] | None:
    if not found or not any(message.role == "tool" for message in found):
        return found
    return tuple(message for message in found if not all(map(_defines, message.parts)))


def _defines(part: Part) -> bool:
    content = part.content
    return (
        part.type == "generic"
        and isinstance(content, dict)
        and content.get("type") == "function"
        and isinstance(content.get("function"), dict)
    )


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
