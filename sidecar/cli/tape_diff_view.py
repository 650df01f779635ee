"""A diff of two tapes as JSON, text, Markdown and, on a terminal, side by side."""

from collections.abc import Iterable
from typing import Any, Final

import msgspec
from msgspec import Struct

from sidecar.gate.report.compared import CONTEXT, cells, notes_of, parting, partings
from sidecar.gate.report.text import place_line
from sidecar.outcome import Exits
from sidecar.plain import plain, plain_markdown
from sidecar.replay.diff.model import ENDS, Agent, Diff, Divergence, Row
from sidecar.tape.tape import Tape

_STYLES: Final = {"same": "dim", "insert": "green", "delete": "red"}


class Side(Struct, frozen=True):
    """One of the two tapes, and what it is called."""

    name: str
    tape: Tape


Sides = tuple[Side, Side]


def diff_told(found: Diff, sides: Sides, limit: int, exits: Exits) -> dict[str, Any]:
    """A diff in JSON; the keys are fixed (docs/specs/diff.md)."""
    changed = [row for one in found.agents for row in one.rows if row.kind != "same"]
    agents = [_agent_told(one, sides) for one in found.agents]
    left, right = sides[0].tape, sides[1].tape
    return {
        **exits.told(ENDS[found.outcome], found.outcome),
        "left": _side_told(sides[0]),
        "right": _side_told(sides[1]),
        "incomparable": msgspec.to_builtins(found.incomparable),
        "compared": found.compared,
        "first_divergence": msgspec.to_builtins(partings(found, left, right)),
        "agents": agents,
        "drift": _drift(found),
        "changes": [msgspec.to_builtins(row) for row in changed[:limit]],
        "left_out": max(len(changed) - limit, 0),
        "noise": found.noise,
        "header": list(found.header),
        "latency_ns": {"left": found.duration_ns_l, "right": found.duration_ns_r},
    }


def diff_text(found: Diff, sides: Sides, limit: int) -> str:
    """A diff as text: the outcome, where each agent parts, what changed."""
    lines = [plain(headline(found, sides))]
    for reason in reasons(found):
        lines.append(f"  {plain(reason)}")
    left_out = -limit
    for agent in found.agents:
        lines.append(plain(agent_line(agent)))
        first = agent.first_divergence
        if first is None:
            continue
        lines += [f"  {plain(line)}" for line in divergence_lines(first)]
        changed = [row for row in agent.rows if row.kind != "same"]
        shown = changed[: max(-left_out, 0)]
        lines += [f"  {plain(row_line(row, sides))}" for row in shown]
        left_out += len(changed)
    if left_out > 0:
        lines.append(f"… {left_out} more changes; see --limit")
    lines += [plain(line) for line in notes_of(found)]
    return "\n".join(lines)


def diff_markdown(found: Diff, sides: Sides, limit: int) -> str:
    """A diff as Markdown; nothing of a tape is markup in it."""
    lines = [f"### {plain_markdown(headline(found, sides))}", ""]
    lines += [f"- {plain_markdown(reason)}" for reason in reasons(found)]
    for agent in found.agents:
        lines.append(f"- {plain_markdown(agent_line(agent))}")
        if agent.first_divergence is not None:
            said = divergence_lines(agent.first_divergence)
            lines += [f"  - {plain_markdown(line)}" for line in said]
    changed = [row for one in found.agents for row in one.rows if row.kind != "same"]
    if changed:
        lines += ["", "| agent | change | left | right | |", "|---|---|---|---|---|"]
    for row in changed[:limit]:
        cause = "consequence" if row.consequence else ""
        name, one, other = map(plain_markdown, (row.agent, *_cells(row, sides)))
        lines.append(f"| {name} | {row.kind} | {one} | {other} | {cause} |")
    if len(changed) > limit:
        lines += ["", f"{len(changed) - limit} more changes."]
    return "\n".join([*lines, "", *(plain_markdown(line) for line in notes_of(found))]).rstrip()


