"""Callables that are handed their tools: through the gateway where a policy is configured."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
TWIN = """\
twin: shop
entities:
  orders: {key: id, rows: [{id: A-1, total: 49, refunded: 0}]}
tools:
  - name: issue_refund
    match: {method: POST, path: "/orders/{order_id}/refunds"}
    class: irreversible
    effect_key: arguments.order_id
    effects:
      - {op: increment, entity: orders, key: arguments.order_id, field: refunded, by: 49}
    response: {status: 201, body: {done: true}}
"""
SUITE = """\
suite: refunds
twins: [twin.yaml]
deterministic: true
scenarios:
  - id: approved
    severity: critical
    input: A-1
    approvals: [{decision: approve, by: lead}]
    expect: [{type: approvalRequired, tool: issue_refund}, {type: outputContains, text: "201"}]
  - id: denied
    severity: critical
    input: A-1
    approvals: [{decision: deny, by: lead}]
    expect: [{type: toolNotCalled, tool: issue_refund, status: executed}]
"""
AGENT = """\
def refund(request, call):
    found = call("issue_refund", {"order_id": request["input"], "amount": 49})
    return {"output": f"answered {found.status}"}
"""


@pytest.fixture
def shell(tmp_path):
    for name, text in (("twin.yaml", TWIN), ("suite.yaml", SUITE), ("agent.py", AGENT)):
        (tmp_path / name).write_text(text)
    (tmp_path / "other.py").write_text(
        "import json\njson.loads(input())\nprint(json.dumps({'output': 'answered 201'}))\n"
    )

    def run(*words, bundle=""):
        policy = f"policy: {{bundle: {ROOT / bundle}}}\n" if bundle else ""
        (tmp_path / "sidecar.yaml").write_text(policy)
        return subprocess.run(
            [sys.executable, "-P", "-m", "sidecar", "replay", "suite.yaml", *words],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=120,
        )

    return run


BOTH = ("--baseline", "py:agent:refund", "--candidate", "py:agent:refund", "--output", "json")


@pytest.mark.requirement("CMP-01")
def test_where_a_policy_is_configured_it_decides_about_a_callables_calls(shell):
    done = shell(*BOTH, bundle="policies")
    assert done.stdout, done.stderr
    verdict = json.loads(done.stdout)
    assert (done.returncode, verdict["status"]) == (0, "PASS"), done.stdout + done.stderr
    assert verdict["evidence"]["policy_revision"] and "unexercised" not in verdict["evidence"]


@pytest.mark.full
def test_without_one_callables_run_on_the_twins_and_the_verdict_says_what_took_no_part(shell):
    done = shell(*BOTH)
    assert done.stdout, done.stderr
    verdict = json.loads(done.stdout)
    # Nobody approves and nobody denies: the one cannot be told, the other was done.
    assert [one["class"] for one in verdict["evidence"]["cases"]] == ["incomplete", "unchanged"]
    said = "policy, limits and approvals were not exercised"
    assert said in verdict["evidence"]["unexercised"][0]
    text = shell(*BOTH[:4], "--executor", "inline")
    assert f"note      {said}" in text.stdout


@pytest.mark.full
def test_one_may_say_which_way_and_beside_a_process_there_is_only_one(shell):
    done = shell(*BOTH, "--through", "gateway")
    assert json.loads(done.stdout)["status"] == "PASS", done.stderr
    process = ("--baseline", f"cmd:{sys.executable} other.py", *BOTH[2:])
    mixed = shell(*process)
    assert mixed.stdout, mixed.stderr
    cases = json.loads(mixed.stdout)["evidence"]["cases"]
    assert [one["candidate"] for one in cases] == ["passed", "passed"]
    refused = shell(*process, "--through", "twins")
    assert refused.returncode == 3 and "--through twins" in refused.stderr
