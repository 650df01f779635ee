"""Traces for the detectors' tests, step by step."""

from msgspec.structs import replace

from processors.model.step import Agent, Message, Model, Part, Source, Step, StepError, Tool, Usage
from processors.model.trace import AgentTrace
from processors.verify.detect import detect
from processors.verify.detect_settings import DEFAULTS

TOOLS = {
    "issue_refund": "irreversible",
    "send_email": "irreversible",
    "update_ticket": "write",
    "lookup_order": "read",
    "read_page": "read",
    "check_policy": "read",
}
SYSTEM = "You are a support agent. Be polite."
SECOND = 10**9


def said(role, text):
    return Message(role=role, parts=(Part(type="text", content=text),))


def call(
    name, arguments=None, result=None, *, status="ok", error=None, agent="a", step_id=None, **rest
):
    """A tool call; ``arguments`` None are unknown."""
    return Step(
        step_id=step_id or "",
        kind="tool_call",
        name=name,
        status="error" if error else status,
        error=StepError(message=error) if error else None,
        agent=Agent(name=agent),
        tool=Tool(name=name, arguments=arguments, result=result),
        sources=(Source(kind="span"),),
        **rest,
    )


def model(*messages_in, answer=None, usage=None, name="m-1"):
    """A model call that was shown some messages; ``answer`` is text."""
    return Step(
        step_id="",
        kind="model_call",
        agent=Agent(name="a"),
        model=Model(response_model=name),
        messages_in=messages_in or None,
        messages_out=(said("assistant", answer),) if answer is not None else None,
        usage=Usage(input=usage[0], output=usage[1]) if usage else None,
    )


def asked(text, *more):
    """The first model call of a run: the system prompt and what the user said."""
    return model(said("system", SYSTEM), said("user", text), *more)


def trace(*steps, **fields):
    """A trace of some steps, numbered in order of time."""
    numbered = tuple(
        replace(
            step,
            step_id=step.step_id or f"t:{number}",
            start_ns=step.start_ns or number * SECOND,
            end_ns=step.end_ns or number * SECOND + SECOND // 2,
        )
        for number, step in enumerate(steps, 1)
    )
    return AgentTrace(trace_id="t", trace_ids=("t",), steps=numbered, **fields)


def detected(*steps, tools=TOOLS, settings=DEFAULTS, **fields):
    """The detections of a trace of some steps."""
    return detect(trace(*steps, **fields), tools=tools, settings=settings).detections


def codes(*steps, **fields):
    return [item.code for item in detected(*steps, **fields)]
