"""Agents that run elsewhere: a staging service asked by POST, its tools behind the replay's
gateway."""

import sys

import pytest
from msgspec.structs import replace
from staging_rig import staging_agent

from sidecar.errors import SidecarError
from sidecar.gate.conclude import conclude
from sidecar.gateway.config import Credential
from sidecar.replay.config import Agents, Config
from sidecar.replay.reference import read_reference
from sidecar.replay.remote.client import refuse_undialable
from sidecar.replay.remote.exchange import read_answer

REFUND = """
- id: refund
  input: {order: A-1}
  expect:
    - {type: toolCalled, tool: issue_refund, times: 1}
    - {type: approvalRequired, tool: issue_refund}
    - {type: state, entity: orders, key: A-1, equals: {refunded: 49}}
    - {type: outcomeVerified}
"""
ANYTHING = "- {id: x, input: {order: A-1}, expect: [{type: stateUnchanged}]}"
HERE = Config(agents=Agents(allow_cidrs=("127.0.0.0/8",)))


@pytest.fixture(scope="module")
def staging(tmp_path_factory):
    with staging_agent(tmp_path_factory.mktemp("staging")) as base:
        yield base


def url(text):
    return read_reference(f"url:{text}", option="--candidate", python=sys.executable)


@pytest.fixture
def asked(replayed):
    """Runs a suite with an agent elsewhere on both sides, and gives the candidate's first run."""

    def run(where, scenarios=ANYTHING, terms=HERE, before=None, **how):
        plan = replayed.plan(replayed.suite(scenarios, **how), url(before or where), url(where))
        result = replayed.play(plan, terms=terms)
        return result, next(one for one in result.runs if one.side == "candidate")

    return run


@pytest.mark.requirement("CMP-01")
def test_a_staging_agents_calls_go_through_the_gateway_by_the_baggage_it_was_sent(staging, asked):
    result, run = asked(f"{staging}/good", REFUND, deterministic=True)
    assert run.conclusion == "passed", run.scores
    assert run.trace.outcome.status == "verified_success"
    assert {one.episode for one in run.receipts} == {run.episode}
    assert {one.trace_id for one in run.receipts} == {run.trace.trace_id}
    assert "approval_required" in {one.code for one in run.receipts}
    assert result.results[0].case_class == "unchanged"
    verdict = conclude(result, verdict_id="v", now_ns=1)
    assert (verdict.status, verdict.exit_code) == ("PASS", 0), verdict.findings


def test_it_is_given_what_any_agent_is_given_and_its_token_stays_out_of_the_record(staging, asked):
    _, run = asked(f"{staging}/echo")
    told = run.agent.output
    assert set(told["request"]) == {"input", "messages", "scenario", "seed"}
    assert told["request"]["input"] == {"order": "A-1"}
    shown = told["headers"]
    assert shown["baggage"] == "agenttwin-episode=<token>"
    assert shown["sidecar-agent-key"] == "<token>"
    assert shown["traceparent"].startswith("00-")
    assert shown["sidecar-gateway-url"].startswith("http://127.0.0.")


@pytest.mark.parametrize(
    ("modes", "whys"),
    [
        (
            ("error", "redirect"),
            ('it answered 500: {"detail": "a worker was lost"}', "redirects are not followed"),
        ),
        (("large", "gone"), ("the answer exceeds", "the agent: ")),
    ],
)
def test_what_is_no_answer_of_the_agent_is_an_error_and_never_a_failure(
    staging, asked, modes, whys
):
    result, _ = asked(f"{staging}/{modes[1]}", before=f"{staging}/{modes[0]}")
    for run, why in zip(result.runs, whys, strict=True):
        assert run.agent.ending == "unreachable" and why in run.agent.detail
        assert run.void.startswith("agent_unreachable: ")
    assert result.results[0].case_class == "void"
    verdict = conclude(result, verdict_id="v", now_ns=1)
    assert (verdict.status, verdict.exit_code) == (None, 2)


JSON = (("content-type", "application/json"),)


@pytest.mark.parametrize(
    ("status", "headers", "body", "why"),
    [
        (404, JSON, b"", "it answered 404"),
        (204, JSON, b"", "is no JSON"),
        (200, (("content-type", "text/html"),), b"<html>Sign in", "(content type text/html) is no"),
        (200, (), b"\xff", "(content type none) is no JSON"),
        (200, JSON, b'{"answer": "hello"}', 'its answer is no object with "output"'),
        (200, JSON, b"[1]", 'its answer is no object with "output"'),
        (200, JSON, b"[" * 5000 + b"]" * 5000, "its answer"),
        (200, JSON, b'{"output": ' + b"[" * 150 + b"]" * 150 + b"}", "nested too deep"),
        (302, (("location", "http://169.254.169.254/"),), b"", "redirects are not followed"),
    ],
)
def test_only_json_with_output_is_an_answer(status, headers, body, why):
    found = read_answer(status, headers, body)
    assert found.ending == "unreachable" and why in found.detail


