"""Suites replayed for real: agent processes, the gateway in twin mode, policy, ledger, twins,
judgement.
"""

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sidecar import clock
from sidecar.errors import SidecarError
from sidecar.gate.conclude import conclude
from sidecar.replay.process import Launch, answer, run_agent
from sidecar.replay.reference import read_reference

REFUND = """
- id: refund
  input: {order: A-1}
  expect:
    - {type: toolCalled, tool: issue_refund, times: 1}
    - {type: order, tools: [get_order, issue_refund]}
    - {type: approvalRequired, tool: issue_refund}
    - {type: state, entity: orders, key: A-1, equals: {refunded: 49}}
    - {type: noDuplicateSideEffect}
    - {type: outcomeVerified}
    - {type: finalOutcome, claim: success}
"""


def verdict_of(result):
    return conclude(result, verdict_id="v", now_ns=1)


def first(result, side="candidate"):
    return next(run for run in result.runs if run.side == side)


def score_of(run, name):
    return next(one for one in run.scores if one.expectation == name)


@pytest.mark.requirement("CMP-01")
@pytest.mark.requirement("GAT-01")
def test_the_same_agent_twice_passes_and_its_runs_agree(replayed):
    result = replayed.run(REFUND, deterministic=True)
    assert [len(set(result.results[0].digests[side])) for side in ("baseline", "candidate")] == [
        1,
        1,
    ]
    assert result.results[0].digests["baseline"] == result.results[0].digests["candidate"]
    verdict = verdict_of(result)
    assert (verdict.status, verdict.exit_code) == ("PASS", 0), verdict.findings
    assert verdict.counts["unchanged"] == 1
    run = first(result)
    assert run.trace.outcome.status == "verified_success"
    assert [event.kind for event in run.events] == ["answered", "answered"]
    assert {one.episode for one in run.receipts} == {run.episode}


def test_a_candidate_that_skips_a_step_is_a_new_critical_failure_with_its_first_difference(
    replayed,
):
    result = replayed.run(REFUND, candidate="blind", deterministic=True)
    (case,) = result.results
    assert case.case_class == "new_critical"
    assert (case.difference.kind, case.difference.index) == ("replaced", 1)
    assert "issue_refund" in case.difference.candidate and "get_order" in case.difference.baseline
    verdict = verdict_of(result)
    assert (verdict.status, verdict.exit_code) == ("BLOCK", 1)
    assert verdict.failures[0].expectation == "order"


def test_severity_decides_between_critical_and_regressed_and_a_fix_is_an_improvement(replayed):
    minor = REFUND.replace("input:", "severity: minor\n  input:", 1)
    assert replayed.run(minor, candidate="blind").results[0].case_class == "regressed"
    assert replayed.run(minor, baseline="blind").results[0].case_class == "improved"


def test_a_duplicate_effect_blocks_whatever_the_scenario_expects(replayed):
    scenario = "- {id: x, input: {order: A-1}, expect: [{type: finalOutcome, claim: success}]}"
    result = replayed.run(scenario, candidate="twice", deterministic=True)
    assert result.results[0].duplicate_effects >= 1
    verdict = verdict_of(result)
    assert verdict.status == "BLOCK"
    assert "duplicate_effect" in {finding.rule for finding in verdict.findings}


def test_trusting_a_lie_is_a_disproved_claim_and_checking_is_not(replayed):
    lied = REFUND.split("expect:")[0] + (
        "faults: [{fault: lie_success, tool: issue_refund}]\n"
        "  expect: [{type: finalOutcome, claim: failure}]\n"
    )
    result = replayed.run(lied, baseline="checks", candidate="plain", deterministic=True)
    assert [run.conclusion for run in result.runs] == ["passed", "passed", "failed", "failed"]
    assert first(result).trace.outcome.status == "contradicted"
    assert first(result, "baseline").trace.outcome.status == "verified_failure"
    verdict = verdict_of(result)
    assert {"new_critical_failure", "claim_disproved"} <= {one.rule for one in verdict.findings}


