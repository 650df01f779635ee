"""Kill switches and freezes on Postgres."""

from typing import Any

from sidecar.store.ledger import OpenedCall
from sidecar.store.postgres.connection import Connection
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
_COLUMNS = "stop_id, project, kind, scope, subject, reason, set_by, set_at_ns, lifted_at_ns"


async def of_call(connection: Connection, call: OpenedCall) -> str | None:
    """The code of the stop that a call falls under now, or None."""
    rows = await connection.fetch(
        "SELECT kind " + ACTIVE.format(project="$1", agent="$2", tool="$3"),
        *(call.project, call.principal, call.tool),
    )
    falls = kinds_that_stop(call.class_)
    return strongest([row["kind"] for row in rows if row["kind"] in falls])


async def add(connection: Connection, stop: Stop) -> bool:
    """Set a stop; False when there is one like it."""
    done = await connection.execute(
        f"INSERT INTO stop ({_COLUMNS}) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, NULL)"  # noqa: S608
        " ON CONFLICT DO NOTHING",
        *(stop.stop_id, stop.project, stop.kind, stop.scope, stop.subject),
        *(stop.reason, stop.set_by, stop.set_at_ns),
    )
    return not done.endswith(" 0")


async def find_like(connection: Connection, stop: Stop) -> Stop | None:
    """The standing stop of the same kind, scope and subject."""
    found = await _select(
        connection,
        "WHERE project = $1 AND kind = $2 AND scope = $3 AND subject = $4 AND lifted_at_ns IS NULL",
        *(stop.project, stop.kind, stop.scope, stop.subject),
    )
    return found[0] if found else None


async def find(connection: Connection, project: str, stop_id: str) -> Stop | None:
    """One stop with the votes to lift it."""
    found = await _select(connection, "WHERE project = $1 AND stop_id = $2", project, stop_id)
    return found[0] if found else None


async def newest(connection: Connection, project: str | None, limit: int) -> list[Stop]:
    """Stops, those that stand first, then the newest."""
    return await _select(
        connection,
        "WHERE ($1::text IS NULL OR project = $1)"
        " ORDER BY lifted_at_ns IS NOT NULL, set_at_ns DESC, stop_id LIMIT $2",
        *(project, limit),
    )


async def lift(connection: Connection, ballot: LiftBallot, kind: StopKind) -> bool | None:
    """Count a vote: whether the stop is lifted with it; None where that person has voted."""
    voted = await connection.execute(
        "INSERT INTO stop_lift (stop_id, identity, lifter, reason, at_ns)"
        " VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING",
        *(ballot.stop_id, ballot.identity, ballot.lifter, ballot.reason, ballot.now_ns),
    )
    if voted.endswith(" 0"):
        return None
    done = await connection.execute(
        "UPDATE stop SET lifted_at_ns = $1 WHERE stop_id = $2 AND lifted_at_ns IS NULL"
        " AND (SELECT count(*) FROM stop_lift WHERE stop_lift.stop_id = stop.stop_id) >= $3",
        *(ballot.now_ns, ballot.stop_id, LIFTERS[kind]),
    )
    return not done.endswith(" 0")


async def forget_lifts(connection: Connection, stop_id: str) -> None:
    """Take the votes to lift a stop back."""
    await connection.execute("DELETE FROM stop_lift WHERE stop_id = $1", stop_id)


async def _select(connection: Connection, where: str, *values: object) -> list[Stop]:
    rows = await connection.fetch(f"SELECT {_COLUMNS} FROM stop {where}", *values)  # noqa: S608
    return [_stop(row, await _lifts(connection, row["stop_id"])) for row in rows]


async def _lifts(connection: Connection, stop_id: str) -> tuple[Lift, ...]:
    rows = await connection.fetch(
        "SELECT lifter, reason, at_ns FROM stop_lift WHERE stop_id = $1 ORDER BY at_ns, identity",
        stop_id,
    )
    return tuple(Lift(**dict(row)) for row in rows)


def _stop(row: Any, lifts: tuple[Lift, ...]) -> Stop:
    return Stop(**dict(row), lifts=lifts)
