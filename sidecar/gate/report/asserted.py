"""Assertions on tapes as a report: a case for each assertion and tape."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from sidecar.gate.report.model import Case, Outcome, Report, Run, report
from sidecar.gate.report.signature import signature
from sidecar.gate.report.trail import event_at, run_of, steps_at
from sidecar.outcome import Profile
from sidecar.tape.tape import Tape

if TYPE_CHECKING:  # it loads the expression engine, which a reader of reports does without
    from sidecar.evaluate.assertions.conclude import Asserted

_WORDS: Final = {"pass": "hold", "fail": "do not hold", "undecided": "cannot be decided"}


class Part(Struct, frozen=True, kw_only=True):
    """What a report says of one tape."""

    run: Run
    cases: tuple[Case, ...]


class Judged(Struct, frozen=True, kw_only=True):
    """One tape with what was asserted of it. ``error``: it could not be read, ``tape`` is None.

    ``part``: what is said of it, where the tape itself was let go (``settled``).
    """

    name: str
    tape: Tape | None
    asserted: "Sequence[Asserted]" = ()
    error: str = ""
    role: str = "tape"
    part: Part | None = None


def settled(one: Judged, number: int) -> Judged:
    """The same without the tape, of which a thousand would not fit; ``number`` is its place."""
    return replace(one, tape=None, part=_part(one, number))


def asserted_report(
    judged: Sequence[Judged],
    *,
    outcome: Outcome,
    exit_code: int,
    profile: Profile = "ci",
    command: str = "tape assert",
    title: str = "",
    facts: dict[str, str] | None = None,
) -> Report:
    """The report; ``outcome`` and ``exit_code`` are the caller's, by what counts there."""
    parts = [one.part or _part(one, number) for number, one in enumerate(judged)]
    asked = sum(len(one.asserted) for one in judged)
    said = f"{asked} assertions on {len(judged)} tapes {_WORDS.get(outcome, outcome)}"
    return report(
        command=command,
        title=title or said,
        outcome=outcome,
        exit_code=exit_code,
        profile=profile,
        runs=tuple(one.run for one in parts),
        cases=tuple(case for one in parts for case in one.cases),
        facts=facts,
    )


def _part(one: Judged, number: int) -> Part:
    if one.tape is None:
        run = Run(name=one.name, role=one.role, state="unreadable", error=one.error)
        return Part(run=run, cases=(_unreadable(one, number),))
    tape = one.tape
    return Part(
        run=run_of(one.name, tape, one.role),
        cases=tuple(_case(each, one.name, tape, number) for each in one.asserted),
    )


def _case(one: "Asserted", name: str, tape: Tape, run: int) -> Case:
    finding = one.finding
    event = event_at(tape, finding.seq)
    agent = event.agent if event is not None else ""
    return Case(
        id=one.id,
        group=name,
        rule=one.spec,
        status=finding.status,
        severity=one.severity,
        quarantined=one.quarantined,
        owner=one.owner,
        until=one.until,
        detail=finding.detail,
        code=finding.code,
        run=run,
        agent=agent,
        seq=finding.seq,
        evidence=finding.evidence,
        signature=""
        if finding.status == "pass"
        else signature(f"{one.spec}:{one.id}:{finding.code}", agent=agent, event=event),
        steps=() if finding.status == "pass" else steps_at(tape, finding.seq),
    )


def _unreadable(one: Judged, run: int) -> Case:
    return Case(
        id="readable",
        group=one.name,
        rule="readable",
        status="error",
        detail=one.error,
        code="unreadable",
        run=run,
        signature=signature("readable"),
    )