def test_a_timeout_leaves_the_outcome_to_the_twin_and_the_effect_to_one(replayed):
    timed_out = """
- id: after
  input: {order: A-1}
  faults: [{fault: timeout_after, tool: issue_refund, when: {callNumber: 1}}]
  expect:
    - {type: state, that: 'count("refunds") == 1'}
    - {type: noDuplicateSideEffect}
- id: before
  input: {order: A-1}
  faults: [{fault: timeout_before, tool: issue_refund, when: {callNumber: 1}}]
  expect: [{type: stateUnchanged}]
"""
    result = replayed.run(timed_out)
    assert [run.conclusion for run in result.runs] == ["passed"] * 4
    unknown = [one for one in first(result).receipts if one.effect == "unknown"]
    assert unknown and unknown[-1].code == "outcome_unknown"


@pytest.mark.parametrize(
    ("decision", "status", "executed"),
    [("approve", "verified_success", 1), ("deny", None, 0), ("none", None, 0)],
)
def test_the_scripted_approver_decides_through_the_real_path(replayed, decision, status, executed):
    scenario = f"""
- id: x
  input: {{order: A-1}}
  approvals:
    - {{tool: issue_refund, arguments: {{amount: 7}}, decision: deny}}
    - {{tool: issue_refund, arguments: {{amount: 49}}, decision: {decision}, by: lead}}
  expect: [{{type: toolCalled, tool: issue_refund, min: {executed}, max: {executed}}}]
"""
    run = first(replayed.run(scenario))
    assert run.conclusion == "passed"
    assert status is None or run.trace.outcome.status == status
    codes = {one.code for one in run.receipts}
    assert "approval_required" in codes
    assert executed == sum(event.tool == "issue_refund" for event in run.events)


@pytest.mark.requirement("TWN-06")
@pytest.mark.row("R63")
def test_a_call_no_twin_declares_voids_the_case_and_nothing_is_concluded(replayed):
    result = replayed.run(REFUND, candidate="stray")
    assert result.results[0].case_class == "void"
    assert (
        "twin_gap" in result.results[0].reasons[0]
        and "/shop/customers/1" in result.results[0].reasons[0]
    )
    verdict = verdict_of(result)
    assert (verdict.status, verdict.exit_code) == (None, 2)
    assert "nothing_evaluated" in {finding.rule for finding in verdict.findings}


def test_a_declared_determinism_is_checked_not_believed(replayed):
    result = replayed.run(REFUND, candidate="random", deterministic=True)
    assert result.results[0].case_class == "flaky"
    assert "step 1" in result.results[0].reasons[0]
    assert (verdict_of(result).status, verdict_of(result).exit_code) == (None, 2)


def test_a_sampled_suite_never_passes_outright(replayed):
    verdict = verdict_of(replayed.run(REFUND))
    assert (verdict.status, verdict.exit_code) == ("WARN", 0)


def test_a_crash_and_a_deadline_fail_the_case_with_what_the_agent_said(replayed):
    result = replayed.run(REFUND, baseline="crash", candidate="sleep", deadline="1s")
    crashed, slept = first(result, "baseline"), first(result)
    assert (crashed.agent.ending, crashed.agent.exit_code) == ("failed", 7)
    assert crashed.agent.stderr_tail == "starting\n"
    assert (slept.agent.ending, slept.agent.exit_code) == ("timed_out", None)
    assert score_of(slept, "agent_completed").status == "fail"
    assert result.results[0].case_class == "incomplete"
    assert result.results[0].reasons == (
        "baseline: the agent failed: exit status 7",
        "candidate: the agent timed out: stopped at its deadline",
    )


