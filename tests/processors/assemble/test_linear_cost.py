"""What a run costs grows with its spans, however they hang and whatever they repeat."""

import json
import time

import pytest

from processors.assemble.trace import assemble
from processors.model.span import Batch, Span
from processors.normalise.detect import normalise

SIZE = 12_000
CALL = "call_0000000001"


def span(number, attributes=None, parent=None, length=10**9):
    return Span(
        trace_id="a" * 32,
        span_id=f"{number + 1:016x}",
        parent_span_id=None if parent is None else f"{parent + 1:016x}",
        name="x",
        start_ns=number + 1,
        end_ns=number + 1 + length,
        attributes=attributes or {},
        resource={"service.name": "s"},
    )


def line(size, attributes=None):
    """Each span hangs below the one before."""
    return [span(n, attributes, n - 1 if n else None) for n in range(size)]


def below_a_line(attributes):
    """As many spans below the last of a line of spans that mean nothing."""
    half = SIZE // 2
    return [*line(half), *(span(half + n, attributes, half - 1) for n in range(half))]


def message(role, **part):
    return json.dumps([{"role": role, "parts": [part]}])


CHAT = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}
ASKS_AND_SHOWS = {
    **CHAT,
    "gen_ai.input.messages": message("tool", type="tool_call_response", id=CALL, response="x"),
    "gen_ai.output.messages": message("assistant", type="tool_call", id=CALL, name="find"),
}
TOOL = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "find"}
SHAPES = {
    "model calls below a long line": lambda: below_a_line(CHAT),
    "agents below a long line": lambda: below_a_line({"gen_ai.operation.name": "invoke_agent"}),
    "one tool call reported at every depth": lambda: line(SIZE, TOOL),
    "rings": lambda: [span(n, parent=n ^ 1) for n in range(SIZE)],
    "one call id asked for again and again": lambda: [
        span(n, ASKS_AND_SHOWS, length=1) for n in range(SIZE)
    ],
}


@pytest.mark.full  # much work, on purpose
@pytest.mark.parametrize("shape", SHAPES)
def test_twelve_thousand_spans_cost_little_each(shape):
    fragments = normalise(Batch(spans=tuple(SHAPES[shape]())))
    started = time.process_time()
    [trace] = assemble(fragments, project="p", now_ns=0)
    assert time.process_time() - started < 4
    assert trace.steps
