"""An agent that is dice, replayed against itself by the whole command: how often it is blocked."""

import contextlib
import io
import json
import random
from collections import Counter
from pathlib import Path

import pytest
from suite_rig import TWIN

from sidecar.cli import replay

TRIALS = 200
ALLOW_ALL = Path(__file__).parents[3] / "policies" / "examples" / "allow_all"
RATES = (0.5, 0.8, 0.9, 1.0, 0.2, 0.5, 0.8, 1.0, 0.9, 0.5)
"""How often each case passes; the first four are critical."""
_dice = random.Random(0)


def agent(request, call):
    """Looks the order up as often as its case says, and else guesses."""
    if _dice.random() < float(request["input"]):
        call("get_order", {"order_id": "A-1"})
    return "It is open."


def suite():
    text = "suite: dice\ntwins: [twin.yaml]\nscenarios:\n"
    for number, rate in enumerate(RATES):
        severity = "critical" if number < 4 else "major"
        expect = "[{type: toolCalled, tool: get_order}]"
        text += f"  - {{id: c{number}, severity: {severity}, input: '{rate}', expect: {expect}}}\n"
    return text


def verdict(trial):
    _dice.seed(f"itself|{trial}")
    ref, out = f"py:{__name__}:agent", io.StringIO()
    words = ("suite.yaml", "--baseline", ref, "--candidate", ref, "--executor", "inline")
    with contextlib.redirect_stdout(out):
        code = replay.command.main(
            [*words, "--store", f"sqlite:///{trial}", "--output", "json"],
            prog_name="replay",
            standalone_mode=False,
        )
    return code, json.loads(out.getvalue())


@pytest.mark.full
@pytest.mark.requirement("GAT-02")
def test_a_version_is_blocked_against_itself_in_at_most_one_of_twenty_whole_replays(
    tmp_path, monkeypatch
):
    """The command with its rounds of more runs, evidence and all; one agent, one seed a trial."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "twin.yaml").write_text(TWIN)
    (tmp_path / "suite.yaml").write_text(suite())
    (tmp_path / "sidecar.yaml").write_text(f"policy: {{bundle: '{ALLOW_ALL}'}}\n")
    told = Counter()
    for trial in range(TRIALS):
        code, found = verdict(trial)
        assert code == found["exit_code"]
        told[found["status"] or "UNDECIDED"] += 1
    print(dict(told))
    assert told["BLOCK"] <= TRIALS // 20
    assert told["PASS"] == 0  # ten noisy cases show no equality either
    assert told["WARN"] >= TRIALS // 2  # and mostly there is a verdict