ENDINGS = {
    "typo": "cmd:{python} ./no-such-agent.py",
    "crash": "cmd:{python} -c 'raise SystemExit(3)'",
    "sleep": "cmd:{python} -c 'import time; time.sleep(60)'",
    "silent": "cmd:{python} -c ''",
    "flood": "cmd:{python} -c 'while True: print(str(1) * 65536)'",
    "missing": "cmd:./no-such-program",
}


def ref(text):
    text = text.format(python=sys.executable)
    return read_reference(text, option="--candidate", python=sys.executable)


@pytest.mark.requirement("GAT-01")
@pytest.mark.parametrize("ending", ENDINGS)
def test_two_agents_without_an_answer_are_no_evidence(replayed, ending):
    agent = ref(ENDINGS[ending])
    result = replayed.run(REFUND, agent, agent, deterministic=ending != "sleep", deadline="1s")
    verdict = verdict_of(result)
    assert (verdict.status, verdict.exit_code) == (None, 2)
    assert "nothing_evaluated" in {finding.rule for finding in verdict.findings}
    assert verdict.failures[0].detail.startswith("baseline: ")


@pytest.mark.requirement("GAT-01")
@pytest.mark.parametrize("ending", [name for name in ENDINGS if name != "missing"])
def test_a_candidate_alone_without_an_answer_blocks(replayed, ending):
    # The baseline fails the case, but it answers; doing nothing at all would pass it.
    vacuous = "- {id: x, input: {order: A-1}, expect: [{type: stateUnchanged}]}"
    # One deadline is for both: short only where nothing else ends the candidate.
    deadline = "4s" if ending == "sleep" else "30s"
    result = replayed.run(vacuous, "plain", ref(ENDINGS[ending]), deadline=deadline)
    verdict = verdict_of(result)
    assert (verdict.status, verdict.exit_code) == ("BLOCK", 1)
    assert "candidate_crashed" in {finding.rule for finding in verdict.findings}


def test_a_baseline_without_an_answer_leaves_nothing_to_compare_with(replayed):
    result = replayed.run(REFUND, "crash", "plain")
    assert (verdict_of(result).status, verdict_of(result).exit_code) == (None, 2)


def test_a_critical_case_that_fails_with_both_says_so(replayed):
    verdict = verdict_of(replayed.run(REFUND, "blind", "blind", deterministic=True))
    assert (verdict.status, verdict.exit_code) == ("WARN", 0)
    assert "critical_still_failing" in {finding.rule for finding in verdict.findings}


