"""Real captured requests: nothing is lost, and what the libraries say is read whole.

Needs the shared corpora; the score against the known truth is printed by ``score_corpus.py``.
"""

import json
from collections import Counter
from pathlib import Path

import pytest

from processors.model.span import Batch
from sidecar.otlp.decode import decode
from sidecar.pipeline.build import build

CORPUS = Path(__file__).parents[3] / "shared" / "corpora" / "otlp"
LIBRARIES = (
    "agent-framework",
    "opentelemetry-instrumentation-openai-agents",
    "openinference-instrumentation-openai-agents",
    "openinference-instrumentation-langchain",
    "opentelemetry-instrumentation-genai-openai",
    "opentelemetry-instrumentation-openai-v2",
    "genkit",
    "google-adk",
    "mastra",
    "mcp-python-sdk",
    "openinference-instrumentation-crewai",
    "openinference-instrumentation-smolagents",
    "opentelemetry-instrumentation-crewai",
    "strands-agents",
)


def cases(library):
    if not CORPUS.is_dir():
        pytest.skip("needs ../shared (corpora/otlp), which is absent here")
    folders = [meta.parent for meta in sorted((CORPUS / library).glob("*/meta.json"))]
    assert folders, f"no case of {library}"
    return folders


def batch(case, suffix="binpb"):
    encoding = "protobuf" if suffix == "binpb" else "json"
    parts = [
        decode("logs" if ".logs." in file.name else "traces", encoding, file.read_bytes())
        for file in sorted(case.glob(f"[0-9]*.{suffix}"))
    ]
    return Batch(
        spans=tuple(span for part in parts for span in part.spans),
        logs=tuple(record for part in parts for record in part.logs),
        rejected=sum(part.rejected for part in parts),
    )


@pytest.mark.requirement("NRM-01")
@pytest.mark.parametrize("library", LIBRARIES)
def test_no_span_vanishes_and_both_encodings_say_the_same(library):
    for case in cases(library):
        telemetry = batch(case)
        assert telemetry.rejected == 0
        assert telemetry == batch(case, "json"), case.name
        traces = build(telemetry, project="p", now_ns=2**62)
        seen = {
            (source.trace_id, source.span_id)
            for trace in traces
            for step in trace.steps
            for source in step.sources
        }
        assert {(span.trace_id, span.span_id) for span in telemetry.spans} <= seen, case.name
        assert (
            build(
                Batch(spans=telemetry.spans[::-1], logs=telemetry.logs[::-1]),
                project="p",
                now_ns=2**62,
            )
            == traces
        ), case.name


@pytest.mark.requirement("NRM-03")
@pytest.mark.parametrize("library", LIBRARIES[:4])
def test_calls_arguments_results_tokens_and_answers_are_those_that_happened(library):
    """The four libraries with tool spans: their calls and totals against the servers' own log."""
    for case in cases(library):
        meta = json.loads((case / "meta.json").read_text())
        truth = meta["ground_truth"]
        traces = build(batch(case), project="p", now_ns=2**62)
        ran = [
            step
            for trace in traces
            for step in trace.steps
            if step.kind == "tool_call" and step.status != "requested_only"
        ]
        real = {call["name"] for call in truth["tool_calls"]}
        names = Counter(step.tool.name for step in ran if step.tool.name in real)
        assert names == Counter(call["name"] for call in truth["tool_calls"]), case.name
        if meta.get("content_capture") == "off":
            continue
        given = sorted(
            json.dumps([step.tool.name, step.tool.arguments], sort_keys=True)
            for step in ran
            if step.tool.name in real
        )
        assert given == sorted(
            json.dumps([call["name"], call["arguments"]], sort_keys=True)
            for call in truth["tool_calls"]
        ), case.name
