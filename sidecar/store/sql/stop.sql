-- Kill switches and freezes: who set them, and who wants them lifted.
CREATE TABLE stop (
    stop_id      TEXT PRIMARY KEY,
    project      TEXT NOT NULL,
    kind         TEXT NOT NULL CHECK (kind IN ('kill', 'freeze')),
    scope        TEXT NOT NULL CHECK (scope IN ('project', 'agent', 'tool')),
    subject      TEXT NOT NULL,
    reason       TEXT NOT NULL,
    set_by       TEXT NOT NULL,
    set_at_ns    INTEGER NOT NULL,
    lifted_at_ns INTEGER
);
CREATE UNIQUE INDEX stop_active ON stop (project, scope, subject, kind) WHERE lifted_at_ns IS NULL;
CREATE INDEX stop_recent ON stop (project, set_at_ns);

CREATE TABLE stop_lift (
    stop_id  TEXT NOT NULL REFERENCES stop (stop_id),
    identity TEXT NOT NULL,
    lifter   TEXT NOT NULL,
    reason   TEXT NOT NULL,
    at_ns    INTEGER NOT NULL,
    PRIMARY KEY (stop_id, identity)
) WITHOUT ROWID;