HOSTILE = {
    "deep": "'[' * 20000",
    "nested": "'[' * 900 + ']' * 900",
    "large": "'1' * 40",
    "huge": "'1' * 6000",
    "surrogate": "json.dumps('\\ud800')",
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_what_an_agent_prints_is_never_our_fault(replayed, kind):
    (replayed.folder / "agent.py").write_text(
        f"import json\nprint('{{\"output\": ' + {HOSTILE[kind]} + '}}')\n"
    )
    scenario = "- {id: x, input: 1, expect: [{type: stateUnchanged}]}"
    result = replayed.run(scenario, deterministic=True)
    assert verdict_of(result).status == "PASS"
    output = first(result).agent.output
    assert output == int("1" * 40) if kind == "large" else output.startswith('{"output": ')


def test_an_agent_that_cannot_be_started_voids_the_case(replayed):
    missing = read_reference("cmd:./no-such-agent", option="--candidate", python=sys.executable)
    result = replayed.play(replayed.plan(replayed.suite(REFUND), "plain", missing))
    assert result.results[0].case_class == "void"
    assert "agent_not_started" in result.results[0].reasons[0]


@pytest.mark.row("R18")
def test_cases_give_the_same_in_any_order_and_at_once(replayed):
    many = "\n".join(REFUND.strip().replace("id: refund", f"id: c{number}") for number in range(4))
    plan = replayed.plan(replayed.suite(many, deterministic=True), "plain", "plain")
    there = replayed.play(plan)
    assert {run.conclusion for run in there.runs} == {"passed"}
    assert len({run.digest for run in there.runs}) == 1


def test_a_callable_runs_in_a_process_of_its_own(replayed, monkeypatch):
    (replayed.folder / "shop_agent.py").write_text(
        "import os, sys\n"
        "def answer(request):\n"
        "    print('thinking')\n"
        "    return {'output': f\"{request['input']['order']} {os.getpid()}\"}\n"
        "class Deep:\n"
        "    bad = staticmethod(lambda request: 'text')\n"
    )
    monkeypatch.chdir(replayed.folder)
    suite = replayed.suite(
        "- {id: x, input: {order: A-1}, expect: [{type: outputContains, text: A-1}]}"
    )
    good, bad = (
        read_reference(f"py:shop_agent:{name}", option="--candidate", python=sys.executable)
        for name in ("answer", "Deep.bad")
    )
    result = replayed.play(replayed.plan(suite, good, bad))
    one, other = first(result, "baseline"), first(result)
    assert one.conclusion == "passed" and str(os.getpid()) not in one.agent.output
    assert other.agent.ending == "failed" and "not a mapping" in other.agent.stderr_tail


def test_the_agent_is_named_by_its_token_alone(replayed):
    (replayed.folder / "agent.py").write_text(
        "import json, os, sys, urllib.request, urllib.error\n"
        "base = os.environ['SIDECAR_GATEWAY_URL']\n"
        "opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))\n"
        "def call(**headers):\n"
        "    asked = urllib.request.Request(base + '/shop/orders/A-1', headers=headers)\n"
        "    try:\n"
        "        return opener.open(asked).status\n"
        "    except urllib.error.HTTPError as error:\n"
        "        return error.code\n"
        "key, baggage = os.environ['SIDECAR_AGENT_KEY'], os.environ['BAGGAGE']\n"
        "print(json.dumps({'output': [call(), call(Authorization='Bearer ' + key[:-2]),\n"
        "    call(Authorization='Bearer ' + key),\n"
        "    call(Authorization='Bearer x', Baggage=baggage)]}))\n"
    )
    result = replayed.run(
        "- {id: x, input: 1, expect: [{type: toolCalled, tool: get_order, min: 1}]}"
    )
    run = first(result)
    assert run.agent.output[:3] == [401, 401, 200]
    assert len([event for event in run.events if event.kind == "answered"]) in (1, 2)


def test_the_token_dies_with_its_episode_and_is_kept_nowhere(replayed):
    (replayed.folder / "agent.py").write_text(
        "import os, sys\n"
        "print(os.environ['SIDECAR_GATEWAY_URL'], os.environ['SIDECAR_AGENT_KEY'])\n"
        "sys.stderr.write(os.environ['SIDECAR_AGENT_KEY'])\n"
    )
    run = first(replayed.run("- {id: x, input: 1, expect: [{type: outputContains, text: http}]}"))
    assert run.agent.output.endswith("<token>") and run.agent.stderr_tail == "<token>"


def test_telemetry_of_the_agent_joins_its_receipts(replayed):
    (replayed.folder / "agent.py").write_text(TRACED)
    result = replayed.run(REFUND, deterministic=True)
    run = first(result)
    assert run.conclusion == "passed", [one for one in run.scores if one.status != "pass"]
    kinds = [(step.kind, step.name) for step in run.trace.steps]
    assert ("agent", "invoke_agent refunder") in kinds
    tools = [step for step in run.trace.steps if step.kind == "tool_call"]
    assert [step.tool.name for step in tools] == ["get_order", "issue_refund"]
    assert all({source.kind for source in step.sources} >= {"span", "receipt"} for step in tools)
    assert run.trace.completeness == "complete" and run.trace.service.name == "refunder"
    assert verdict_of(result).status == "PASS", result.results


def test_plain_http_that_is_no_tool_call_is_told_what_to_do(replayed, monkeypatch):
    (replayed.folder / "agent.py").write_text(
        "import json, os, urllib.error, urllib.request\n"
        "key = {'Authorization': 'Bearer ' + os.environ['SIDECAR_AGENT_KEY']}\n"
        "def get(url):\n"
        "    try:\n"
        "        with urllib.request.urlopen(urllib.request.Request(url, headers=key)) as answer:\n"
        "            return answer.status\n"
        "    except urllib.error.HTTPError as error:\n"
        "        return json.loads(error.read())['detail']\n"
        "print(json.dumps({'output': [get('http://model.example/v1/chat'),\n"
        "    get(os.environ['SIDECAR_GATEWAY_URL'] + '/shop/orders/A-1'),\n"
        "    os.environ['NO_PROXY'], os.environ['no_proxy']]}))\n"
    )
    monkeypatch.setenv("NO_PROXY", "one.example")
    monkeypatch.setenv("no_proxy", "two.example,one.example")
    run = first(replayed.run("- {id: x, input: 1, expect: [{type: stateUnchanged}]}"))
    said, status, *direct = run.agent.output
    assert "no forward proxy" in said and "NO_PROXY" in said
    assert status == 200  # proxies are not used for the gateway itself
    assert direct[0] == direct[1] and direct[0].startswith("one.example,two.example,127.0.0.")


TRACED = """\
import json, os, sys, urllib.error, urllib.request
from opentelemetry import propagate, trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

provider = TracerProvider(resource=Resource({"service.name": "refunder"}))
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
tracer = provider.get_tracer("test")
parent = TraceContextTextMapPropagator().extract({"traceparent": os.environ["TRACEPARENT"]})
base = os.environ["SIDECAR_GATEWAY_URL"]
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def call(tool, method, path, body=None, **headers):
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    headers["Authorization"] = "Bearer " + os.environ["SIDECAR_AGENT_KEY"]
    TraceContextTextMapPropagator().inject(headers)
    data = None if body is None else json.dumps(body).encode()
    if data is not None:
        headers["Content-Type"] = "application/json"
    try:
        with opener.open(
            urllib.request.Request(base + path, data=data, method=method, headers=headers)
        ) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def tool(name, arguments, run):
    attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": name,
        "gen_ai.tool.call.arguments": json.dumps(arguments),
    }
    with tracer.start_as_current_span(f"execute_tool {name}", attributes=attributes) as span:
        status, value = run()
        span.set_attribute("gen_ai.tool.call.result", json.dumps(value))
        return value


def refund(order, amount):
    path, body = f"/shop/orders/{order}/refunds", {"amount": amount}
    status, value = call("issue_refund", "POST", path, body, Idempotency_Key="k-" + order)
    if status == 403:
        _, approval = call("", "GET", "/v1/approvals/" + value["approval"]["id"])
        status, value = call(
            "issue_refund", "POST", path, body,
            Idempotency_Key="k-" + order, Approval_Token=approval["token"],
        )
    return status, value


order = json.loads(sys.stdin.readline())["input"]["order"]
attributes = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "refunder"}
with tracer.start_as_current_span("invoke_agent refunder", context=parent, attributes=attributes):
    path = f"/shop/orders/{order}"
    seen = tool("get_order", {"order_id": order}, lambda: call("get_order", "GET", path))
    arguments = {"order_id": order, "amount": seen["total"]}
    done = tool("issue_refund", arguments, lambda: refund(order, seen["total"]))
provider.shutdown()
print(json.dumps({"output": f"I have issued the refund {done['refund_id']} for order {order}."}))
"""


def launch(*code, deadline_s=20.0):
    return Launch(
        argv=(sys.executable, "-c", *code),
        environment=dict(os.environ),
        folder=os.getcwd(),
        deadline_s=deadline_s,
        mark=clock.new_id(),
    )


def test_the_whole_process_group_is_killed_and_its_pipes_do_not_hold_the_run():
    code = (
        "import subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "print(child.pid)\n"
    )
    ended = asyncio.run(run_agent(launch(code), {}))
    assert ended.ending == "completed"
    assert ends(int(ended.output))


FORKS_TWICE = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.setpgid(0, 0)
        with open(sys.argv[1] + ".part", "w") as file:
            file.write(str(os.getpid()))
        os.rename(sys.argv[1] + ".part", sys.argv[1])
        time.sleep(600)
    os._exit(0)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.01)
