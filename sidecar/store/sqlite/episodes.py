"""Replays in shards in traces.db (``store.episodes``)."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from sidecar.store.asked import encodable
from sidecar.store.episodes import KeptEpisode, ReplayRun, RunProgress, ShardClaim
from sidecar.store.sqlite.connection import open_database, translating

_PAGE = 200
_RUN = "run_id, project, plan_digest, shards, content, created_at_ns, verdict_id"


class SqliteEpisodes:
    """The runs of one store. Every write is durable when it returns."""

    def __init__(self, path: Path | str, *, read_only: bool = False) -> None:
        self._path = str(path)
        self._connection = open_database(path, read_only=read_only)

    def begin_run(self, run: ReplayRun) -> ReplayRun:
        """Keep a run and its shards; the one of that name where there is one."""
        with self._writing() as connection:
            connection.execute(
                f"INSERT INTO replay_run ({_RUN}) VALUES (?, ?, ?, ?, ?, ?, NULL)"  # noqa: S608
                " ON CONFLICT (run_id) DO NOTHING",
                (
                    *(run.run_id, run.project, run.plan_digest, run.shards, run.content),
                    run.created_at_ns,
                ),
            )
            kept = self._run(run.run_id)
            assert kept is not None
            if kept.verdict_id is None:
                connection.executemany(
                    "INSERT INTO replay_shard (run_id, shard) VALUES (?, ?)"
                    " ON CONFLICT (run_id, shard) DO NOTHING",
                    ((run.run_id, number) for number in range(kept.shards)),
                )
        return kept

    def find_run(self, run_id: str) -> ReplayRun | None:
        """The run of that name, or None."""
        if not encodable(run_id):
            return None
        with translating(self._path):
            return self._run(run_id)

    def claim_shard(
        self, run_id: str, owner: str, *, now_ns: int, until_ns: int
    ) -> ShardClaim | None:
        """Take the lease of a shard that nobody has; None where there is none now."""
        with self._writing() as connection:
            row = connection.execute(
                "UPDATE replay_shard SET owner = ?2, attempt = attempt + 1, lease_until_ns = ?4"
                " WHERE run_id = ?1 AND shard = (SELECT shard FROM replay_shard WHERE run_id = ?1"
                " AND took_ns IS NULL AND lease_until_ns <= ?3 ORDER BY shard LIMIT 1)"
                " RETURNING shard, attempt",
                (run_id, owner, now_ns, until_ns),
            ).fetchone()
        if row is None:
            return None
        return ShardClaim(run_id=run_id, shard=row[0], owner=owner, attempt=row[1])

    def extend_claim(self, claim: ShardClaim, until_ns: int) -> bool:
        """Move the end of a lease (the past gives it back); False where it is another's now."""
        with self._writing() as connection:
            done = connection.execute(
                "UPDATE replay_shard SET lease_until_ns = ? WHERE run_id = ? AND shard = ?"
                " AND owner = ? AND attempt = ? AND took_ns IS NULL",
                (until_ns, claim.run_id, claim.shard, claim.owner, claim.attempt),
            )
        return done.rowcount == 1

    def finish_shard(self, claim: ShardClaim, episodes: Sequence[KeptEpisode], took_ns: int) -> int:
        """Keep what came of a shard, whoever has its lease by now; how many were new."""
        new = 0
        with self._writing() as connection:
            for one in episodes:
                new += connection.execute(
                    "INSERT INTO replay_episode (run_id, place, worker, digest, content)"
                    " VALUES (?, ?, ?, ?, ?) ON CONFLICT (run_id, place) DO NOTHING",
                    (claim.run_id, one.place, one.worker, one.digest, one.content),
                ).rowcount
            connection.execute(
                "UPDATE replay_shard SET took_ns = ? WHERE run_id = ? AND shard = ?"
                " AND took_ns IS NULL",
                (took_ns, claim.run_id, claim.shard),
            )
        return new

    def run_progress(self, run_id: str) -> RunProgress:
        """How far a run is."""
        with translating(self._path):
            shards = self._connection.execute(
                "SELECT took_ns, lease_until_ns FROM replay_shard WHERE run_id = ?", (run_id,)
            ).fetchall()
            (episodes,) = self._connection.execute(
                "SELECT count(*) FROM replay_episode WHERE run_id = ?", (run_id,)
            ).fetchone()
        took = sorted(one for one, _ in shards if one is not None)
        waiting = [until for one, until in shards if one is None]
        return RunProgress(
            shards_done=len(took),
            episodes_done=episodes,
            took_ns=tuple(took),
            next_free_ns=min(waiting, default=None),
        )

    def episodes_of(self, run_id: str, *, after: int = -1) -> Iterator[KeptEpisode]:
        """The episodes of a run in order of their places, read a page at a time."""
        while True:
            with translating(self._path):
                rows = self._connection.execute(
                    "SELECT place, worker, digest, content FROM replay_episode"
                    " WHERE run_id = ? AND place > ? ORDER BY place LIMIT ?",
                    (run_id, after, _PAGE),
                ).fetchall()
            for place, worker, digest, content in rows:
                yield KeptEpisode(place=place, worker=worker, digest=digest, content=content)
                after = place
            if len(rows) < _PAGE:
                return

    def end_run(self, run_id: str, verdict_id: str) -> None:
        """Note the verdict, and let go of shards and episodes."""
        with self._writing() as connection:
            connection.execute(
                "UPDATE replay_run SET verdict_id = ? WHERE run_id = ? AND verdict_id IS NULL",
                (verdict_id, run_id),
            )
            connection.execute("DELETE FROM replay_shard WHERE run_id = ?", (run_id,))
            connection.execute("DELETE FROM replay_episode WHERE run_id = ?", (run_id,))

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _run(self, run_id: str) -> ReplayRun | None:
        row = self._connection.execute(
            f"SELECT {_RUN} FROM replay_run WHERE run_id = ?",  # noqa: S608 (fixed texts only)
            (run_id,),
        ).fetchone()
        return None if row is None else ReplayRun(**dict(zip(_RUN.split(", "), row, strict=True)))

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction that writes, begun at once so that it cannot fail half-way for a lock."""
        with translating(self._path):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise
