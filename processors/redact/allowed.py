"""What may be kept of a span's loose attributes when no content is captured.

Rules
1. An attribute nobody listed is content: its value goes, whatever its type. New dialects bring new
   keys all the time, and a key that looks harmless today carries a prompt tomorrow.
2. A listed one keeps numbers, truth values and short names; a long or many-worded text is content.
3. Of an address only scheme, host and path are kept; its query goes.
"""

import re
from typing import Final, Literal

Listing = Literal["name", "number", "content"]
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
_DENIED: Final = ("gen_ai.agent.description", "service.instance.owner")
_URL_KEYS = frozenset({"url.full", "http.url", "url.path", "http.target"})
_QUERY = re.compile(r"[?#].*", re.DOTALL)


def listing_of(key: str) -> Listing:
    """How an attribute's key is listed: its short values stay, its numbers stay, or nothing."""
    if key in _DENIED:
        return "content"
    if key in _EXACT or key in _MODEL_KEYS or key.startswith(_PREFIXES):
        return "name"
    return "number" if key.startswith(_NUMBERS_ONLY) else "content"


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
