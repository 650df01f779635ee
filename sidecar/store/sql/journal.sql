-- The journal: sealed requests in order of arrival. end_offset is the running total of stored bytes, so
-- that the size of what is kept is a difference of two numbers.
CREATE TABLE record (
    seq         INTEGER PRIMARY KEY AUTOINCREMENT,
    project     TEXT NOT NULL,
    principal   TEXT NOT NULL,
    signal      TEXT NOT NULL,
    encoding    TEXT NOT NULL,
    received_ns INTEGER NOT NULL,
    end_offset  INTEGER NOT NULL,
    sealed      BLOB NOT NULL
);
-- One row: which journal this is, and the last record that was deleted.
CREATE TABLE tail (
    only_row    INTEGER PRIMARY KEY CHECK (only_row = 1),
    journal_id  TEXT NOT NULL,
    seq         INTEGER NOT NULL,
    end_offset  INTEGER NOT NULL
);
