-- How far each source has been taken in.
CREATE TABLE cursor (
    name     TEXT PRIMARY KEY,
    position INTEGER NOT NULL
);
-- Traces whose telemetry is still kept, so that late data re-opens them.
CREATE TABLE open_trace (
    open_id           INTEGER PRIMARY KEY,
    project           TEXT NOT NULL,
    key               TEXT NOT NULL,
    version           INTEGER NOT NULL,
    published_version INTEGER NOT NULL DEFAULT 0,
    touched_ns        INTEGER NOT NULL,
    dirty_ns          INTEGER NOT NULL,
    expires_ns        INTEGER NOT NULL,
    base_revision     INTEGER,
    fault             TEXT,
    UNIQUE (project, key)
);
CREATE INDEX open_trace_due ON open_trace (touched_ns) WHERE version > published_version;
CREATE INDEX open_trace_expiry ON open_trace (expires_ns);
CREATE TABLE part (
    part_id    INTEGER PRIMARY KEY,
    open_id    INTEGER NOT NULL,
    kind       TEXT NOT NULL,
    sealed     BLOB NOT NULL
);
CREATE INDEX part_of ON part (open_id);
-- Published, redacted; one row a revision.
CREATE TABLE trace (
    row_id          INTEGER PRIMARY KEY,
    project         TEXT NOT NULL,
    trace_id        TEXT NOT NULL,
    revision        INTEGER NOT NULL,
    newest          INTEGER NOT NULL,
    service         TEXT,
    service_version TEXT,
    started_ns      INTEGER NOT NULL,
    ended_ns        INTEGER NOT NULL,
    steps           INTEGER NOT NULL,
    completeness    TEXT NOT NULL,
    outcome         TEXT NOT NULL,
    contradictions  TEXT NOT NULL,
    published_ns    INTEGER NOT NULL,
    facts_digest    TEXT NOT NULL,
    content_digest  TEXT NOT NULL,
    content         BLOB NOT NULL,
    UNIQUE (trace_id, project, revision)
);
CREATE INDEX trace_newest ON trace (project, started_ns) WHERE newest = 1;
-- Records that could not be taken in, as they stood.
CREATE TABLE quarantine (
    row_id     INTEGER PRIMARY KEY,
    source     TEXT NOT NULL,
    seq        INTEGER NOT NULL,
    project    TEXT NOT NULL,
    reason     TEXT NOT NULL,
    stored_ns  INTEGER NOT NULL,
    sealed     BLOB NOT NULL,
    UNIQUE (source, seq)
);
