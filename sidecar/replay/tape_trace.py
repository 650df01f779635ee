"""A tape as an AgentTrace: what a recorded run says, in the language that everything is judged in.

Rules
1. Nothing is added: a call without a recorded result has the status ``unset``, a payload that was
   not kept is absent, and nothing counts as evidence.
2. What an agent's own process wrote may lower an outcome and never raises it; what the sidecar had
   verified (source ``otlp`` or ``proxy``) stays.
3. A model's request is read in the forms of the providers (OpenAI, Anthropic, Gemini, GenAI
   messages); what has none of them keeps its call and loses its messages.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, cast, get_args

from msgspec import structs

from processors.model.evidence import Outcome
from processors.model.names import ContentState, OutcomeStatus
from processors.model.step import Agent, Message, Model, Part, Source, Step, StepError, Tool
from processors.model.trace import AgentTrace, Service
from sidecar.tape.model import Event
from sidecar.tape.moment import nanoseconds
from sidecar.tape.tape import MISSING, Tape
from sidecar.tape.value import decoded

_LISTS: Final = ("messages", "input", "contents")
_ROLES: Final = {"model": "assistant", "developer": "system"}
_VERIFIERS: Final = ("otlp", "proxy")
_LOWERED: Final = ("contradicted", "verified_failure")


def tape_trace(tape: Tape) -> AgentTrace:
    """The run of a tape; its id is that of the trace it was made from, else the tape's own."""
    header = tape.header
    trace_id = header.trace_ids[0] if header.trace_ids else header.tape_id
    build = header.agent
    steps = tuple(_steps(tape, trace_id))
    end = next((one for one in tape.events if one.kind == "terminal"), None)
    said = _payload(tape, end, "out")
    output = said.get("output") if isinstance(said, Mapping) else None
    return AgentTrace(
        trace_id=trace_id,
        trace_ids=header.trace_ids or (trace_id,),
        service=Service(
            name=build.name if build is not None else None,
            version=build.version if build is not None else None,
        ),
        project=header.tenant,
        completeness="open" if end is None else "complete",
        steps=steps,
        final_output=_answer(output, steps),
        outcome=Outcome(status=_outcome(tape, said)),
    )


def _outcome(tape: Tape, said: Any) -> OutcomeStatus:
    verified = said.get("verified") if isinstance(said, Mapping) else None
    if verified not in get_args(OutcomeStatus):
        return "unverified"
    if tape.header.source not in _VERIFIERS and verified not in _LOWERED:
        return "unverified"
    return cast(OutcomeStatus, verified)


def _answer(output: Any, steps: Iterable[Step]) -> str | None:
    if isinstance(output, str):
        return output
    texts = [
        part.content
        for step in steps
        if step.kind == "model_call"
        for message in step.messages_out or ()
        for part in message.parts
        if part.type == "text" and isinstance(part.content, str)
    ]
    return texts[-1] if texts else None


def _steps(tape: Tape, trace_id: str) -> Iterator[Step]:
    results = {one.cause[0]: one for one in tape.events if one.kind == "tool_result" and one.cause}
    begin_ns = nanoseconds(tape.header.captured_at)
    for event in tape.events:
        if event.kind == "llm_call":
            step = _model_call(tape, event)
        elif event.kind == "tool_call":
            step = _tool_call(tape, event, results.get(event.seq))
        elif event.kind == "human_input":
            step = Step(step_id="", kind="human_input", output=_payload(tape, event, "out"))
        else:
            continue
        last = results.get(event.seq, event)
        yield structs.replace(
            step,
            step_id=f"{trace_id}:{event.seq}",
            name=step.name or event.name,
            agent=Agent(name=event.agent) if event.agent else None,
            start_ns=begin_ns + event.t.get("start", 0),
            end_ns=begin_ns + last.t.get("end", last.t.get("start", 0)),
            sources=(Source(kind="tape", ref=str(event.seq)),),
        )


def _model_call(tape: Tape, event: Event) -> Step:
    given = _payload(tape, event, "in")
    answered = _payload(tape, event, "out")
    return Step(
        step_id="",
        kind="model_call",
        status=event.st,
        error=_error(event),
        model=Model(request_model=event.name or None),
        messages_in=tuple(_messages(given)) or None,
        messages_out=tuple(_replies(answered)) or None,
    )


def _tool_call(tape: Tape, event: Event, result: Event | None) -> Step:
    arguments = _payload(tape, event, "in")
    kept = _payload(tape, result, "out")
    states: dict[str, ContentState] = {
        "arguments": _state(arguments, event.in_),
        "result": _state(kept, result.out if result is not None else None),
    }
    last = event if result is None else result
    return Step(
        step_id="",
        kind="tool_call",
        status="unset" if result is None else result.st,
        error=_error(last),
        tool=Tool(name=event.name, arguments=arguments, result=kept),
        content_state=states,
    )


def _state(value: Any, digest: str | None) -> ContentState:
    if value is not None:
        return "captured"
    return "absent" if digest is None else "external_ref"


def _error(event: Event) -> StepError | None:
    return None if event.err is None else StepError(type=event.err.type)


def _payload(tape: Tape, event: Event | None, side: str) -> Any:
    value = tape.payload(event, side) if event is not None else MISSING
    return None if value is MISSING else decoded(value)


def _messages(given: Any) -> Iterator[Message]:
    """The messages of a request, system prompts first, whichever provider's it is."""
    if not isinstance(given, Mapping):
        return
    system = given.get("system", given.get("instructions"))
    if isinstance(system, str) and system:
        yield Message(role="system", parts=(Part(type="text", content=system),))
    listed = next((given[name] for name in _LISTS if given.get(name)), None)
    if isinstance(listed, str):
        yield Message(role="user", parts=(Part(type="text", content=listed),))
    for one in listed if isinstance(listed, list) else ():
        yield from _message(one)


def _replies(answered: Any) -> Iterator[Message]:
    """What a model answered: the first choice, or the message itself."""
    if not isinstance(answered, Mapping):
        if isinstance(answered, str):
            yield Message(role="assistant", parts=(Part(type="text", content=answered),))
        return
    for name in ("messages", "output"):
        if isinstance(answered.get(name), list):
            for one in answered[name]:
                yield from _message(one, "assistant")
            return
    for name, inner in (("choices", "message"), ("candidates", "content")):
        some = answered.get(name)
        if isinstance(some, list) and some and isinstance(some[0], Mapping):
            yield from _message(some[0].get(inner), "assistant")
            return
    yield from _message(answered, "assistant")


def _message(one: Any, role: str = "user") -> Iterator[Message]:
    if not isinstance(one, Mapping):
        return
    said = one.get("role", role)
    body = one.get("parts", one.get("content"))
    parts = tuple(_parts(body))
    if parts and isinstance(said, str):
        yield Message(role=_ROLES.get(said, said), parts=parts)


def _parts(body: Any) -> Iterator[Part]:
    if isinstance(body, str):
        if body:
            yield Part(type="text", content=body)
        return
    for one in body if isinstance(body, list) else ():
        if isinstance(one, str):
            yield Part(type="text", content=one)
        elif isinstance(one, Mapping):
            text = one.get("text", one.get("content") if one.get("type") == "text" else None)
            if isinstance(text, str):
                yield Part(type="text", content=text)
            else:
                yield Part(type="generic", content=dict(one))
