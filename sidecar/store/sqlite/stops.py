"""Kill switches and freezes in ledger.db."""

import sqlite3
from collections.abc import Sequence
from typing import Any

from sidecar.store.ledger import OpenedCall
from sidecar.store.stop import (
    LIFTERS,
    Lift,
    LiftBallot,
    Stop,
    StopKind,
    kinds_that_stop,
    strongest,
)

ACTIVE = (
    "FROM stop WHERE lifted_at_ns IS NULL AND stop.project = {project} AND (scope = 'project'"
    " OR (scope = 'agent' AND subject = {agent}) OR (scope = 'tool' AND subject = {tool}))"
)
_OF_CALL = "SELECT kind " + ACTIVE.format(project="?", agent="?", tool="?")
_COLUMNS = "stop_id, project, kind, scope, subject, reason, set_by, set_at_ns, lifted_at_ns"


def of_call(connection: sqlite3.Connection, call: OpenedCall) -> str | None:
    """The code of the stop that a call falls under now, or None."""
    rows = connection.execute(_OF_CALL, (call.project, call.principal, call.tool)).fetchall()
    return strongest_of(call, [kind for (kind,) in rows]) if rows else None


def strongest_of(call: OpenedCall, kinds: Sequence[StopKind]) -> str | None:
    """The code of the strongest of these stops that a call of its class falls under, or None."""
    falls = kinds_that_stop(call.class_)
    return strongest([kind for kind in kinds if kind in falls])


def add(connection: sqlite3.Connection, stop: Stop) -> bool:
    """Set a stop; False when there is one like it."""
    cursor = connection.execute(
        f"INSERT INTO stop ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, NULL)"  # noqa: S608
        " ON CONFLICT DO NOTHING",
        (
            *(stop.stop_id, stop.project, stop.kind, stop.scope, stop.subject),
            *(stop.reason, stop.set_by, stop.set_at_ns),
        ),
    )
    return cursor.rowcount > 0


def find_like(connection: sqlite3.Connection, stop: Stop) -> Stop | None:
    """The standing stop of the same kind, scope and subject."""
    found = _select(
        connection,
        "WHERE project = ? AND kind = ? AND scope = ? AND subject = ? AND lifted_at_ns IS NULL",
        (stop.project, stop.kind, stop.scope, stop.subject),
    )
    return found[0] if found else None


def find(connection: sqlite3.Connection, project: str, stop_id: str) -> Stop | None:
    """One stop with the votes to lift it."""
    found = _select(connection, "WHERE project = ? AND stop_id = ?", (project, stop_id))
    return found[0] if found else None


def newest(connection: sqlite3.Connection, project: str | None, limit: int) -> list[Stop]:
    """Stops, those that stand first, then the newest."""
    return _select(
        connection,
        "WHERE (?1 IS NULL OR project = ?1)"
        " ORDER BY lifted_at_ns IS NOT NULL, set_at_ns DESC, stop_id LIMIT ?2",
        (project, limit),
    )


def lift(connection: sqlite3.Connection, ballot: LiftBallot, kind: StopKind) -> bool | None:
    """Count a vote: whether the stop is lifted with it; None where that person has voted."""
    cursor = connection.execute(
        "INSERT INTO stop_lift (stop_id, identity, lifter, reason, at_ns) VALUES (?, ?, ?, ?, ?)"
        " ON CONFLICT DO NOTHING",
        (ballot.stop_id, ballot.identity, ballot.lifter, ballot.reason, ballot.now_ns),
    )
    if cursor.rowcount == 0:
        return None
    done = connection.execute(
        "UPDATE stop SET lifted_at_ns = ? WHERE stop_id = ? AND lifted_at_ns IS NULL"
        " AND (SELECT count(*) FROM stop_lift WHERE stop_lift.stop_id = stop.stop_id) >= ?",
        (ballot.now_ns, ballot.stop_id, LIFTERS[kind]),
    )
    return done.rowcount > 0


def forget_lifts(connection: sqlite3.Connection, stop_id: str) -> None:
    """Take the votes to lift a stop back."""
    connection.execute("DELETE FROM stop_lift WHERE stop_id = ?", (stop_id,))


def _select(connection: sqlite3.Connection, where: str, values: tuple[object, ...]) -> list[Stop]:
    rows = connection.execute(f"SELECT {_COLUMNS} FROM stop {where}", values).fetchall()  # noqa: S608
    return [_stop(row, _lifts(connection, row[0])) for row in rows]


def _lifts(connection: sqlite3.Connection, stop_id: str) -> tuple[Lift, ...]:
    rows = connection.execute(
        "SELECT lifter, reason, at_ns FROM stop_lift WHERE stop_id = ? ORDER BY at_ns, identity",
        (stop_id,),
    )
    return tuple(Lift(lifter=row[0], reason=row[1], at_ns=row[2]) for row in rows)


def _stop(row: tuple[Any, ...], lifts: tuple[Lift, ...]) -> Stop:
    names = [name.strip() for name in _COLUMNS.split(",")]
    return Stop(**dict(zip(names, row, strict=True)), lifts=lifts)
