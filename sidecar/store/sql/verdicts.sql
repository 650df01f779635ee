-- Gate verdicts: a verdict is written once and never changed.
CREATE TABLE verdict (
    verdict_id    TEXT PRIMARY KEY,
    project       TEXT NOT NULL,
    suite         TEXT NOT NULL,
    baseline      TEXT NOT NULL,
    candidate     TEXT NOT NULL,
    status        TEXT,
    exit_code     INTEGER NOT NULL,
    created_at_ns INTEGER NOT NULL,
    digest        TEXT NOT NULL,
    content       BLOB NOT NULL
);
CREATE INDEX verdict_newest ON verdict (project, created_at_ns);
