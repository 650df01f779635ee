"""A suite's replay started from code: the command's own path, and its verdict as a record."""

import json
import sys

import pytest
from click.testing import CliRunner
from suite_rig import AGENT, SUITE, TWIN

from sidecar.cli.root import root
from sidecar.errors import SidecarError
from sidecar.testing import suites

pytestmark = pytest.mark.requirement("SDK-01")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    for name, content in (("twin.yaml", TWIN), ("suite.yaml", SUITE), ("agent.py", AGENT)):
        (tmp_path / name).write_text(content)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refs(baseline, candidate):
    command = f"cmd:{sys.executable} agent.py"
    return {"baseline": f"{command} {baseline}", "candidate": f"{command} {candidate}"}


def test_a_candidate_is_judged_and_the_gate_finds_its_verdict(folder):
    verdict = suites.replay(folder / "suite.yaml", **refs("good", "bad"), evidence=folder / "proof")
    assert verdict.status == "BLOCK" and verdict.counts["new_critical"] == 1
    assert suites.text(verdict).startswith("BLOCK")
    assert "::error" in suites.text(verdict, "github")
    assert [one.name for one in (folder / "proof").iterdir()] == [verdict.verdict_id]
    shown = CliRunner().invoke(
        root, ["gate", "show", verdict.verdict_id, "--output", "json"], standalone_mode=False
    )
    assert json.loads(shown.output)["digest"] == verdict.digest


def test_what_cannot_be_run_is_undecided_or_says_what_is_wrong(folder):
    verdict = suites.replay("suite.yaml", baseline="cmd:./absent", candidate="cmd:./absent")
    assert verdict.status is None
    with pytest.raises(SidecarError, match="twin"):
        suites.replay("suite.yaml", **refs("good", "good"), twins=["twin.yaml"])
    with pytest.raises(SidecarError):
        suites.replay("absent.yaml", **refs("good", "good"))
