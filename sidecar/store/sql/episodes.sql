-- Replays in shards: what a run pinned, who works on which shard until when, and what came of each
-- episode. An episode is known by its place in the plan, whoever runs it and however often.
CREATE TABLE replay_run (
    run_id        TEXT PRIMARY KEY,
    project       TEXT NOT NULL,
    plan_digest   TEXT NOT NULL,
    shards        INTEGER NOT NULL,
    content       BLOB NOT NULL,
    created_at_ns INTEGER NOT NULL,
    verdict_id    TEXT
);
CREATE INDEX replay_run_newest ON replay_run (project, created_at_ns);
CREATE TABLE replay_shard (
    run_id         TEXT NOT NULL REFERENCES replay_run (run_id) ON DELETE CASCADE,
    shard          INTEGER NOT NULL,
    owner          TEXT NOT NULL DEFAULT '',
    attempt        INTEGER NOT NULL DEFAULT 0,
    lease_until_ns INTEGER NOT NULL DEFAULT 0,
    took_ns        INTEGER,
    PRIMARY KEY (run_id, shard)
) WITHOUT ROWID;
CREATE TABLE replay_episode (
    run_id  TEXT NOT NULL REFERENCES replay_run (run_id) ON DELETE CASCADE,
    place   INTEGER NOT NULL,
    worker  TEXT NOT NULL,
    digest  TEXT NOT NULL,
    content BLOB NOT NULL,
    PRIMARY KEY (run_id, place)
);
