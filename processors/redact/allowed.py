"""What may be kept of a span's loose attributes.

Rules
1. An attribute nobody listed is unknown: its value goes, whatever its type. New dialects bring new
   keys all the time, and a key that looks harmless today carries a prompt tomorrow.
2. Without content a listed one keeps numbers, truth values and short names; a long or many-worded
   text is content. Of an address only scheme, host and path are kept; its query goes.
3. With masked content the attributes of known dialects stay too, which carry messages, arguments
   and results.
4. A project's ``deny`` and ``allow`` come first, in this order.
"""

import re
from collections.abc import Sequence
from typing import Final, Literal

from processors.redact.terms import Terms

Listing = Literal["name", "number", "content", "unknown"]
NAME_CHARACTERS_MAX: Final = 100
NAME_WORDS_MAX: Final = 6

_EXACT = frozenset(
    {
        *("error.type", "http.request.method", "http.response.status_code", "http.route"),
        *("http.request.resend_count", "url.scheme", "url.full", "url.path", "http.url"),
        *("http.method", "http.status_code", "server.address", "server.port", "client.port"),
        *("rpc.system", "rpc.service", "rpc.method", "rpc.grpc.status_code", "db.system.name"),
        *("db.system", "db.operation.name", "db.namespace", "network.protocol.name"),
        *("network.protocol.version", "network.transport", "session.id", "otel.status_code"),
        *("gen_ai.operation.name", "gen_ai.system", "gen_ai.provider.name", "gen_ai.output.type"),
        *("gen_ai.conversation.id", "gen_ai.data_source.id", "gen_ai.token.type"),
        *("gen_ai.tool.name", "gen_ai.tool.type", "gen_ai.tool.call.id", "gen_ai.is_streaming"),
        *("gen_ai.evaluation.name", "gen_ai.evaluation.score.value", "gen_ai.workflow.name"),
        *("gen_ai.evaluation.score.label", "mcp.method.name", "mcp.session.id"),
        *("mcp.protocol.version", "mcp.tool.name", "openinference.span.kind", "llm.model_name"),
        *("llm.provider", "llm.system", "llm.request.type", "llm.is_streaming", "tool.name"),
        *("tool_call.id", "tool_call.function.name", "traceloop.span.kind", "ai.operationId"),
        *("traceloop.workflow.name", "traceloop.entity.name", "traceloop.entity.path"),
        *("ai.model.id", "ai.model.provider", "ai.toolCall.name", "ai.toolCall.id"),
        *(
            "ai.response.finishReason",
            "ai.response.id",
            "ai.response.model",
            "ai.telemetry.functionId",
        ),
        *("langfuse.observation.type", "langfuse.observation.level", "langsmith.span.kind"),
        *("langfuse.observation.model.name", "mlflow.spanType", "mlflow.traceRequestId"),
        *("agenttwin.claim.subject", "agenttwin.claim.status", "graph.node.id", "agent.name"),
    }
)
_PREFIXES: Final = (
    *("gen_ai.usage.", "gen_ai.aggregated_usage.", "gen_ai.agent.", "llm.token_count."),
    *("llm.usage.", "ai.usage.", "telemetry.sdk.", "service.", "gen_ai.server.", "http.server."),
)
# Sampling settings are numbers; a stop sequence or a user's name under the same prefix is text.
_NUMBERS_ONLY: Final = ("gen_ai.request.", "gen_ai.response.", "ai.settings.", "llm.request.")
_MODEL_KEYS = frozenset(
    {
        *("gen_ai.request.model", "gen_ai.response.model", "gen_ai.response.id"),
        *("gen_ai.response.finish_reasons", "gen_ai.request.encoding_formats"),
    }
)
# Dialects whose attributes are read somewhere: what is theirs is content, not unknown.
_DIALECTS: Final = (
    *("gen_ai.", "llm.", "openinference.", "input.", "output.", "retrieval.", "embedding."),
    *("reranker.", "document.", "traceloop.", "ai.", "langfuse.", "langsmith.", "langgraph."),
    *("mlflow.", "logfire.", "pydantic_ai.", "smolagents.", "crewai.", "crew_", "genkit:"),
    *("agent_framework.", "event_loop.", "executor.", "workflow.", "message.", "edge_group."),
    *("mastra.", "litellm.", "openai.", "anthropic.", "gcp.vertex.", "mcp.", "jsonrpc.", "tool."),
    *("tool_call.", "metadata.", "exception.", "agenttwin.claim.", "claude_code.", "codex."),
    *("gemini_cli.", "http.", "url.", "rpc.", "server.", "client.", "network.", "db.", "error."),
    *("code.", "otel.", "event.", "service.", "telemetry.", "operation.", "dspy.", "haystack."),
    *("autogen.", "bedrock.", "aws.bedrock.", "semantic_kernel.", "lk.", "braintrust.", "weave."),
)
_DIALECT_KEYS: Final = frozenset(
    {
        *("agent_name", "model", "model_name", "model_id", "tools", "temperature", "stream"),
        *("tool_arguments", "tool_response", "tool_call_id", "final_result", "invocation_params"),
        *("model_request_parameters", "instructions", "request_data", "options", "metadata"),
        *("content", "role", "id", "finish_reason", "prompt", "completion", "return", "system"),
        *("name", "body", "message", "all_messages_events", "events", "tool_name", "function_args"),
        *("result", "output", "input", "arguments", "decision", "success", "duration_ms", "type"),
    }
)
_DENIED: Final = ("gen_ai.agent.description", "service.instance.owner")
_URL_KEYS = frozenset({"url.full", "http.url", "url.path", "http.target"})
_QUERY = re.compile(r"[?#].*", re.DOTALL)


class Listings:
    """How keys are listed on a project's terms."""

    def __init__(self, terms: Terms) -> None:
        self._allow = _Keys(terms.allow)
        self._deny = _Keys(terms.deny)

    def of(self, key: str) -> Listing:
        """How an attribute's key is listed: what of its value may stay."""
        if self._deny.hold(key):
            return "unknown"
        return "name" if self._allow.hold(key) else listing_of(key)


class _Keys:
    """Attribute keys, exact or by their beginning."""

    def __init__(self, patterns: Sequence[str]) -> None:
        self._exact = frozenset(text for text in patterns if not text.endswith("*"))
        self._beginnings = tuple(text[:-1] for text in patterns if text.endswith("*"))

    def hold(self, key: str) -> bool:
        return key in self._exact or key.startswith(self._beginnings)


def listing_of(key: str) -> Listing:
    """How the program lists a key: its short values may stay, its numbers, content, or unknown."""
    if key in _DENIED:
        return "content"
    if key in _EXACT or key in _MODEL_KEYS or key.startswith(_PREFIXES):
        return "name"
    if key.startswith(_NUMBERS_ONLY):
        return "number"
    return "content" if key in _DIALECT_KEYS or key.startswith(_DIALECTS) else "unknown"


def without_query(key: str, value: str) -> str:
    """An address without its query and fragment; any other value as it is."""
    return _QUERY.sub("", value) if key in _URL_KEYS else value


def is_name(text: str) -> bool:
    """Whether a text is short enough to be a name rather than content."""
    return (
        len(text) <= NAME_CHARACTERS_MAX
        and len(text.split()) <= NAME_WORDS_MAX
        and text.isprintable()
    )


_CODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:/-]{0,127}\Z")


def is_code(text: str) -> bool:
    """Whether a text is one identifier: no space, no sentence."""
    return _CODE.match(text) is not None
