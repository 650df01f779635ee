"""One tape, looked at, as a report: no case but what in it does not hold."""

from sidecar.gate.report.model import Case, Report, report
from sidecar.gate.report.signature import signature
from sidecar.gate.report.trail import run_of, steps_at
from sidecar.outcome import Exits, Outcome
from sidecar.tape.tape import Tape


def seen_report(name: str, tape: Tape, exits: Exits) -> Report:
    """The report; what a tape says is no verdict, so its outcome is ``ok``."""
    cases = tuple(
        Case(
            id=f"fault-{number}",
            group=name,
            rule=f"tape/{one.code}",
            status="error",
            detail=one.detail,
            code=one.code,
            run=0,
            seq=one.seq,
            signature=signature(f"tape/{one.code}"),
            steps=steps_at(tape, one.seq),
        )
        for number, one in enumerate(tape.examination.faults)
    )
    told = exits.told(Outcome.OK)
    return report(
        command="tape show",
        title=f"{name}: {tape.examination.state}, {len(tape.events)} events",
        outcome="ok",
        profile=told["profile"],
        exit_code=told["exit_code"],
        runs=(run_of(name, tape),),
        cases=cases,
    )
