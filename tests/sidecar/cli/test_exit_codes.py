"""Outcome by profile by command: what the table says is what the processes do."""

import json
import os
import signal
import subprocess
import sys
import textwrap

import click
import pytest

from sidecar import __main__ as entry
from sidecar.cli.root import root
from sidecar.outcome import PROFILES, Exits, Outcome
from sidecar.tape.compose import Fact
from sidecar.tape.files import TapeWriter
from sidecar.tape.model import Header

# Every command that gives a verdict on a tape has the profiles.
GROUPS = ("tape", "bisect", "gallery", "replay")
ASSERTIONS = "assertions:\n  - {spec: never_calls, args: {tools: [%s]}}\n"


def verdicts(group=root, path=()):
    """Commands of the groups, as words."""
    context = click.Context(group)
    for name in group.list_commands(context):
        if not path and name not in GROUPS:
            continue
        one = group.get_command(context, name)
        if isinstance(one, click.Group):
            yield from verdicts(one, (*path, name))
        else:
            yield (*path, name)


COMMANDS = list(verdicts())


@pytest.fixture(scope="module")
def tapes(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tapes")
    for name in ("one", "other"):
        with TapeWriter(folder / f"{name}.tape", Header(tape_id=name)) as writer:
            writer.event(Fact(kind="tool_call", seam="tool", name="pay", input={"of": name}))
            writer.event(Fact(kind="terminal", status="ok", output={}))
            writer.seal()
    whole = (folder / "one.tape").read_bytes()
    (folder / "partial.tape").write_bytes(whole[:-40])
    (folder / "broken.tape").write_bytes(whole.replace(b'"of":"one"', b'"of":"two"'))
    (folder / "later.tape").write_bytes(whole.replace(b"tape/1.0.0", b"tape/2.0.0"))
    (folder / "none.tape").write_text("no tape\n")
    (folder / "holds.yaml").write_text(ASSERTIONS % "refund")
    (folder / "fails.yaml").write_text(ASSERTIONS % "pay")
    (folder / "cassette.yaml").write_text("interactions: []\nversion: 1\n")
    return folder


def ends(monkeypatch, capsys, *arguments):
    """How a command line ends, and what it prints: all of the entry, without its process."""
    line = ["sidecar", *map(str, arguments)]
    monkeypatch.setattr(sys, "argv", line)
    code = entry._run(entry.exits_of(line[1:]))
    return int(code), capsys.readouterr()


def process(*arguments, **more):
    return subprocess.run(
        [sys.executable, "-P", "-m", "sidecar", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=60,
        **more,
    )


@pytest.mark.requirement("XIT-01")
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_usage_error_of_every_command_has_its_profiles_code(command, monkeypatch, capsys):
    for profile in PROFILES:
        code, said = ends(monkeypatch, capsys, *command, "--profile", profile, "--nonsense")
        assert code == Exits(profile=profile).code(Outcome.USAGE) != 2
        assert said.out == "" and "nonsense" in said.err
    code, _ = ends(monkeypatch, capsys, *command, "--profile", "nonsense")
    assert code == 3
    code, said = ends(monkeypatch, capsys, *command, "--help")
    assert code == 0 and "--profile" in said.out


CASES = [
    (Outcome.OK, "tape", "show", "one.tape"),
    (Outcome.OK, "tape", "show", "one.tape", "--event", "0"),
    (Outcome.OK, "tape", "show", "partial.tape"),
    (Outcome.USAGE, "tape", "show", "none.tape"),
    (Outcome.UNDECIDED, "tape", "show", "later.tape"),
    (Outcome.OK, "tape", "verify", "one.tape"),
    (Outcome.FAILED, "tape", "verify", "broken.tape", "one.tape"),
    (Outcome.UNDECIDED, "tape", "verify", "partial.tape"),
    (Outcome.UNDECIDED, "tape", "verify", "later.tape"),
    (Outcome.USAGE, "tape", "verify", "none.tape"),
    (Outcome.OK, "tape", "diff", "one.tape", "one.tape"),
    (Outcome.FAILED, "tape", "diff", "one.tape", "other.tape"),
    (Outcome.UNDECIDED, "tape", "diff", "one.tape", "partial.tape"),
    (Outcome.USAGE, "tape", "diff", "one.tape", "none.tape"),
    (Outcome.OK, "tape", "assert", "one.tape", "--assertions", "holds.yaml"),
    (Outcome.FAILED, "tape", "assert", "one.tape", "--assertions", "fails.yaml"),
    (Outcome.UNDECIDED, "tape", "assert", "partial.tape", "--assertions", "holds.yaml"),
    (Outcome.UNDECIDED, "tape", "assert", "later.tape", "--assertions", "holds.yaml"),
    (Outcome.USAGE, "tape", "assert", "none.tape", "--assertions", "holds.yaml"),
    (Outcome.USAGE, "tape", "assert", "one.tape", "--assertions", "absent.yaml"),
    (Outcome.UNDECIDED, "tape", "migrate", "broken.tape", "--to", "new.tape"),
    (Outcome.USAGE, "tape", "migrate", "none.tape", "--to", "new.tape"),
    (Outcome.OK, "tape", "import", "cassette.yaml", "--format", "vcr", "--to", "made"),
    (Outcome.FAILED, "tape", "import", "none.tape", "--format", "vcr", "--to", "made"),
    (Outcome.USAGE, "replay", "absent.yaml", "--candidate", "cmd:true"),
    (Outcome.USAGE, "replay", "absent.yaml", "--candidate", "nonsense"),
]


@pytest.mark.requirement("XIT-01")
@pytest.mark.parametrize("case", CASES, ids=lambda case: " ".join(case[1:]))
def test_an_outcome_of_a_command_has_its_code_in_every_profile(tapes, case, monkeypatch, capsys):
    outcome, *arguments = case
    monkeypatch.chdir(tapes)
    for profile in PROFILES:
        for made in (tapes / "made").glob("*.tape"):
            made.unlink()
        line = (*arguments, "--profile", profile, "--output", "json")
        code, said = ends(monkeypatch, capsys, *line)
        assert code == Exits(profile=profile).code(outcome), said.err
        if said.out:
            told = json.loads(said.out)
            assert told["outcome"]
            assert (told["profile"], told["exit_code"]) == (profile, code)


@pytest.mark.requirement("XIT-01")
def test_bisect_is_of_git_alone(monkeypatch, capsys):
    for command in COMMANDS:
        _, said = ends(monkeypatch, capsys, *command, "--help")
        if "--bisect" in said.out:
            code, said = ends(monkeypatch, capsys, *command, "x", "--bisect")
            assert code == 3 and "--bisect" in said.err


# What goes wrong inside a command: each of these is nobody's verdict.
FAULTS = {
    "an exception": "raise KeyError('secret')",
    "a number that was asked for": "sys.exit(2)",
    "another number": "sys.exit(0)",
    "an interrupt": "raise KeyboardInterrupt",
    "no memory": "raise MemoryError",
    "no end of calls": "f = lambda: f(); f()",
}
DEATHS = {
    "killed": "os.kill(os.getpid(), signal.SIGKILL)",
    "a fault of the machine": "os.kill(os.getpid(), signal.SIGSEGV)",
    "ended at once": "os._exit(2 + 124)",
    "as a shell says killed": "os._exit(137)",
    "a number of Python's": "os._exit(1)",
}
BROKEN = """
import os, signal, sys
import sidecar.cli.tape as tape
def fault(*_, **__):
    {fault}
tape.examine = fault
sys.orig_argv[:] = [sys.executable, "-P", __file__, *sys.argv[1:]]
from sidecar.__main__ import main
main()
"""


@pytest.fixture
def broken(tmp_path, tapes):
    def run(fault, *profile):
        script = tmp_path / "broken.py"
        script.write_text(BROKEN.format(fault=fault))
        line = [sys.executable, "-P", script, "tape", "verify", tapes / "one.tape", *profile]
        path = os.pathsep.join(filter(None, [os.getcwd(), os.environ.get("PYTHONPATH")]))
        return subprocess.run(
            line, capture_output=True, text=True, timeout=60, env={**os.environ, "PYTHONPATH": path}
        )

    return run


@pytest.mark.requirement("XIT-01")
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_ours_never_looks_like_a_verdict(tapes, fault, monkeypatch, capsys):
    def broken(*_, **__):
        exec(textwrap.dedent(FAULTS[fault]), {"sys": sys})

    monkeypatch.setattr("sidecar.cli.tape.examine", broken)
    for profile in PROFILES:
        line = ("tape", "verify", tapes / "one.tape", "--profile", profile)
        code, said = ends(monkeypatch, capsys, *line)
        assert code == Exits(profile=profile).code(Outcome.INTERNAL) not in (0, 1, 2)
        assert said.out == "" and said.err
        assert "Traceback" not in said.err and "secret" not in said.err


@pytest.mark.full
@pytest.mark.requirement("XIT-01")
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_a_process_of_its_own_ends_it_so(broken, fault):
    for profile, code in (("ci", 3), ("git", 125)):
        done = broken(FAULTS[fault], "--profile", profile)
        assert done.returncode == code, done.stderr
        assert done.stdout == "" and "Traceback" not in done.stderr and "secret" not in done.stderr


@pytest.mark.requirement("XIT-01")
@pytest.mark.parametrize(
    "death",
    [one if one == "killed" else pytest.param(one, marks=pytest.mark.full) for one in DEATHS],
)
def test_under_git_the_death_of_the_process_is_a_skip(broken, death):
    done = broken(DEATHS[death], "--profile", "git")
    assert done.returncode == 125 and "no verdict" in done.stderr


@pytest.mark.requirement("XIT-01")
def test_under_git_a_process_that_is_asked_to_end_is_a_skip(tmp_path, tapes):
    fifo = tmp_path / "waits"
    os.mkfifo(fifo)
    started = subprocess.Popen(
        [sys.executable, "-P", "-m", "sidecar", "tape", "verify", fifo, "--profile", "git"],
        stderr=subprocess.PIPE,
    )
    # It is there once it reads; nobody writes, so it would wait for ever.
    with open(fifo, "wb"):
        started.send_signal(signal.SIGTERM)
        _, errors = started.communicate(timeout=30)
    assert started.returncode == 125, errors


@pytest.mark.requirement("XIT-01")
def test_real_processes_exit_so(tapes):
    for outcome, *arguments in (
        (Outcome.FAILED, "tape", "diff", "one.tape", "other.tape"),
        (Outcome.USAGE, "tape", "diff", "one.tape"),
    ):
        for profile in ("ci", "git") if outcome is Outcome.USAGE else ("gate-s0",):
            done = process(*arguments, "--profile", profile, cwd=tapes)
            assert done.returncode == Exits(profile=profile).code(outcome), done.stderr
