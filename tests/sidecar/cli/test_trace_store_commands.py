"""``sidecar trace list`` and ``show`` over a real store, as a person or a script runs them."""

import asyncio
import json

import pytest
from click.testing import CliRunner

from processors.model.evidence import Claim, Contradiction, Evidence, Outcome
from processors.model.step import Agent, Source, Step, StepDecision, StepError, Tool, Usage
from processors.model.trace import AgentTrace, Service
from sidecar import clock
from sidecar.cli.root import root
from sidecar.store.envelope import Sealer
from sidecar.store.sqlite.traces import SqliteOpenTraces
from sidecar.store.traces import (
    CursorMove,
    Digests,
    Due,
    Intake,
    Part,
    Publication,
    content_digest,
)

SECOND = 1_000_000_000
START = 1_750_000_000 * SECOND


def step(name, kind, parent=None, at=0, **fields):
    return Step(
        step_id=name,
        parent_step_id=parent,
        kind=kind,
        name=name,
        start_ns=START + at * SECOND,
        end_ns=START + (at + 1) * SECOND,
        sources=(Source(kind="span", span_id=name),),
        **fields,
    )


def refund_trace(trace_id, project="shop", service="refund-agent", start=0, outcome=None):
    steps = (
        step("run", "agent", at=start, agent=Agent(name="refunds")),
        step("http", "other", parent="run", at=start),
        step("lonely", "other", parent="run", at=start),
        step("think", "model_call", parent="http", at=start),
        step(
            "issue_refund", "tool_call", parent="run", at=start + 1, status="denied",
            tool=Tool(name="issue_refund", arguments={"order_id": "o-1", "note": "a\x1b[2Jb"}),
            decision=StepDecision(effect="deny", reasons=("limit_exceeded",)),
            receipt_id="r-77", error=StepError(message="denied by policy"),
        ),
    )  # fmt: skip
    return AgentTrace(
        trace_id=trace_id,
        project=project,
        service=Service(name=service, version="1.3.0"),
        steps=steps,
        final_output="I refunded you.\nHave a nice day",
        claims=(
            Claim(
                claim_id="claim-1", subject="issue_refund", status="success",
                source="final_answer", rule="S1", text="I refunded you.",
            ),
        ),
        evidence=(
            Evidence(
                evidence_id="e1", source="receipt", name="issue_refund", held=False,
                receipt_id="r-77", subject="issue_refund",
            ),
        ),
        outcome=outcome
        or Outcome(
            status="contradicted",
            contradictions=(
                Contradiction(code="claimed_success_state_failed", detail="no refund happened"),
            ),
        ),
        usage_total=Usage(input=70, output=9),
    )  # fmt: skip


@pytest.fixture
def store(tmp_path):
    """A store with four traces of two projects; its URL."""
    opened = SqliteOpenTraces(
        tmp_path / "data" / "traces.db",
        sealers=lambda project: Sealer(bytes(32), clock.random_bytes),
    )
    plain = Outcome(status="unverified")
    traces = [
        refund_trace("a" * 32),
        refund_trace("b" * 32, service="other-agent", start=100, outcome=plain),
        refund_trace("c" * 32, project="bank", start=200, outcome=plain),
        refund_trace("a" * 32, project="bank", start=300),
    ]
    asyncio.run(fill(opened, traces))
    opened.close()
    return f"sqlite:///{tmp_path / 'data'}"


async def fill(opened, traces):
    for number, trace in enumerate(traces):
        part = Part(
            project=trace.project, key=trace.trace_id, kind="telemetry", payload=b"",
            expires_ns=1 << 60,
        )  # fmt: skip
        move = CursorMove(name="j", before=number, after=number + 1)
        await opened.take_in(Intake(move=move, parts=(part,), now_ns=1))
        (due,) = opened.due(Due(now_ns=9, idle_ns=1, open_max_ns=1, limit=1))
        digest = content_digest(trace)
        publication = Publication(
            open_id=due.open_id, version=due.version, traces=(trace,),
            digests=(Digests(digest, digest),), now_ns=1,
        )  # fmt: skip
        await opened.publish([publication])


