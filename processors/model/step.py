"""Step: one thing an agent did, whatever source told us of it.

Rules
1. A step from an OTLP span, a gateway call, a tape event and a twin call is this same type.
2. ``tool`` is an object on every ``tool_call`` step and only there; ``model`` and ``usage`` on
   model calls.
3. Nothing is guessed: a field the source does not hold is None and ``content_state`` says why.
4. ``arguments`` and ``result`` are parsed values where the bytes are JSON, else text.
"""

from typing import Any, Literal

from msgspec import Struct

from processors.model.names import ContentState, Effect, StepKind, StepStatus


class Agent(Struct, frozen=True, kw_only=True, gc=False):
    """The agent a step belongs to."""

    name: str | None = None
    id: str | None = None
    version: str | None = None


class StepError(Struct, frozen=True, kw_only=True, gc=False):
    """What went wrong; ``inferred`` when only a result's text says so."""

    type: str | None = None
    message: str | None = None
    inferred: bool = False


class Model(Struct, frozen=True, kw_only=True, gc=False):
    """The model of a model call; ``finish_reasons`` are canonical words where known."""

    provider: str | None = None
    request_model: str | None = None
    response_model: str | None = None
    response_id: str | None = None
    finish_reasons: tuple[str, ...] = ()


class Usage(Struct, frozen=True, kw_only=True, gc=False):
    """Tokens; ``input`` counts cached ones too, ``scope`` is own (a leaf) or aggregated."""

    input: int | None = None
    output: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    reasoning: int | None = None
    scope: Literal["own", "aggregated"] = "own"


class Part(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One part of a message; ``type`` is text, tool_call, tool_call_response, reasoning or generic.

    For a tool_call: ``id``, ``name``, ``content`` = arguments. For a tool_call_response: ``id``,
    ``content`` = response, ``failed`` where the message itself says that the call did.
    """

    type: str
    content: Any = None
    id: str | None = None
    name: str | None = None
    failed: bool = False


class Message(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One message to or from a model (GenAI semantic conventions, input/output messages)."""

    role: str
    parts: tuple[Part, ...] = ()
    name: str | None = None
    finish_reason: str | None = None


class Tool(Struct, frozen=True, kw_only=True, gc=False):
    """The tool of a tool call; ``requested_by`` is the step id of the asking model call."""

    name: str | None = None
    namespace: str | None = None
    call_id: str | None = None
    type: str | None = None
    arguments: Any = None
    result: Any = None
    requested_by: str | None = None


class StepDecision(Struct, frozen=True, kw_only=True, gc=False):
    """A decision on a step, by the gateway or as an emitter reported it (``source``)."""

    effect: Effect | Literal["unknown"]
    decision_id: str | None = None
    reasons: tuple[str, ...] = ()
    source: Literal["gateway", "emitter"] = "gateway"


class Source(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Where facts come from: a span, its log records, messages, a receipt, a tape, a twin."""

    kind: Literal["span", "log", "messages", "receipt", "tape", "twin"]
    trace_id: str | None = None
    span_id: str | None = None
    dialect: str | None = None
    ref: str | None = None


class Step(Struct, frozen=True, kw_only=True, gc=False):
    """One step of a trace; ``step_id`` is ``<trace_id>:<span_id>[:n]`` when from a span."""

    step_id: str
    kind: StepKind
    name: str = ""
    subtype: str | None = None
    parent_step_id: str | None = None
    agent: Agent | None = None
    start_ns: int = 0
    end_ns: int = 0
    status: StepStatus = "unset"
    error: StepError | None = None
    model: Model | None = None
    usage: Usage | None = None
    messages_in: tuple[Message, ...] | None = None
    messages_out: tuple[Message, ...] | None = None
    output: Any = None
    tool: Tool | None = None
    decision: StepDecision | None = None
    receipt_id: str | None = None
    content_state: dict[str, ContentState] = {}
    attributes: dict[str, Any] = {}
    sources: tuple[Source, ...] = ()
