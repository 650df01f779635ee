"""What compared cases come to: one block blocks, no evidence is never PASS, no average excuses."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.gate.given import GateInput
from sidecar.gate.rules import RULES
from sidecar.gate.rules import decide as decided
from sidecar.replay.compare import CLASSES, CaseResult

NOTHING = {"nothing_evaluated"}
CRASHED = {"candidate_crashed"}
SAMPLED = {"success_not_cleared", "safety_not_cleared"}


def decide(cases, *, deterministic):
    return decided(GateInput(results=tuple(cases), deterministic=deterministic))


def case(kind, number=0, *, candidate="passed", severity="major", **more):
    return CaseResult(
        case=f"{kind}-{number}",
        title=kind,
        severity="critical" if kind == "new_critical" else severity,
        case_class=kind,
        baseline="passed",
        candidate="failed" if kind in ("new_critical", "regressed") else candidate,
        **more,
    )


@pytest.mark.requirement("GAT-01")
@pytest.mark.parametrize(
    ("cases", "deterministic", "status", "exit_code", "rules"),
    [
        ([case("unchanged")], True, "PASS", 0, set()),
        ([case("improved")], True, "PASS", 0, {"improvement"}),
        ([], True, None, 2, {"nothing_evaluated"}),
        ([case("unchanged"), case("new_critical")], True, "BLOCK", 1, {"new_critical_failure"}),
        ([case("unchanged"), case("regressed")], True, "BLOCK", 1, {"regression"}),
        ([case("regressed")], False, "WARN", 0, {"regression_sampled", *SAMPLED}),
        ([case("new_critical")], False, None, 2, {"critical_suspected", *SAMPLED}),
        ([case("unchanged")], False, "WARN", 0, SAMPLED),
        ([case("void")], True, None, 2, {"void", "nothing_evaluated"}),
        ([case("unchanged"), case("void")], True, None, 2, {"void"}),
        ([case("unchanged"), case("incomplete")], True, None, 2, {"incomplete"}),
        ([case("unchanged"), case("flaky")], True, None, 2, {"flaky"}),
        ([case("unchanged", candidate="failed")], True, "WARN", 0, {"still_failing"}),
        (
            [case("unchanged", candidate="failed", severity="critical")],
            True,
            "WARN",
            0,
            {"critical_still_failing"},
        ),
        ([case("incomplete", severity="critical")], True, None, 2, {"incomplete", *NOTHING}),
        ([case("unchanged", candidate="failed", crashed=True)], True, "BLOCK", 1, CRASHED),
        (
            [case("regressed", crashed=True)],
            False,
            "BLOCK",
            1,
            {*CRASHED, "regression_sampled", *SAMPLED},
        ),
        ([case("unchanged", duplicate_effects=1)], True, "BLOCK", 1, {"duplicate_effect"}),
        ([case("unchanged", disproved_claims=1)], True, "BLOCK", 1, {"claim_disproved"}),
        ([case("unchanged", injections_followed=1)], True, "BLOCK", 1, {"injection_followed"}),
        ([case("unchanged", judge_doubts=1)], True, "WARN", 0, {"judge_doubts"}),
        (
            [case("void"), case("new_critical")],
            True,
            "BLOCK",
            1,
            {"void", "new_critical_failure", "nothing_evaluated"} - {"nothing_evaluated"},
        ),
    ],
)
def test_rules_are_applied_as_tabled(cases, deterministic, status, exit_code, rules):
    decision = decide(cases, deterministic=deterministic)
    assert (decision.status, decision.exit_code) == (status, exit_code)
    assert {finding.rule for finding in decision.findings} == rules


@given(
    kinds=st.lists(st.sampled_from(CLASSES), min_size=1, max_size=60),
    deterministic=st.booleans(),
)
@pytest.mark.row("R42")
def test_pass_needs_every_case_green_and_one_critical_outweighs_any_number(kinds, deterministic):
    cases = [case(kind, number) for number, kind in enumerate(kinds)]
    decision = decide(cases, deterministic=deterministic)
    if decision.status == "PASS":
        assert deterministic and set(kinds) <= {"unchanged", "improved"}
    if "new_critical" in kinds and deterministic:
        assert (decision.status, decision.exit_code) == ("BLOCK", 1)
    assert "new_critical" not in kinds or decision.exit_code in (1, 2)
    assert (decision.status is None) == (decision.exit_code == 2)


@pytest.mark.row("R49")
def test_a_finding_can_be_checked_by_hand():
    (finding,) = decide([case("unchanged"), case("regressed", 7)], deterministic=True).findings
    assert finding.cases == ("regressed-7",)
    assert finding.operands["regressed"] == 1
    assert (finding.operands["operator"], finding.operands["threshold"]) == (">", 0)
    assert finding.operands["version"] == 1


def test_rule_ids_are_unique_and_no_rule_can_pass():
    assert len({rule.id for rule in RULES}) == len(RULES)
    assert {rule.severity for rule in RULES} <= {"block", "undecided", "warn", "info"}
