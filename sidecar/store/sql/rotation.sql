-- Data keys that follow a project's first, and the keys of redaction's digests. Third script of ledger.db.
CREATE TABLE later_data_key (
    project       TEXT NOT NULL,
    number        INTEGER NOT NULL CHECK (number BETWEEN 1 AND 65535),
    wrapped       BLOB NOT NULL,
    created_at_ns INTEGER NOT NULL,
    PRIMARY KEY (project, number)
);
CREATE TABLE redaction_key (
    project       TEXT NOT NULL,
    key_id        TEXT NOT NULL,
    sealed        BLOB NOT NULL,
    created_at_ns INTEGER NOT NULL,
    retires_at_ns INTEGER,
    PRIMARY KEY (project, key_id)
);
CREATE UNIQUE INDEX redaction_key_current ON redaction_key (project) WHERE retires_at_ns IS NULL;
