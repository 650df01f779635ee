"""A gate.yaml: read whole or refused with every problem, and never able to make the gate milder."""

import pytest
from sampled_rig import FAILED, PASSED, case, given, result

from sidecar.errors import SidecarError
from sidecar.gate.files import read_policy
from sidecar.gate.given import GateInput
from sidecar.gate.policy import GatePolicy, Protected, in_force, policy_problems
from sidecar.gate.rules import RULES, decide

NOW = 1_796_083_200 * 10**9  # 2026-12-01
WHOLE = """\
gate: "1"
owner: release-team
alpha: 0.05
protected:
  - {metric: success, margin: 0.03, detect: 0.1, owner: quality}
  - {metric: safety, margin: 0.005, detect: 0.05, owner: security}
rules:
  still_failing: {severity: block, owner: support}
  novel_failures: {threshold: 0.02}
quarantine:
  - {case: slow-refund, owner: payments, until: 2026-12-31, reason: the shop is slow}
composite: {weights: {success: 1, safety: 1, rubric: 0}, warn_below: 0.8}
tokens: 20000
noise:
  suite_digest: "sha256:1"
  agent: "cmd:a"
  pairs: 100
  differing: 0.1
  differing_upper: 0.16
  unigrams: 0.05
  bigrams: 0.1
"""
BROKEN = """\
gate: "2"
alpha: 1.5
runs: [7, 3]
protected:
  - {metric: safety, margin: 0.2, detect: 0.1}
rules:
  regression: {severity: warn}
  no_such_rule: {owner: x}
  flaky: {threshold: 0.5}
quarantine:
  - {case: a, owner: " ", until: soon}
composite: {weights: {success: 0, safety: 0, rubric: 0}}
"""


def written(tmp_path, text):
    path = tmp_path / "gate.yaml"
    path.write_text(text)
    return path


def test_a_whole_policy_is_read_and_its_digest_is_its_own(tmp_path):
    policy = read_policy(written(tmp_path, WHOLE), NOW)
    assert policy.protected[1].owner == "security" and policy.quarantine[0].case == "slow-refund"
    assert policy.digest() != GatePolicy().digest()
    assert policy.digest() == read_policy(written(tmp_path, WHOLE), NOW).digest()


@pytest.mark.requirement("GAT-02")
def test_every_problem_is_told_with_its_line(tmp_path):
    with pytest.raises(SidecarError) as raised:
        read_policy(written(tmp_path, BROKEN), NOW)
    told = str(raised.value)
    for line, words in (
        (1, "no version"),
        (2, "between 0.001 and 0.2"),
        (3, "rising numbers"),
        (5, "names success"),
        (5, "margin < detect"),
        (7, "milder than block"),
        (8, "no rule 'no_such_rule'"),
        (9, "is fixed"),
        (11, "belongs to somebody"),
        (11, "no date"),
        (12, "not all nothing"),
    ):
        assert words in told, words
        assert f"gate.yaml:{line}" in told


def test_what_is_no_key_no_text_or_not_there_is_refused(tmp_path):
    with pytest.raises(SidecarError, match="excuse"):
        read_policy(written(tmp_path, "gate: '1'\nexcuse: all\n"), NOW)
    path = tmp_path / "b.yaml"
    path.write_bytes(b"\xff")
    with pytest.raises(SidecarError, match="UTF-8"):
        read_policy(path, NOW)
    with pytest.raises(SidecarError, match="cannot be read"):
        read_policy(tmp_path / "none.yaml", NOW)


@pytest.mark.requirement("CMP-01")
def test_a_quarantine_holds_through_its_last_day(tmp_path):
    policy = read_policy(written(tmp_path, WHOLE), NOW)
    assert in_force(policy, "2026-12-31") == {"slow-refund": True}
    assert in_force(policy, "2027-01-01") == {"slow-refund": False}