def test_an_answer_may_be_any_json_and_may_be_none():
    assert read_answer(201, JSON, b'{"output": {"a": [1]}}').output == {"a": [1]}
    assert read_answer(200, JSON, b'{"output": null}').ending == "completed"


def test_one_that_never_answers_has_failed_and_one_that_is_not_there_is_an_error(staging, asked):
    result, late = asked(f"{staging}/slow", before="http://127.0.0.1:9/", deadline="1s")
    assert (late.agent.ending, late.void, late.conclusion) == ("timed_out", None, "failed")
    assert result.runs[0].void.startswith("agent_unreachable: the agent: ")


def test_acts_that_nobody_here_has_seen_are_told_and_nothing_is_concluded(staging, asked):
    result, lies = asked(f"{staging}/lies", before=f"{staging}/honest")
    assert lies.void.startswith("no_twin_traffic: the agent says that it did (refund)")
    assert result.results[0].case_class == "void"
    assert (result.runs[0].void, result.runs[0].conclusion) == (None, "passed")


@pytest.mark.parametrize(
    "where",
    [
        "http://169.254.169.254/latest/meta-data/",
        "http://10.0.0.1/",
        "http://[::ffff:169.254.169.254]/",
        "http://[fd00:ec2::254]/",
        "http://127.0.0.1:8080/run",
    ],
)
def test_an_address_that_is_never_dialled_is_refused(where):
    with pytest.raises(SidecarError) as refused:
        refuse_undialable(url(where), Agents())
    assert refused.value.where == f"url:{where}"
    assert "allow_cidrs" in refused.value.do


def test_it_is_refused_before_anything_runs(asked):
    with pytest.raises(SidecarError, match="a metadata address, which is never dialled"):
        asked("http://169.254.169.254/", terms=Config(agents=Agents(allow_cidrs=("0.0.0.0/0",))))


@pytest.mark.parametrize(
    "text",
    [
        "url:", "url:staging", "url:ftp://a/", "url:http://u:p@a/", "url:http://a/?q=1",
        "url:http://a/#f", "url:http://2130706433/", "url:http://0x7f.1/", "url:http://a:99999/",
        "url:http://a\n/", "url:file:///etc/passwd",
    ],
)  # fmt: skip
def test_a_url_that_could_be_read_in_two_ways_is_a_usage_error(text):
    with pytest.raises(SidecarError) as refused:
        read_reference(text, option="--baseline", python=sys.executable)
    assert refused.value.where == "--baseline" and refused.value.code == 3


def test_the_credential_of_staging_goes_along_and_the_gateway_is_told_of_where_configuration_says(
    staging, asked, tmp_path
):
    key = tmp_path / "key"
    key.write_text("let-me-in\n")
    shown = Credential(header="X-Staging-Key", file=str(key))
    terms = Config(
        gateway="127.0.0.1:0",
        gateway_url="http://replay.example:4329/",
        agents=replace(HERE.agents, credential=shown),
    )
    _, run = asked(f"{staging}/echo", terms=terms)
    assert run.agent.output["headers"]["x-staging-key"] == "let-me-in"
    assert run.agent.output["headers"]["sidecar-gateway-url"] == "http://replay.example:4329"
    key.unlink()
    _, run = asked(f"{staging}/echo", terms=terms)
    assert "its credential cannot be used" in run.void


def test_configuration_that_leads_nowhere_is_a_problem():
    wrong = Config(
        gateway="0.0.0.0:4329",
        agents=Agents(
            allow_cidrs=("10.0.0.1/8",), credential=Credential(header="Host", file="key")
        ),
    )
    assert [one.path for one in wrong.problems()] == [
        "gateway_url",
        "agents.allow_cidrs",
        "agents.credential.header",
    ]
    assert Config(gateway="nowhere", gateway_url="ftp://x").problems()[0].path == "gateway"
    assert HERE.problems() == []


@pytest.mark.full
def test_a_conversation_is_one_request_a_turn(staging, asked):
    scenario = """
- id: talk
  input: hello
  user: {turnsMax: 2, lines: [{say: "And then?"}]}
  expect: [{type: stateUnchanged}]
"""
    _, run = asked(f"{staging}/echo", scenario)
    assert [turn.user for turn in run.agent.turns] == ["hello", "And then?"]
    assert run.agent.output["request"]["turn"] == 2
