"""A gate's policy may set a floor under what a suite tries: below it the gate warns."""

import pytest
from msgspec import structs
from sampled_rig import PASSED, case, result

from sidecar.errors import SidecarError
from sidecar.gate.files import read_policy
from sidecar.gate.given import GateInput
from sidecar.gate.policy import GatePolicy
from sidecar.gate.rules import decide

NOW = 1_796_083_200 * 10**9  # 2026-12-01
FLOORS = "coverage: [{tool: pay, cases: 2}, {tool: mail}]\n"


def decided(policy, *tools, voided=()):
    own = structs.replace(PASSED, tools=("pay", "mail", "look"))
    cases = [
        case(f"c{number}", (own,), (structs.replace(PASSED, tools=called),))
        for number, called in enumerate(tools)
    ]
    cases += [
        case(f"v{number}", (own,), (structs.replace(PASSED, tools=called, passed=None),))
        for number, called in enumerate(voided)
    ]
    return decide(
        GateInput(
            results=tuple(result(one) for one in cases),
            deterministic=True,
            samples=tuple(cases),
            policy=policy,
        )
    )


def short(decision):
    return [one for one in decision.findings if one.rule == "coverage_shortfall"]


@pytest.mark.requirement("COV-01", "GAT-01")
def test_a_tool_that_is_called_in_too_few_cases_warns_and_names_it(tmp_path):
    path = tmp_path / "gate.yaml"
    path.write_text(FLOORS)
    policy = read_policy(path, NOW)
    held = decided(policy, ("pay", "mail"), ("pay",))
    assert (held.status, short(held)) == ("PASS", [])
    few = decided(policy, ("pay", "pay"), ("look",))
    (finding,) = short(few)
    assert few.status == "WARN"
    assert "pay: 1 of 2 cases; mail: 0 of 1 cases" in finding.detail
    assert finding.operands["remedy"].startswith("sidecar coverage")


@pytest.mark.requirement("COV-01")
def test_runs_that_show_nothing_cover_nothing_and_without_a_floor_nothing_is_asked():
    policy = GatePolicy()
    assert short(decided(policy, ("look",))) == []
    assert "coverage_short" not in {one.name for one in decided(policy, ("look",)).measures}


@pytest.mark.requirement("COV-01")
def test_a_void_run_covers_nothing(tmp_path):
    path = tmp_path / "gate.yaml"
    path.write_text("coverage: [{tool: mail}]\n")
    assert short(decided(read_policy(path, NOW), ("pay",), voided=[("mail",)]))


@pytest.mark.parametrize(
    "text",
    [
        "coverage: [{tool: a, cases: 0}]",
        "coverage: [{tool: ''}]",
        "coverage: [{tool: a}, {tool: a}]",
    ],
)
def test_a_floor_that_asks_nothing_is_refused(tmp_path, text):
    path = tmp_path / "gate.yaml"
    path.write_text(text + "\n")
    with pytest.raises(SidecarError, match=r"gate\.yaml:1: "):
        read_policy(path, NOW)