def test_a_rule_that_was_made_graver_is(tmp_path):
    policy = read_policy(written(tmp_path, WHOLE), NOW)
    still = result(case("c", (FAILED,), (FAILED,)))
    decision = decide(GateInput(results=(still,), deterministic=True, policy=policy))
    assert decision.status == "BLOCK"
    assert decision.findings[0].operands["owner"] == "support"


@pytest.mark.requirement("GAT-02")
@pytest.mark.parametrize(
    "text",
    [
        "alpha: 0.9",
        "alpha: 1.0e-300",
        "power: 0.9999999",
        "latency_ms: -1",
        "tokens: -1",
        "protected: [{metric: success}]",
        "protected: [{metric: success, margin: 0.998, detect: 1}, {metric: safety}]",
        "protected: [{metric: success, margin: 1.0e-300}, {metric: safety}]",
        "protected: [{metric: success, margin: 0.1, detect: 0.10000001}, {metric: safety}]",
        "quarantine: [{case: a, owner: x, until: 9999-12-31}]",
        "quarantine: [{case: a, owner: x, until: 2027-03-02}]",
        "quarantine: [{case: a, owner: x, until: 2026-12-31}, {case: a, owner: x,"
        " until: 2027-01-01}]",
        "composite: {weights: {success: 1.0e+308}}",
        "noise: {suite_digest: a, agent: b, pairs: 9, differing: 0, differing_upper: 9,"
        " unigrams: 0, bigrams: 0}",
        "noise: {suite_digest: a, agent: b, pairs: 0, differing: 0, differing_upper: 0,"
        " unigrams: 0, bigrams: 0}",
    ],
)
def test_a_number_that_would_turn_a_rule_off_is_refused(tmp_path, text):
    with pytest.raises(SidecarError, match=r"gate\.yaml:1: "):
        read_policy(written(tmp_path, text + "\n"), NOW)


def test_a_quarantine_of_ninety_days_is_one(tmp_path):
    text = "quarantine: [{case: a, owner: x, until: 2027-03-01}]\n"
    assert read_policy(written(tmp_path, text), NOW).quarantine


LOOSEST = GatePolicy(
    alpha=0.2,
    runs=(),
    protected=(
        Protected(metric="success", margin=0.2, detect=1.0),
        Protected(metric="safety", margin=0.2, detect=1.0),
    ),
)
TIGHTEST = GatePolicy(
    alpha=0.001,
    power=0.999,
    protected=(
        Protected(metric="success", margin=0.0001, detect=0.0011),
        Protected(metric="safety", margin=0.0, detect=0.001),
    ),
)


@pytest.mark.requirement("GAT-02")
@pytest.mark.parametrize("policy", [LOOSEST, TIGHTEST])
def test_at_the_ends_of_what_may_be_moved_the_gate_still_decides(policy):
    severities = {one.id: one.severity for one in RULES}
    assert not list(policy_problems(policy, severities, "2026-12-01"))
    (one,) = (case("c", (PASSED,), (PASSED,)),)
    assert decide(given([one], policy)).status == "WARN"  # one run shows nothing harmless
    worse = [case(f"c{at}", (PASSED,), (FAILED,)) for at in range(50)]
    assert decide(given(worse, policy)).status == "BLOCK"
    mixed = [case(f"c{at}", (PASSED,), (FAILED if at % 5 else PASSED,)) for at in range(5)]
    assert decide(given(mixed, policy)).status != "PASS"
    assert decide(given([], policy)).status is None


@pytest.mark.requirement("GAT-02")
@pytest.mark.parametrize("runs", [(), (2,), (3,)])
def test_a_policy_without_further_runs_leaves_a_critical_case_undecided(runs):
    before, now = (PASSED,) * 2, (PASSED, FAILED)
    decision = decide(given([case("c", before, now, severity="critical")], GatePolicy(runs=runs)))
    assert decision.status is None
    assert "critical_suspected" in {one.rule for one in decision.findings}
