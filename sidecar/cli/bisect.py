"""``sidecar bisect``: which commit, or which revision of a configuration, introduced a behaviour.

Rules
1. 0 when it is found, 2 when it cannot be told (the outcome is ``inconclusive``), which is no error
   but never green either. Under ``--profile git`` the latter is 125.
2. An oracle at fault ends it with 3; what was found so far is kept, and the same command goes on.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from processors.value import TIMEOUT_LEAST_NS, duration_ns
from sidecar.cli.numbers import FiniteRange
from sidecar.cli.options import common, emit, on_terminal, profiled, say, talk
from sidecar.errors import SidecarError
from sidecar.outcome import Exits, Outcome
from sidecar.plain import plain, plain_lines
from sidecar.replay.bisect import shown
from sidecar.replay.bisect.answer import Answer
from sidecar.replay.bisect.driver import Tell
from sidecar.replay.bisect.model import Probe, Search
from sidecar.replay.bisect.process.preparing import Prepared, prepare
from sidecar.replay.bisect.process.session import run_bisection
from sidecar.replay.bisect.wanted import Wanted

_FILE = click.Path(dir_okay=False)
_FOLDER = click.Path(file_okay=False)
_TAIL_LINES = 15
_USUAL = Search()


@click.command("bisect")
@click.argument("command_", nargs=-1, required=True, metavar="COMMAND...")
@click.option("--good", "goods", multiple=True, metavar="REV", help="A commit without it.")
@click.option("--bad", default="", metavar="REV", help="A commit with it.")
@click.option("--repo", type=_FOLDER, default=".", help="The repository [default: where you are].")
@click.option(
    "--all-parents", is_flag=True, help="Suspect merged branches' commits, not only the merges."
)
@click.option(
    "--revisions",
    type=_FILE,
    default="",
    metavar="FILE",
    help="Revisions of a configuration, as YAML (docs/specs/bisect.md); also beside commits.",
)
@click.option(
    "--method",
    type=click.Choice(["exact", "repeats", "bayes"]),
    default=_USUAL.method,
    show_default=True,
    help="One run a point; as many as the measured rate needs; or a posterior over all.",
)
@click.option(
    "--measure",
    type=click.IntRange(1, 1000),
    default=_USUAL.measure,
    show_default=True,
    help="Runs at the bad end by which the rate is measured.",
)
@click.option(
    "--confidence",
    type=FiniteRange(0.5, 0.999999),
    default=_USUAL.confidence,
    show_default=True,
    help="At which `bayes` stops.",
)
@click.option(
    "--monotone",
    type=click.IntRange(0, 100),
    default=_USUAL.monotone,
    show_default=True,
    help="Random points looked at in the end.",
)
@click.option(
    "--seed", type=int, default=_USUAL.seed, show_default=True, help="Of the random points."
)
@click.option(
    "--runs-max",
    type=click.IntRange(1),
    default=_USUAL.runs_max,
    show_default=True,
    help="At most.",
)
@click.option("--timeout", default="10m", show_default=True, help="Of one run; past it untestable.")
@click.option(
    "--signature",
    default="",
    metavar="RE2",
    help="What the output must have for a failure to be this one; others are untestable.",
)
@click.option(
    "--tape",
    type=_FILE,
    default="",
    help="COMMAND is an agent: a strict replay of this tape of the bad run is the oracle.",
)
@click.option(
    "--assertions",
    type=_FILE,
    default="",
    help="COMMAND is an agent: it is recorded, and these assertions on that are the oracle.",
)
@click.option(
    "--root",
    "roots",
    multiple=True,
    metavar="DIRECTORY",
    help="Folder of the agent's own files, as of sidecar tape record [default: where it runs].",
)
@click.option(
    "--setup",
    default="",
    metavar="SHELL",
    help="Makes an environment in $AGENTTWIN_BISECT_ENV, once for equal lock files.",
)
@click.option("--lock", "locks", multiple=True, metavar="PATH", help="Lock file [default: known].")
@click.option("--cache", type=_FOLDER, default="", help="Folder for environments.")
@click.option("--fresh", is_flag=True, help="Forget the runs of an interrupted start.")
@profiled()
@common(outputs=("text", "json", "markdown"))
def command(
    command_: tuple[str, ...],
    timeout: str,
    exits: Exits,
    config: str | None,  # noqa: ARG001
    store: str | None,  # noqa: ARG001
    output: str,
    **more: Any,
) -> int:
    """Find the commit, or the revision of a configuration, that introduced a behaviour.

    COMMAND runs in a clean worktree of each commit that is tried, never in yours. As for git bisect
    run, it exits 0 where the behaviour is absent, 125 where that cannot be told, 1 to 127 where it
    is there. Both ends are tried first, the culprit and its parents again at the end. The same
    command goes on where an interrupted one was.

    \b
    Example:
      $ sidecar bisect --good v1.4 --bad main -- python check.py
      found: 3f9c2ab81d04 Shorten the system prompt
        last good: 77d01e5c9a2b Log the order id
        13 runs for 64 suspects
        again: sidecar bisect --good 77d01e5c… --bad 3f9c2ab8… -- python check.py
    """
    wanted = Wanted(command=command_, timeout_seconds=_seconds(timeout), **more)
    prepared = prepare(wanted)
    if prepared.dirty:
        talk("the work tree has changes of no commit; they are not looked at")
    try:
        with _progress(prepared) as tell:
            result = run_bisection(wanted, prepared, tell)
    except KeyboardInterrupt:
        talk("what was found is kept: the same command goes on from here")
        raise
    found = result.conclusion.outcome == "found"
    if result.aborted is not None:
        _tell_tail(result.aborted)
        end = Outcome.INTERNAL
    else:
        # interfaces.md ranks before replay.md 3k, which has 0 here.
        end = Outcome.OK if found else Outcome.UNDECIDED
    value = {**exits.told(end, result.conclusion.outcome), **result.value}
    if output == "markdown":
        say(plain_lines(shown.markdown(value)))
    else:
        emit(value, output, lambda: shown.text(value))
    return exits.code(end)


def _seconds(text: str) -> float:
    try:
        return duration_ns(text, least_ns=TIMEOUT_LEAST_NS) / 1e9
    except ValueError as error:
        raise SidecarError(str(error), where="--timeout") from None


def _tell_tail(answer: Answer) -> None:
    talk(f"the oracle is at fault: {plain(answer.detail)}; the same command goes on from here")
    _tell_lines(answer)


@contextmanager
def _progress(prepared: Prepared) -> Iterator[Tell]:
    """A line on a terminal; elsewhere only why an end does not hold."""
    if not on_terminal():
        yield lambda probe, answer: _tell_end(prepared, probe, answer)
        return
    from rich.console import Console
    from rich.markup import escape

    with Console(stderr=True).status("") as status:

        def tell(probe: Probe, answer: Answer | None) -> None:
            name = escape(_name(prepared, probe))
            left = f", {probe.left} suspects" if probe.left else ""
            if answer is None:
                status.update(f"{probe.purpose}{left}: {name}")
            else:
                _tell_end(prepared, probe, answer)

        yield tell


def _tell_end(prepared: Prepared, probe: Probe, answer: Answer | None) -> None:
    """Why an end does not hold: what its command said last, for whoever asked."""
    if answer is None or probe.purpose != "end" or prepared.asked.method != "exact":
        return
    wanted = "bad" if probe.point == prepared.asked.bad else "good"
    if answer.verdict == wanted:
        return
    why = f" ({plain(answer.detail)})" if answer.detail else ""
    talk(f"{wanted} end {_name(prepared, probe)}: {answer.verdict}{why}")
    _tell_lines(answer)


def _tell_lines(answer: Answer) -> None:
    for line in answer.tail.rstrip().split("\n")[-_TAIL_LINES:]:
        talk(f"  {plain(line)}")


def _name(prepared: Prepared, probe: Probe) -> str:
    named = prepared.question.named(probe.point)
    if prepared.repository is not None:
        commit = named["commit"]
        named["subject"] = prepared.repository.subjects([commit]).get(commit, "")
    return shown.name(named)
