"""Replays in shards on Postgres (``store.episodes``): many coordinators on one run."""

from collections.abc import Iterator, Sequence

from sidecar.store.episodes import KeptEpisode, ReplayRun, RunProgress, ShardClaim
from sidecar.store.postgres.connection import Connection, Database
from sidecar.store.postgres.text import storable

_PAGE = 200
_RUN = "run_id, project, plan_digest, shards, content, created_at_ns, verdict_id"
_FIND = f"SELECT {_RUN} FROM replay_run WHERE run_id = $1"  # noqa: S608 (fixed texts only)
_BEGIN = (
    f"INSERT INTO replay_run ({_RUN}) VALUES ($1, $2, $3, $4, $5, $6, NULL)"  # noqa: S608
    " ON CONFLICT (run_id) DO NOTHING"
)
_SHARDS = (
    "INSERT INTO replay_shard (run_id, shard)"
    " SELECT $1, n FROM generate_series(0, $2::bigint - 1) AS n"
    " ON CONFLICT (run_id, shard) DO NOTHING"
)
# Whoever comes at the same moment takes the next one instead of waiting for this one.
_CLAIM = (
    "UPDATE replay_shard SET owner = $2, attempt = attempt + 1, lease_until_ns = $4"
    " WHERE run_id = $1 AND shard = (SELECT shard FROM replay_shard WHERE run_id = $1"
    " AND took_ns IS NULL AND lease_until_ns <= $3 ORDER BY shard LIMIT 1"
    " FOR UPDATE SKIP LOCKED) RETURNING shard, attempt"
)
_EXTEND = (
    "UPDATE replay_shard SET lease_until_ns = $5 WHERE run_id = $1 AND shard = $2 AND owner = $3"
    " AND attempt = $4 AND took_ns IS NULL RETURNING 1"
)
_KEEP = (
    "INSERT INTO replay_episode (run_id, place, worker, digest, content)"
    " SELECT $1, * FROM unnest($2::bigint[], $3::text[], $4::text[], $5::bytea[])"
    " ON CONFLICT (run_id, place) DO NOTHING RETURNING 1"
)
_DONE = "UPDATE replay_shard SET took_ns = $3 WHERE run_id = $1 AND shard = $2 AND took_ns IS NULL"
_PROGRESS = "SELECT took_ns, lease_until_ns FROM replay_shard WHERE run_id = $1"
_COUNT = "SELECT count(*) FROM replay_episode WHERE run_id = $1"
_EPISODES = (
    "SELECT place, worker, digest, content FROM replay_episode WHERE run_id = $1 AND place > $2"
    " ORDER BY place LIMIT $3"
)
_END = "UPDATE replay_run SET verdict_id = $2 WHERE run_id = $1 AND verdict_id IS NULL"


class PostgresEpisodes:
    """The runs of one store. Every write is durable when it returns."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def begin_run(self, run: ReplayRun) -> ReplayRun:
        """Keep a run and its shards; the one of that name where there is one."""

        async def begin(connection: Connection) -> ReplayRun:
            await connection.execute(
                _BEGIN,
                *(run.run_id, run.project, run.plan_digest, run.shards, run.content),
                run.created_at_ns,
            )
            row = await connection.fetchrow(_FIND, run.run_id)
            assert row is not None
            kept = ReplayRun(**dict(row))
            if kept.verdict_id is None:
                await connection.execute(_SHARDS, kept.run_id, kept.shards)
            return kept

        return self._database.transact_sync(begin)

    def find_run(self, run_id: str) -> ReplayRun | None:
        """The run of that name, or None."""
        if not storable(run_id):
            return None
        row = self._database.read_sync(lambda c: c.fetchrow(_FIND, run_id))
        return None if row is None else ReplayRun(**dict(row))

    def claim_shard(
        self, run_id: str, owner: str, *, now_ns: int, until_ns: int
    ) -> ShardClaim | None:
        """Take the lease of a shard that nobody has; None where there is none now."""
        row = self._database.transact_sync(
            lambda c: c.fetchrow(_CLAIM, run_id, owner, now_ns, until_ns)
        )
        if row is None:
            return None
        return ShardClaim(run_id=run_id, shard=row["shard"], owner=owner, attempt=row["attempt"])

    def extend_claim(self, claim: ShardClaim, until_ns: int) -> bool:
        """Move the end of a lease (the past gives it back); False where it is another's now."""
        found = self._database.transact_sync(
            lambda c: c.fetchval(
                _EXTEND, claim.run_id, claim.shard, claim.owner, claim.attempt, until_ns
            )
        )
        return found is not None

    def finish_shard(self, claim: ShardClaim, episodes: Sequence[KeptEpisode], took_ns: int) -> int:
        """Keep what came of a shard, whoever has its lease by now; how many were new."""

        async def finish(connection: Connection) -> int:
            new = await connection.fetch(
                _KEEP,
                claim.run_id,
                [one.place for one in episodes],
                [one.worker for one in episodes],
                [one.digest for one in episodes],
                [one.content for one in episodes],
            )
            await connection.execute(_DONE, claim.run_id, claim.shard, took_ns)
            return len(new)

        return self._database.transact_sync(finish)

    def run_progress(self, run_id: str) -> RunProgress:
        """How far a run is."""

        async def look(connection: Connection) -> RunProgress:
            shards = await connection.fetch(_PROGRESS, run_id)
            took = sorted(one["took_ns"] for one in shards if one["took_ns"] is not None)
            waiting = [one["lease_until_ns"] for one in shards if one["took_ns"] is None]
            return RunProgress(
                shards_done=len(took),
                episodes_done=await connection.fetchval(_COUNT, run_id),
                took_ns=tuple(took),
                next_free_ns=min(waiting, default=None),
            )

        return self._database.read_sync(look)

    def episodes_of(self, run_id: str, *, after: int = -1) -> Iterator[KeptEpisode]:
        """The episodes of a run in order of their places, read a page at a time."""
        while True:
            place = after
            rows = self._database.read_sync(
                lambda c, place=place: c.fetch(_EPISODES, run_id, place, _PAGE)  # type: ignore[misc]
            )
            for row in rows:
                yield KeptEpisode(**dict(row))
                after = row["place"]
            if len(rows) < _PAGE:
                return

    def end_run(self, run_id: str, verdict_id: str) -> None:
        """Note the verdict, and let go of shards and episodes."""

        async def end(connection: Connection) -> None:
            await connection.execute(_END, run_id, verdict_id)
            await connection.execute("DELETE FROM replay_shard WHERE run_id = $1", run_id)
            await connection.execute("DELETE FROM replay_episode WHERE run_id = $1", run_id)

        self._database.transact_sync(end)

    def close(self) -> None:
        """Nothing is held."""
