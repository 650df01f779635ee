"""Tapes in tests, as a library: record a run, load, replay, change, check and report it.

::

    with tapes.record("refund.tape") as run:
        run.output(agent("refund order 17"))

    def test_refund():
        with tapes.replay("refund.tape") as run:
            run.output(agent("refund order 17"))
        tapes.check(tapes.load("refund.tape"), never_calls("delete_order")).must_hold()

**Rules**
1. ``replay`` lets nothing out: no model, no network, no real tool. Where the run leaves its tape it
   raises ``Drifted``, which no ``except Exception`` of an agent swallows.
2. ``check`` judges and raises nothing; ``must_hold`` raises AssertionError for what does not hold,
   and ``Undecided`` for evidence that does not: that is no failure of the agent.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from sidecar import clock
from sidecar.capture.plan import Mode, Patch, Plan
from sidecar.capture.play import Drift, Drifted
from sidecar.evaluate.assertions import factories
from sidecar.evaluate.assertions.conclude import ENDS, Asserted, Outcome, asserted, conclude
from sidecar.evaluate.assertions.specs import Assertion
from sidecar.gate.report.asserted import Judged, asserted_report
from sidecar.gate.report.model import Report
from sidecar.gate.report.render import Form, render
from sidecar.outcome import CODES
from sidecar.tape.model import Seam
from sidecar.tape.tape import Tape
from sidecar.testing.driver import Incomparable, Running, playable, playing, recording
from sidecar.testing.files import StrPath, load, named
from sidecar.testing.hidden import hidden
from sidecar.testing.told import drift_text, findings_text

if TYPE_CHECKING:
    from sidecar.evaluate.assertions.parse import Named

__all__ = [
    "Assertion",
    "Checked",
    "Drift",
    "Drifted",
    "Incomparable",
    "Mode",
    "Patch",
    "Running",
    "Tape",
    "Undecided",
    "check",
    "counterfactual",
    "drift_text",
    "factories",
    "load",
    "record",
    "replay",
    "report",
]

record = recording


class Undecided(Exception):
    """What was asserted cannot be decided on this tape: no failure, and no pass."""


class Checked(Struct, frozen=True, kw_only=True):
    """What assertions came to on a tape; ``outcome`` by what counts there."""

    name: str
    tape: Tape
    found: tuple[Asserted, ...]
    outcome: Outcome
    strict: bool = False

    @property
    def skipped(self) -> bool:
        """Whether nothing that counts could be asked, though the evidence holds."""
        counted = [one.finding for one in self.found if one.counts]
        asked = any(one.status in ("pass", "fail", "error") for one in counted)
        lost = conclude(self.found, strict=True) == "undecided"
        return bool(counted) and not asked and not lost

    def text(self) -> str:
        """What is no pass, for people."""
        return findings_text(self.name, self.found, self.tape)

    def must_hold(self) -> None:
        """Raises AssertionError where something does not hold, Undecided where nobody can say."""
        if self.outcome == "fail":
            raise AssertionError(self.text())
        if self.outcome == "undecided":
            raise Undecided(self.text())


def check(
    tape: Tape,
    *wanted: "Assertion | StrPath | Named",
    strict: bool = False,
    name: str = "",
    now_ns: int | None = None,
) -> Checked:
    """Judge a tape by assertions, and by those of YAML files among them.

    ``strict``: what could not be asked is a failure. ``now_ns`` decides what quarantine still
    stands. Raises SidecarError for assertions that cannot be read.
    """
    found = asserted(named(wanted), tape, clock.now_ns() if now_ns is None else now_ns)
    return Checked(
        name=name or tape.header.tape_id,
        tape=tape,
        found=found,
        outcome=conclude(found, strict=strict),
        strict=strict,
    )


@hidden(Drifted, Incomparable)
def replay(
    path: StrPath,
    *,
    mode: Mode = "strict",
    fork: int | None = None,
    live: Sequence[Seam] = (),
    to: StrPath | None = None,
    roots: Sequence[StrPath] = (),
    agent: str = "agent",
) -> Iterator[Running]:
    """Run what is inside against a tape, strictly or in another declared mode.

    ``to``: where the new tape goes that another mode makes. Raises Drifted where the run leaves the
    tape, SidecarError for a tape that cannot be replayed so.
    """
    plan = Plan(mode=mode, fork=fork, live=tuple(live))
    with playing(playable(path, plan), plan=plan, to=to, roots=roots, agent=agent) as run:
        yield run


@hidden(Drifted, Incomparable)
def counterfactual(
    path: StrPath,
    *patches: Patch,
    live: Sequence[Seam] = (),
    to: StrPath | None = None,
    roots: Sequence[StrPath] = (),
    agent: str = "agent",
) -> Iterator[Running]:
    """Run what is inside against a tape on which something is changed: what would have been?

    Up to the first change it must be as recorded (Incomparable); behind it the tape answers what it
    knows, and what is ``live`` the rest. ``told.parted`` is the first event that was changed,
    ``told.stopped`` why the run ended where nothing answered it. No verdict by itself.
    """
    plan = Plan(mode="counterfactual", patches=patches, live=tuple(live))
    with playing(playable(path, plan), plan=plan, to=to, roots=roots, agent=agent) as run:
        yield run


def report(checked: Sequence[Checked], form: Form = "text", **facts: str) -> str:
    """What several checks came to, as a report of any form (docs/specs/report.md)."""
    return render(_report(checked, facts), form)


def _report(checked: Sequence[Checked], facts: Mapping[str, str]) -> Report:
    outcomes = [one.outcome for one in checked]
    outcome: Outcome = "undecided" if "undecided" in outcomes or not outcomes else "pass"
    if outcome == "pass" and "fail" in outcomes:
        outcome = "fail"
    judged = [Judged(name=one.name, tape=one.tape, asserted=one.found) for one in checked]
    code: Any = CODES["ci"][ENDS[outcome]]
    return asserted_report(judged, outcome=outcome, exit_code=code, facts=dict(facts) or None)
