"""LiteLLM's own telemetry: GenAI keys with the calls beside the messages, and the raw request.

Rules
1. ``gen_ai.output.messages`` lacks the calls asked for; they stand in
   ``gen_ai.completion.N.function_call.*``, N counting the calls, and have no id.
2. ``raw_gen_ai_request`` is the same model call as the span around it, as the provider saw it:
   it has the ids. The history in it repeats the other span's and is not read again.
3. A request model on a span that is no model call says nothing (the proxy writes it everywhere).

Source: BerriAI/litellm litellm/integrations/opentelemetry.py, litellm/integrations/otel.
"""

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from processors.model.exchange import counts, response_facts, said
from processors.model.fragment import RANK_DISCRIMINATOR, Reading
from processors.model.message import messages
from processors.model.names import ContentState
from processors.model.span import Span
from processors.model.step import Message, Model, Part
from processors.value import name, parse, slots

DIALECT = "litellm"
FAMILIES = frozenset({"litellm", "llm", "gen_ai.completion"})
EVENTS: frozenset[str] = frozenset()
SCOPE = "litellm"
RAW = "raw_gen_ai_request"
MAPPED: frozenset[str] = frozenset()
PREFIXES: tuple[str, ...] = ()
_CALL = "gen_ai.completion."


def read_span(span: Span) -> Reading | None:
    """What LiteLLM writes in its own way; None for any other span."""
    if span.scope.name != SCOPE and "litellm.call_id" not in span.attributes:
        return None
    if span.name == RAW:
        return _raw(span.attributes)
    calls = _calls(span.attributes)
    if not calls:
        return None
    state: dict[str, ContentState] = {}
    value, state["messages_out"] = parse(span.attributes.get("gen_ai.output.messages"))
    spoken = messages(value, "assistant") or (Message(role="assistant"),)
    if any(part.type == "tool_call" for message in spoken for part in message.parts):
        return None
    state["messages_out"] = "captured"
    whole = replace(spoken[-1], parts=(*spoken[-1].parts, *calls))
    return Reading(dialect=DIALECT, messages_out=(*spoken[:-1], whole), content_state=state)


def _calls(attributes: Mapping[str, Any]) -> tuple[Part, ...]:
    found = []
    for slot in slots(attributes, _CALL):
        called = name(slot.get("function_call.name"))
        if called:
            arguments = slot.get("function_call.arguments")
            found.append(Part(type="tool_call", name=called, content=arguments))
    return tuple(found)


def _raw(attributes: Mapping[str, Any]) -> Reading:
    """The provider's reply, spread over ``llm.<provider>.<field>``."""
    provider, reply = _reply(attributes)
    value = {key: parse(reply[key])[0] for key in ("choices", "content", "output") if key in reply}
    response_id, model, reasons = response_facts({**reply, **value})
    return Reading(
        dialect=DIALECT,
        kind="model_call",
        rank=RANK_DISCRIMINATOR,
        model=Model(
            provider=provider,
            response_model=model,
            response_id=response_id,
            finish_reasons=reasons,
        ),
        usage=counts(parse(reply.get("usage"))[0]),
        messages_out=said(value) if value else None,
    )


def _reply(attributes: Mapping[str, Any]) -> tuple[str | None, dict[str, Any]]:
    provider: str | None = None
    reply: dict[str, Any] = {}
    for key, value in attributes.items():
        family, _, rest = key.partition(".")
        vendor, _, field = rest.partition(".")
        if family == "llm" and field:
            provider, reply[field] = vendor, value
    return provider, reply
