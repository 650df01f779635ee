"""Assertions on tapes as a report: a case for each assertion and tape."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from sidecar.gate.report.model import Case, Outcome, Report, Run, report
from sidecar.gate.report.signature import signature
from sidecar.gate.report.trail import event_at, run_of, steps_at
from sidecar.outcome import Profile
from sidecar.tape.tape import Tape

if TYPE_CHECKING:  # it loads the expression engine, which a reader of reports does without
    from sidecar.evaluate.assertions.conclude import Asserted

_WORDS: Final = {"pass": "hold", "fail": "do not hold", "undecided": "cannot be decided"}


class Judged(Struct, frozen=True, kw_only=True):
    """One tape with what was asserted of it. ``error``: it could not be read, ``tape`` is None."""

    name: str
    tape: Tape | None
    asserted: "Sequence[Asserted]" = ()
    error: str = ""
    role: str = "tape"


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
    runs, cases = [], []
    for number, one in enumerate(judged):
        if one.tape is None:
            runs.append(Run(name=one.name, role=one.role, state="unreadable", error=one.error))
            cases.append(_unreadable(one, number))
        else:
            runs.append(run_of(one.name, one.tape, one.role))
            cases += [_case(each, one.name, one.tape, number) for each in one.asserted]
    asked = sum(len(one.asserted) for one in judged)
    said = f"{asked} assertions on {len(judged)} tapes {_WORDS.get(outcome, outcome)}"
    return report(
        command=command,
        title=title or said,
        outcome=outcome,
        exit_code=exit_code,
        profile=profile,
        runs=tuple(runs),
        cases=tuple(cases),
        facts=facts,
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
