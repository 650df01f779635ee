-- Credentials and wrapped data keys. First script of ledger.db.
CREATE TABLE api_key (
    key_id        TEXT PRIMARY KEY,
    kind          TEXT NOT NULL CHECK (kind IN ('agent', 'approver', 'reader', 'admin')),
    project       TEXT NOT NULL,
    name          TEXT NOT NULL,
    secret_sha256 TEXT NOT NULL,
    created_at_ns INTEGER NOT NULL,
    revoked_at_ns INTEGER
);
CREATE TABLE data_key (
    project TEXT PRIMARY KEY,
    wrapped BLOB NOT NULL
);
