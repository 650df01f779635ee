"""Small captures of real frameworks (their own exporters, a scripted model): all is read.

``captures/truth.json`` is the log of the model's server and of the tools, never the spans'.
"""

import gzip
import json
from pathlib import Path

import pytest

from processors.model.span import Batch
from sidecar.otlp.decode import decode
from sidecar.pipeline.build import build

FOLDER = Path(__file__).parent / "captures"
TRUTH = json.loads((FOLDER / "truth.json").read_text())
# What the bytes do not hold (docs/specs/dialects.md).
NO_MODELS = {"openllmetry-llama-index"}
NO_USAGE = NO_MODELS | {"openinference-dspy", "openinference-google-adk"}


def batch(name):
    spans, logs = [], []
    for file in sorted(FOLDER.glob(f"{name}.*.gz")):
        found = decode(
            "logs" if ".logs." in file.name else "traces",
            "protobuf",
            gzip.decompress(file.read_bytes()),
        )
        spans += found.spans
        logs += found.logs
    assert spans
    return Batch(spans=tuple(spans), logs=tuple(logs))


@pytest.fixture(params=sorted(TRUTH))
def case(request):
    telemetry = batch(request.param)
    return request.param, telemetry, build(telemetry, project="p", now_ns=2**62)


@pytest.mark.requirement("NRM-01")
def test_no_span_is_lost(case):
    _, telemetry, traces = case
    seen = {
        (source.trace_id, source.span_id)
        for trace in traces
        for step in trace.steps
        for source in step.sources
    }
    assert {(span.trace_id, span.span_id) for span in telemetry.spans} <= seen


@pytest.mark.requirement("NRM-01")
def test_the_run_is_told_as_it_was(case):
    name, _, traces = case
    truth = TRUTH[name]
    steps = [step for trace in traces for step in trace.steps]
    ran = [step.tool for step in steps if step.kind == "tool_call"]
    assert [(tool.name, tool.arguments, tool.result) for tool in ran] == [
        tuple(tool) for tool in truth["tools"]
    ]
    (answer,) = [trace.final_output for trace in traces if trace.final_output]
    assert answer.endswith(truth["answer"])  # Agno's own answer has all that was said before it
    if name not in NO_MODELS:
        assert sum(step.kind == "model_call" for step in steps) == truth["models"]
    if name not in NO_USAGE:
        totals = [trace.usage_total for trace in traces if trace.usage_total.input is not None]
        assert [(total.input, total.output) for total in totals] == [
            (truth["usage"]["input"], truth["usage"]["output"])
        ]
