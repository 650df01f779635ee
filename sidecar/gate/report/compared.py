"""A diff of two tapes as a report: a case for each agent, and where the two first part."""

from typing import Final

import msgspec

from sidecar.gate.report.model import Case, Near, Outcome, Parting, Place, Report, report
from sidecar.gate.report.signature import signature
from sidecar.gate.report.trail import event_at, event_line, run_of, steps_at
from sidecar.outcome import Exits
from sidecar.replay.diff.model import ENDS, Agent, Diff, Divergence, Row
from sidecar.tape.tape import Tape

CONTEXT: Final = 3
_CI: Final = Exits()
Named = tuple[str, Tape]


def compared_report(
    found: Diff,
    left: Named,
    right: Named,
    *,
    command: str = "tape diff",
    title: str = "",
    outcome: Outcome | None = None,
    exit_code: int | None = None,
    exits: Exits = _CI,
    roles: tuple[str, str] = ("left", "right"),
    facts: dict[str, str] | None = None,
) -> Report:
    """The report; its outcome and exit code are the diff's unless they are given."""
    return report(
        command=command,
        title=title or _headline(found, left[0], right[0]),
        outcome=outcome or found.outcome,
        exit_code=exits.code(ENDS[found.outcome]) if exit_code is None else exit_code,
        profile=exits.profile,
        runs=(run_of(*left, roles[0]), run_of(*right, roles[1])),
        cases=(*_refusals(found), *(_case(one, found, left, right) for one in found.agents)),
        first_divergence=partings(found, left[1], right[1]),
        notes=notes_of(found),
        facts=facts,
    )


def _headline(found: Diff, left: str, right: str) -> str:
    parted = sum(1 for one in found.agents if one.first_divergence is not None)
    differ = f"differ: {parted} of {len(found.agents)} agents"
    if found.outcome == "incomparable":
        return f"{left} and {right} cannot be compared"
    return f"{left} and {right} {differ if parted else 'are identical'}"


def _refusals(found: Diff) -> tuple[Case, ...]:
    return tuple(
        Case(
            id=one.reason,
            group="comparable",
            rule=f"comparable/{one.reason.lower()}",
            status="error",
            detail=f"{one.detail} ({one.side})",
            code="incomparable",
            signature=signature(f"comparable/{one.reason}"),
        )
        for one in found.incomparable
    )


def _case(one: Agent, found: Diff, left: Named, right: Named) -> Case:
    first = one.first_divergence
    id_, group = one.agent or "no agent", f"{left[0]} and {right[0]}"
    if first is None:
        said = f"{one.common} events in common"
        if found.outcome == "incomparable":  # what was seen is equal, and it proves nothing
            return Case(id=id_, group=group, rule="diff", status="skip", detail=said, code="unseen")
        return Case(id=id_, group=group, rule="diff", status="pass", detail=said, agent=one.agent)
    on_right = first.seq_r is not None
    run, tape, seq = (1, right[1], first.seq_r) if on_right else (0, left[1], first.seq_l)
    return Case(
        id=id_,
        group=group,
        rule=f"diff/{first.kind}",
        status="fail",
        detail=f"{one.common} events in common, then {first.kind}",
        run=run,
        agent=one.agent,
        seq=seq,
        drift=tuple(first.drift),
        places=_places(first) or (),
        signature=signature(
            f"diff/{first.kind}",
            agent=one.agent,
            event=event_at(tape, seq),
            drift=first.drift,
            pointers=[each.pointer for each in first.places or ()],
        ),
        steps=steps_at(tape, seq),
    )


def partings(found: Diff, left: Tape, right: Tape) -> Parting | None:
    """Where two tapes first part, with the events around it; None where they do not."""
    first = found.first_divergence
    if first is None:
        return None
    (agent,) = (one for one in found.agents if one.agent == first.agent)
    return parting(agent, left, right)


def parting(agent: Agent, left: Tape, right: Tape) -> Parting | None:
    """Where one agent's runs part; None where they do not."""
    first = agent.first_divergence
    if first is None:
        return None
    near = agent.rows[max(agent.common - CONTEXT, 0) : agent.common + 1 + CONTEXT]
    return Parting(
        agent=first.agent,
        seq_l=first.seq_l,
        seq_r=first.seq_r,
        kind=first.kind,
        drift=tuple(first.drift),
        changed=first.changed,
        places=_places(first),
        more_places=first.more_places,
        suspects_l=first.suspects_l,
        suspects_r=first.suspects_r,
        context=tuple(_near(row, left, right) for row in near),
    )


def _near(row: Row, left: Tape, right: Tape) -> Near:
    one, other = cells(row, left, right)
    return Near(seq_l=row.seq_l, seq_r=row.seq_r, kind=row.kind, left=one, right=other)


def cells(row: Row, left: Tape, right: Tape) -> tuple[str, str]:
    """Both events of a row as lines; empty where there is none."""
    one, other = (
        "" if event is None else event_line(event)
        for event in (event_at(left, row.seq_l), event_at(right, row.seq_r))
    )
    return one, other


def _places(first: Divergence) -> tuple[Place, ...] | None:
    if first.places is None:
        return None
    return tuple(msgspec.convert(msgspec.to_builtins(one), Place) for one in first.places)


def notes_of(found: Diff) -> tuple[str, ...]:
    """What differs and decides nothing."""
    notes = []
    if found.noise:
        notes.append(f"noise: {found.noise} events differ only in what does not count")
    if found.header:
        notes.append(f"headers differ in {', '.join(found.header)}")
    return tuple(notes)