def run(*arguments):
    return CliRunner().invoke(root, ["trace", *arguments], standalone_mode=False)


def listed(store, *arguments):
    result = run("list", "--store", store, "--output", "json", *arguments)
    assert result.exit_code == 0, result.output
    return [(item["trace_id"][0], item["project"]) for item in json.loads(result.stdout)]


def test_list_filters_and_orders(store):
    assert listed(store) == [("a", "bank"), ("c", "bank"), ("b", "shop"), ("a", "shop")]
    assert listed(store, "--project", "shop") == [("b", "shop"), ("a", "shop")]
    assert listed(store, "--service", "other-agent") == [("b", "shop")]
    assert listed(store, "--outcome", "contradicted", "--limit", "1") == [("a", "bank")]
    assert listed(store, "--since", "2025-06-15T15:09:00+00:00") == [("a", "bank"), ("c", "bank")]
    assert listed(store, "--until", "2025-06-15T15:08:20Z", "--service", "refund-agent") == [
        ("a", "shop")
    ]
    assert listed(store, "--since", "1h") == []


def test_list_as_text_has_a_line_a_trace_and_as_jsonl_an_object_a_line(store):
    lines = run("list", "--store", store).stdout.splitlines()
    assert len(lines) == 5
    assert "contradicted (claimed_success_state_failed)" in lines[1]
    objects = run("list", "--store", store, "--output", "jsonl").stdout.splitlines()
    assert [json.loads(line)["revision"] for line in objects] == [1, 1, 1, 1]


def test_an_empty_list_says_when_a_trace_is_there(store):
    result = run("list", "--store", store, "--since", "1h")
    assert (result.stdout, "assemble.idle" in result.stderr) == ("no traces\n", True)
    assert run("list", "--store", store).stderr == ""


def test_show_draws_the_steps_as_a_tree_with_all_that_is_known(store):
    result = run("show", "a" * 32, "--project", "shop", "--store", store)
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    names = [line.partition("+")[0].rstrip() for line in lines if "─" in line]
    assert names == [
        "└─ agent run",
        "   ├─ other http",
        "   │  └─ model_call think",
        "   └─ tool_call issue_refund",
    ]
    text = result.stdout
    assert "outcome contradicted" in text
    assert "gateway said deny (limit_exceeded)" in text and "receipt r-77" in text
    assert 'issue_refund success (final_answer, rule S1): "I refunded you."' in text
    assert "claimed_success_state_failed: no refund happened" in text
    assert "receipt issue_refund: did not hold" in text
    assert "Have a nice day" in text
    assert "1 other spans" in text
    assert "\x1b" not in text


def test_show_all_shows_every_span(store):
    result = run("show", "a" * 32, "--project", "shop", "--store", store, "--all")
    assert "other lonely" in result.stdout


def test_show_as_json_is_the_trace(store):
    result = run("show", "C" * 32, "--store", store, "--output", "json")
    trace = json.loads(result.stdout)
    assert (trace["trace_id"], trace["outcome"]["status"]) == ("c" * 32, "unverified")
    assert len(trace["steps"]) == 5


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["show", "d" * 32], "no such trace"),
        (["show", "a" * 32], "bank, shop"),
    ],
)
def test_what_cannot_be_shown_says_why(store, arguments, text):
    result = run(*arguments, "--store", store)
    assert text in result.exception.text()


def test_a_bad_time_and_a_missing_store_are_told(store, tmp_path):
    result = run("list", "--store", store, "--since", "yesterday")
    assert "neither a time nor a duration" in str(result.exception)
    result = run("list", "--store", f"sqlite:///{tmp_path / 'nowhere'}")
    assert "there is no store" in result.exception.text()
