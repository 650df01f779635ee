-- Datasets: a version is written once; an item stands in every version from added_in on, until the
-- one it was removed in. What it says may be erased, its digest stays.
CREATE TABLE dataset_version (
    project       TEXT NOT NULL,
    name          TEXT NOT NULL,
    version       INTEGER NOT NULL,
    digest        TEXT NOT NULL,
    items         INTEGER NOT NULL,
    created_at_ns INTEGER NOT NULL,
    PRIMARY KEY (project, name, version)
) WITHOUT ROWID;
CREATE TABLE dataset_item (
    project     TEXT NOT NULL,
    name        TEXT NOT NULL,
    item_id     TEXT NOT NULL,
    added_in    INTEGER NOT NULL,
    removed_in  INTEGER,
    place       INTEGER NOT NULL,
    digest      TEXT NOT NULL,
    question    TEXT NOT NULL,
    trace_id    TEXT,
    captured    INTEGER NOT NULL,
    added_at_ns INTEGER NOT NULL,
    size_bytes  INTEGER NOT NULL,
    content     BLOB,
    PRIMARY KEY (project, name, item_id, added_in)
);
CREATE INDEX dataset_item_of_trace ON dataset_item (project, trace_id) WHERE trace_id IS NOT NULL;
CREATE INDEX dataset_item_age ON dataset_item (project, added_at_ns)
    WHERE captured = 1 AND content IS NOT NULL;
