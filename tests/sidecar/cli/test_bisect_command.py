"""``sidecar bisect`` at the command line: its three forms, its exit codes, what it says."""

import json
import os
import pty
import subprocess
import sys

import pytest
from click.testing import CliRunner
from history_rig import CHECK, line_of

from sidecar.cli.root import root

pytestmark = pytest.mark.requirement("BIS-01")
KEYS = (
    *("outcome", "profile", "exit_code", "reason", "why", "culprit", "last_good", "suspects"),
    *("first_divergence", "posterior", "contradictions", "skipped", "method", "rate", "points"),
    *("runs", "resumed", "probes", "seed", "dirty", "repro"),
)


@pytest.fixture(scope="module")
def repo(tmp_path_factory):
    folder = tmp_path_factory.mktemp("repo")
    commits = line_of(8, 5, broken=(2,))
    commits.subjects[5] = "Shorten <b>the</b> | *prompt* \x1b[31m"
    return folder, commits.write(folder)


def run(repo, *more, command=CHECK, good=0):
    folder, ids = repo
    ends = ["--repo", str(folder), "--good", ids[good], "--bad", ids[-1], "--monotone", "1"]
    return CliRunner().invoke(root, ["bisect", *ends, *more, "--", *command], standalone_mode=False)


def test_text_has_the_answer_first_and_how_to_see_it_again(repo):
    result = run(repo)
    lines = result.stdout.splitlines()
    assert result.return_value == 0
    assert lines[0].startswith(f"found: {repo[1][5][:12]} Shorten <b>the</b>")
    assert lines[1] == f"  last good: {repo[1][4][:12]} Commit 4"
    assert "\x1b" not in result.stdout
    again = lines[-1].removeprefix("  again: ")
    assert f"--good {repo[1][4]} --bad {repo[1][5]}" in again


@pytest.mark.full
def test_what_it_says_to_run_again_finds_the_same(repo):
    again = json.loads(run(repo, "--output", "json").stdout)["repro"]
    line = again.replace("sidecar", f"{sys.executable} -P -m sidecar", 1)
    said = subprocess.run(line, shell=True, capture_output=True, text=True, check=True).stdout
    assert said.startswith(f"found: {repo[1][5][:12]}")
    assert "4 runs for 1 suspects" in said


def test_json_has_its_fixed_keys(repo):
    value = json.loads(run(repo, "--output", "json").stdout)
    assert tuple(value) == KEYS
    assert (value["outcome"], value["profile"], value["exit_code"]) == ("found", "ci", 0)
    assert value["posterior"] == [{**value["culprit"], "probability": 1.0}]
    assert value["probes"][0]["purpose"] == "end"


def test_markdown_is_a_section_that_no_subject_breaks(repo):
    said = run(repo, "--output", "markdown").stdout
    assert said.startswith("## Bisection\n")
    rows = [line for line in said.splitlines() if line.startswith("| ")]
    assert len(rows) > 5
    assert all(line.replace("\\|", "").count("|") == 5 for line in rows)
    assert "<b>" not in said.replace("\\<b\\>", "")


@pytest.mark.parametrize(("profile", "code"), [("ci", 2), ("git", 125), ("gate-s0", 3)])
@pytest.mark.row("R56")
def test_inconclusive_is_neither_green_nor_an_error(repo, profile, code):
    never = ("/bin/sh", "-c", "exit 0")
    result = run(repo, "--profile", profile, "--output", "json", command=never)
    value = json.loads(result.stdout)
    assert result.return_value == value["exit_code"] == code
    assert (value["outcome"], value["reason"]) == ("inconclusive", "not_reproduced")
    assert "bad end" in result.stderr


def test_where_nothing_between_can_be_tested_the_suspects_are_told(repo):
    skip = ("/bin/sh", "-c", "case $(cat number) in 0) exit 0;; 7) exit 1;; *) exit 125;; esac")
    result = run(repo, command=skip)
    assert result.return_value == 2
    assert result.stdout.startswith("inconclusive: what lies between cannot be tested")
    assert "one of these 7" in result.stdout


@pytest.mark.full
def test_the_method_bayes_tells_the_rate_and_the_posterior(repo):
    result = run(repo, "--method", "bayes", "--measure", "8", command=CHECK)
    assert result.return_value == 0
    assert "reproduction rate 8 of 8" in result.stdout
    assert result.stdout.startswith(f"found: {repo[1][5][:12]}")


def test_an_oracle_at_fault_is_ours_to_say(repo):
    result = run(repo, "--fresh", command=("/bin/sh", "-c", "echo out of memory; exit 137"))
    assert result.return_value == 3
    assert "the oracle is at fault: exit status 137" in result.stderr
    assert "out of memory" in result.stderr
    assert result.stdout.startswith("inconclusive: the oracle is at fault")


@pytest.mark.full
def test_a_terminal_sees_progress_and_a_pipe_none(repo):
    folder, ids = repo
    line = [sys.executable, "-P", "-m", "sidecar", "bisect", "--repo", folder, "--good", ids[4]]
    line += ["--bad", ids[5], "--monotone", "0", "--", *CHECK]
    ours, theirs = pty.openpty()
    seen = subprocess.run(line, stdout=subprocess.PIPE, stderr=theirs, text=True, check=True)
    os.close(theirs)
    drawn = os.read(ours, 65536).decode()
    os.close(ours)
    assert "verify" in drawn and "Commit 4" in drawn
    silent = subprocess.run(line, capture_output=True, text=True, check=True)
    assert silent.stderr == ""
    assert silent.stdout == seen.stdout
