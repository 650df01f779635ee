-- Replays in shards: what a run pinned, who works on which shard until when, and what came of each
-- episode. An episode is known by its place in the plan, whoever runs it and however often.
CREATE TABLE replay_run (
    run_id        text COLLATE "C" PRIMARY KEY,
    project       text COLLATE "C" NOT NULL,
    plan_digest   text NOT NULL,
    shards        bigint NOT NULL,
    content       bytea NOT NULL,
    created_at_ns bigint NOT NULL,
    verdict_id    text
);
CREATE INDEX replay_run_newest ON replay_run (project, created_at_ns);
CREATE TABLE replay_shard (
    run_id         text COLLATE "C" NOT NULL REFERENCES replay_run (run_id) ON DELETE CASCADE,
    shard          bigint NOT NULL,
    owner          text NOT NULL DEFAULT '',
    attempt        bigint NOT NULL DEFAULT 0,
    lease_until_ns bigint NOT NULL DEFAULT 0,
    took_ns        bigint,
    PRIMARY KEY (run_id, shard)
) WITH (fillfactor = 50);
CREATE TABLE replay_episode (
    run_id  text COLLATE "C" NOT NULL REFERENCES replay_run (run_id) ON DELETE CASCADE,
    place   bigint NOT NULL,
    worker  text NOT NULL,
    digest  text NOT NULL,
    content bytea NOT NULL,
    PRIMARY KEY (run_id, place)
);
