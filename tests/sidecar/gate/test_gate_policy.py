"""A gate.yaml: read whole or refused with every problem, and never able to make the gate milder."""

import pytest
from sampled_rig import FAILED, case, result

from sidecar.errors import SidecarError
from sidecar.gate.files import read_policy
from sidecar.gate.given import GateInput
from sidecar.gate.policy import GatePolicy, in_force
from sidecar.gate.rules import decide

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
    policy = read_policy(written(tmp_path, WHOLE))
    assert policy.protected[1].owner == "security" and policy.quarantine[0].case == "slow-refund"
    assert policy.digest() != GatePolicy().digest()
    assert policy.digest() == read_policy(written(tmp_path, WHOLE)).digest()


@pytest.mark.requirement("GAT-02")
def test_every_problem_is_told_with_its_line(tmp_path):
    with pytest.raises(SidecarError) as raised:
        read_policy(written(tmp_path, BROKEN))
    told = str(raised.value)
    for line, words in (
        (1, "no version"),
        (2, "between 0 and 1"),
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
        read_policy(written(tmp_path, "gate: '1'\nexcuse: all\n"))
    path = tmp_path / "b.yaml"
    path.write_bytes(b"\xff")
    with pytest.raises(SidecarError, match="UTF-8"):
        read_policy(path)
    with pytest.raises(SidecarError, match="cannot be read"):
        read_policy(tmp_path / "none.yaml")


@pytest.mark.requirement("CMP-01")
def test_a_quarantine_holds_through_its_last_day(tmp_path):
    policy = read_policy(written(tmp_path, WHOLE))
    assert in_force(policy, "2026-12-31") == {"slow-refund": True}
    assert in_force(policy, "2027-01-01") == {"slow-refund": False}


def test_a_rule_that_was_made_graver_is(tmp_path):
    policy = read_policy(written(tmp_path, WHOLE))
    still = result(case("c", (FAILED,), (FAILED,)))
    decision = decide(GateInput(results=(still,), deterministic=True, policy=policy))
    assert decision.status == "BLOCK"
    assert decision.findings[0].operands["owner"] == "support"