print('{"output": "done"}', flush=True)
time.sleep(float(sys.argv[2]))
"""


@pytest.mark.parametrize(
    ("stays", "ending"),
    [("0", "completed"), pytest.param("600", "timed_out", marks=pytest.mark.full)],
)
def test_what_left_group_session_and_parent_ends_with_the_run(tmp_path, stays, ending):
    noted = tmp_path / "pid"
    started = time.monotonic()
    ended = asyncio.run(run_agent(launch(FORKS_TWICE, str(noted), stays, deadline_s=3.0), {}))
    assert ended.ending == ending and time.monotonic() - started < 20
    assert ends(int(noted.read_text()))


def test_nothing_an_agent_started_outlives_its_replay(replayed):
    noted = replayed.folder / "pid"
    (replayed.folder / "agent.py").write_text(FORKS_TWICE)
    agent = ref(f"cmd:{{python}} {replayed.folder / 'agent.py'} {noted} 0")
    result = replayed.run("- {id: x, input: 1, expect: [{type: stateUnchanged}]}", agent, agent)
    assert first(result).agent.ending == "completed"
    assert ends(int(noted.read_text()))


def test_a_killed_replay_leaves_no_agent(tmp_path):
    noted = tmp_path / "pid"
    code = (
        "import asyncio, os, sys\n"
        "from sidecar.replay.leftover.process import guarded\n"
        "from sidecar.replay.process import Launch, run_agent\n"
        "launch = Launch(argv=sys.argv[1:], environment=dict(os.environ), folder=os.getcwd(),\n"
        "    deadline_s=600.0, mark=f'{os.getpid()}-test.1')\n"
        "with guarded(f'{os.getpid()}-test'):\n"
        "    asyncio.run(run_agent(launch, {}))\n"
    )
    agent = [sys.executable, "-c", FORKS_TWICE, str(noted), "600"]
    replay = subprocess.Popen([sys.executable, "-c", code, *agent])
    until = time.monotonic() + 20
    while not noted.exists() and time.monotonic() < until:
        time.sleep(0.01)
    replay.kill()
    replay.wait()
    assert ends(int(noted.read_text()))


def ends(pid, *, deadline_s=10.0):
    """Whether the process is gone, or a zombie that nobody has reaped yet, before the deadline."""
    until = time.monotonic() + deadline_s
    while time.monotonic() < until:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return True
        if state == "Z":
            return True
        time.sleep(0.01)
    return False


def test_an_agent_that_floods_its_output_is_ended():
    code = "import sys\nwhile True: sys.stdout.write('x' * 65536)\n"
    ended = asyncio.run(run_agent(launch(code), {}))
    assert ended.ending == "output_too_large"


@pytest.mark.parametrize(
    ("stdout", "value"),
    [
        (b'noise\n{"output": {"a": 1}}\n', {"a": 1}),
        (b"just text\n", "just text"),
        (b'{"other": 1}', '{"other": 1}'),
        (b'{"output": null}\ntrailing', '{"output": null}\ntrailing'),
        (b"", ""),
        (b"\xff", "\ufffd"),
    ],
)
def test_the_answer_is_the_last_line_or_all_of_the_output(stdout, value):
    assert answer(stdout) == value


@pytest.mark.parametrize("text", ["", "cmd:", "cmd:'", "py:module", "url:", "url:ftp://x", "agent"])
def test_a_reference_that_names_no_agent_is_refused(text):
    with pytest.raises(SidecarError, match="--baseline"):
        read_reference(text, option="--baseline", python="python")
