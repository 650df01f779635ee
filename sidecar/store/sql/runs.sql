-- Open traces that are looked at together: every key (trace id or session) leads to one open trace.
CREATE TABLE run_key (
    project       TEXT NOT NULL,
    key           TEXT NOT NULL,
    open_id       INTEGER NOT NULL,
    base_trace_id TEXT,
    base_revision INTEGER,
    PRIMARY KEY (project, key)
) WITHOUT ROWID;
CREATE INDEX run_key_of ON run_key (open_id);
INSERT INTO run_key SELECT project, key, open_id, key, base_revision FROM open_trace;
-- A part is bound to the key it came under, whatever its trace was put together with since.
ALTER TABLE part ADD COLUMN key TEXT;
UPDATE part SET key = (SELECT key FROM open_trace WHERE open_trace.open_id = part.open_id);
-- Words that traces of one run share, as digests; each leads to one open trace.
CREATE TABLE clue (
    project TEXT NOT NULL,
    word    BLOB NOT NULL,
    open_id INTEGER NOT NULL,
    PRIMARY KEY (project, word)
) WITHOUT ROWID;
CREATE INDEX clue_of ON clue (open_id);
-- Trace ids whose steps are published under another, that of the run's earliest start.
CREATE TABLE superseded (
    project  TEXT NOT NULL,
    trace_id TEXT NOT NULL,
    by_id    TEXT NOT NULL,
    PRIMARY KEY (project, trace_id)
) WITHOUT ROWID;
