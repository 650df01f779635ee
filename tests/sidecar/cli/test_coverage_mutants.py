"""``sidecar coverage --mutants`` through the gateway: agent, twins and policy made wrong."""

import json
from pathlib import Path

import pytest
from suite_rig import TWIN

from sidecar.cli.coverage import command
from sidecar.errors import SidecarError

SUITE = """\
suite: orders
twins: [twin.yaml]
deadline: 30s
scenarios:
  - id: reads
    input: A-1
    expect: [{type: toolCalled, tool: get_order}, {type: outputContains, text: open}]
  - id: fails
    input: A-1
    expect: [{type: outputContains, text: nothing of the kind}]
"""
AGENT = """\
def reader(request, call):
    order = call("get_order", {"order_id": request["input"]}).value
    return "It is open." if order["open"] else "It is shut."
"""
POLICY = Path(__file__).parents[3] / "policies" / "examples" / "allow_all"


@pytest.fixture
def mutants(tmp_path, monkeypatch, capsys):
    (tmp_path / "twin.yaml").write_text(TWIN)
    (tmp_path / "suite.yaml").write_text(SUITE)
    (tmp_path / "reader_of_orders.py").write_text(AGENT)
    (tmp_path / "sidecar.yaml").write_text(f"policy: {{bundle: '{POLICY}'}}\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))

    def run(*words, agent="py:reader_of_orders:reader"):
        words = ("suite.yaml", "--mutants", "--agent", agent, *words)
        code = command.main([*words], prog_name="coverage", standalone_mode=False)
        return code, capsys.readouterr().out

    return run


@pytest.mark.requirement("COV-01")
def test_a_suite_is_run_against_its_mutants_through_the_gateway(mutants):
    code, out = mutants("--output", "json")
    told = json.loads(out)
    assert code == 0, out
    assert told["unusable"].keys() == {"fails"} and told["cases"] == 1
    ends = {one["id"]: one["ending"] for one in told["judged"]}
    assert ends == {
        "duplicate get_order": "equivalent",
        "skip_check get_order": "killed",
        "say_nothing": "killed",
        "disclose": "survived",
        "refuse_always get_order": "killed",
        "deny_instead allow:allow_all": "killed",
    }
    assert (told["killed"], told["survived"], told["score"]) == (4, 1, 0.8)
    survivor = next(one for one in told["judged"] if one["ending"] == "survived")
    assert "noSecretDisclosure" in survivor["would_kill"]
    assert mutants("--output", "json")[1] == out


@pytest.mark.requirement("COV-01")
def test_a_score_below_its_floor_fails_and_survivors_say_what_is_missing(mutants):
    chosen = ("--operator", "disclose", "--operator", "say_nothing", "--target", "agent")
    code, out = mutants(*chosen, "--floor", "mutants=60%")
    assert code == 1
    assert "orders: 1 of 2 mutants killed (50.0%), 0 equivalent, 0 void" in out
    assert "SURVIVED  disclose: adds what it read last to its answer (in 1 cases)" in out
    assert "would be killed by: noSecretDisclosure" in out and "left out  fails" in out
    page = mutants(*chosen, "--output", "markdown")[1]
    assert "| say_nothing | 1 | 0 | 0 | 0 |" in page and "## Survivors" in page


@pytest.mark.requirement("COV-01")
def test_mutants_need_a_suite_and_an_agent(mutants):
    with pytest.raises(SidecarError, match="one suite and one agent"):
        mutants("suite.yaml")


@pytest.mark.requirement("COV-01")
def test_where_no_case_passes_as_it_is_nothing_can_be_said(mutants, tmp_path):
    (tmp_path / "silent_reader.py").write_text("def reader(request, call):\n    return ''\n")
    chosen = ("--operator", "refuse_always", "--floor", "mutants=0")
    code, out = mutants(*chosen, agent="py:silent_reader:reader")
    assert code == 2
    assert "0 cases" in out and "left out  reads" in out