def side_by_side(found: Diff, sides: Sides, limit: int) -> None:
    """Both tapes in two columns, on stdout; only for a terminal."""
    # Imported here: only a terminal pays for it.
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(expand=True)
    for side in sides:
        table.add_column(Text(plain(side.name)), ratio=1)
    rows = [row for one in found.agents for row in near(one)]
    for row in rows[:limit]:
        first = row.kind != "same" and not row.consequence
        style = _STYLES.get(row.kind, "yellow") + (" bold" if first else "")
        one, other = _cells(row, sides)
        table.add_row(Text(plain(one), style=style), Text(plain(other), style=style))
    if rows:
        Console(highlight=False).print(table)


def near(agent: Agent) -> Iterable[Row]:
    """An agent's rows from a little before its divergence on."""
    return agent.rows[max(agent.common - CONTEXT, 0) :] if agent.first_divergence else ()


def headline(found: Diff, sides: Sides) -> str:
    """The outcome in a sentence."""
    named = f"{sides[0].name} and {sides[1].name}"
    parted = sum(1 for one in found.agents if one.first_divergence is not None)
    differ = f"differ: {parted} of {len(found.agents)} agents"
    if found.outcome == "incomparable":
        seen = "" if found.compared == "nothing" else f"; as far as they go they {differ}"
        return f"{named} cannot be compared{seen if parted or not seen else ''}"
    noun = "structure" if found.compared == "structure" else "conduct"
    return f"{named} {differ}" if parted else f"{named} are identical in {noun}"


def reasons(found: Diff) -> list[str]:
    """Why nothing may be concluded."""
    return [f"{one.reason} ({one.side}): {one.detail}" for one in found.incomparable]


def agent_line(agent: Agent) -> str:
    """What one agent has in common, and how it parts."""
    name = f"agent {agent.agent}" if agent.agent else "no agent"
    first = agent.first_divergence
    if first is None:
        behind = agent.left != agent.common or agent.right != agent.common
        return f"{name}: {agent.common} events in common{'; more behind others' if behind else ''}"
    drift = ", ".join(first.drift)
    return f"{name}: {agent.common} events in common, then {first.kind} ({drift}) {_at(first)}"


def divergence_lines(first: Divergence) -> list[str]:
    """Where the payloads differ, and which events are suspected."""
    lines = [place_line(one) for one in first.places or ()]
    if first.places is None and first.changed:
        lines.append(f"{', '.join(first.changed)} changed; the content was not kept")
    if first.more_places:
        lines.append("… and more places")
    for side, seqs in (("left", first.suspects_l), ("right", first.suspects_r)):
        if seqs:
            lines.append(f"may come from seq {', '.join(map(str, seqs))} on the {side}")
    return lines


def row_line(row: Row, sides: Sides) -> str:
    """One change: both events."""
    one, other = _cells(row, sides)
    tail = "  (consequence)" if row.consequence else ""
    return f"{row.kind:<15} {one or '-'}  |  {other or '-'}{tail}"


def _cells(row: Row, sides: Sides) -> tuple[str, str]:
    return cells(row, sides[0].tape, sides[1].tape)


def _at(first: Divergence) -> str:
    if first.seq_l is None or first.seq_r is None:
        side = "right" if first.seq_l is None else "left"
        return f"at seq {first.seq_r if first.seq_l is None else first.seq_l} on the {side}"
    return f"at seq {first.seq_l} and {first.seq_r}"


def _side_told(side: Side) -> dict[str, Any]:
    header, computed = side.tape.header, side.tape.examination.computed
    return {
        "tape": side.name,
        "tape_id": header.tape_id,
        "state": side.tape.examination.state,
        "events": len(side.tape.events),
        "fidelity": header.fidelity,
        "exact_digest": computed.exact_digest,
        "behavior_digest": computed.behavior_digest,
    }


def _agent_told(one: Agent, sides: Sides) -> dict[str, Any]:
    return {
        "agent": one.agent,
        "common": one.common,
        "left": one.left,
        "right": one.right,
        "first_divergence": msgspec.to_builtins(parting(one, sides[0].tape, sides[1].tape)),
    }


def _drift(found: Diff) -> dict[str, int]:
    counts: dict[str, int] = {}
    for one in found.agents:
        for kind in one.first_divergence.drift if one.first_divergence else ():
            counts[kind] = counts.get(kind, 0) + 1
    return dict(sorted(counts.items()))
