-- Calls that the gateway makes for agents that do not wait, and dead letters.
CREATE TABLE durable (
    durable_id     TEXT PRIMARY KEY,
    project        TEXT NOT NULL,
    principal      TEXT NOT NULL,
    tool           TEXT NOT NULL,
    key_hash       TEXT NOT NULL,
    fingerprint    TEXT NOT NULL,
    state          TEXT NOT NULL CHECK (state IN ('waiting', 'done', 'dead', 'discarded')),
    attempts       INTEGER NOT NULL,
    due_at_ns      INTEGER NOT NULL,
    ends_at_ns     INTEGER NOT NULL,
    created_at_ns  INTEGER NOT NULL,
    updated_at_ns  INTEGER NOT NULL,
    code           TEXT,
    owner          TEXT,
    lease_until_ns INTEGER NOT NULL,
    request        BLOB
);
CREATE UNIQUE INDEX durable_scope ON durable (project, principal, tool, key_hash);
CREATE INDEX durable_due ON durable (due_at_ns) WHERE state = 'waiting';
CREATE INDEX durable_recent ON durable (project, created_at_ns);
CREATE INDEX durable_over ON durable (updated_at_ns) WHERE state IN ('done', 'discarded');
