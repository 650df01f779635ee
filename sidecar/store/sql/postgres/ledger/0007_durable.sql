-- Calls that the gateway makes for agents that do not wait, and dead letters.
CREATE TABLE durable (
    durable_id     text PRIMARY KEY,
    project        text NOT NULL,
    principal      text NOT NULL,
    tool           text NOT NULL,
    key_hash       text NOT NULL,
    fingerprint    text NOT NULL,
    state          text NOT NULL CHECK (state IN ('waiting', 'done', 'dead', 'discarded')),
    attempts       bigint NOT NULL,
    due_at_ns      bigint NOT NULL,
    ends_at_ns     bigint NOT NULL,
    created_at_ns  bigint NOT NULL,
    updated_at_ns  bigint NOT NULL,
    code           text,
    owner          text,
    lease_until_ns bigint NOT NULL,
    request        bytea
);
CREATE UNIQUE INDEX durable_scope ON durable (project, principal, tool, key_hash);
CREATE INDEX durable_due ON durable (due_at_ns) WHERE state = 'waiting';
CREATE INDEX durable_recent ON durable (project, created_at_ns);
CREATE INDEX durable_over ON durable (updated_at_ns) WHERE state IN ('done', 'discarded');
