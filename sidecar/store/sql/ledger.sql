-- Claims, calls, approvals, holds, signing keys and the audit chain. Second script of ledger.db.
CREATE TABLE claim (
    claim_id       INTEGER PRIMARY KEY,
    project        TEXT NOT NULL,
    principal      TEXT NOT NULL,
    tool           TEXT NOT NULL,
    key_hash       TEXT,
    fingerprint    TEXT NOT NULL,
    state          TEXT NOT NULL CHECK (state IN ('claimed', 'sent', 'completed', 'failed_safe',
                                                  'unknown', 'resolved_done', 'resolved_not_done')),
    owner          TEXT NOT NULL,
    lease_until_ns INTEGER NOT NULL,
    fence          INTEGER NOT NULL,
    attempt        INTEGER NOT NULL,
    call_id        TEXT NOT NULL,
    updated_at_ns  INTEGER NOT NULL,
    expires_at_ns  INTEGER NOT NULL,
    approval_id    TEXT,
    receipt_id     TEXT,
    reason         TEXT,
    answer         BLOB
);
CREATE UNIQUE INDEX claim_scope ON claim (project, principal, tool, key_hash)
    WHERE key_hash IS NOT NULL;
CREATE INDEX claim_open ON claim (state) WHERE state IN ('claimed', 'sent', 'unknown');
CREATE UNIQUE INDEX claim_call ON claim (call_id);

CREATE TABLE call (
    call_id         TEXT PRIMARY KEY,
    project         TEXT NOT NULL,
    principal       TEXT NOT NULL,
    tool            TEXT NOT NULL,
    class           TEXT NOT NULL,
    phase           TEXT NOT NULL,
    status          INTEGER NOT NULL,
    effect          TEXT NOT NULL,
    decision_effect TEXT NOT NULL,
    code            TEXT,
    approval_id     TEXT,
    trace_id        TEXT,
    started_at_ns   INTEGER NOT NULL,
    finished_at_ns  INTEGER NOT NULL,
    arguments       BLOB
);
CREATE INDEX call_recent ON call (project, started_at_ns);
CREATE INDEX call_trace ON call (trace_id) WHERE trace_id IS NOT NULL;

CREATE TABLE receipt (
    receipt_id TEXT PRIMARY KEY,
    call_id    TEXT NOT NULL,
    seq        INTEGER NOT NULL
);
CREATE INDEX receipt_call ON receipt (call_id, seq);
CREATE UNIQUE INDEX receipt_seq ON receipt (seq);

CREATE TABLE approval (
    approval_id     TEXT PRIMARY KEY,
    project         TEXT NOT NULL,
    requester       TEXT NOT NULL,
    requester_name  TEXT NOT NULL,
    tool            TEXT NOT NULL,
    action_hash     TEXT NOT NULL,
    key_hash        TEXT NOT NULL,
    policy_revision TEXT NOT NULL,
    tool_digest     TEXT NOT NULL,
    status          TEXT NOT NULL CHECK (status IN ('pending', 'approved', 'denied', 'expired', 'consumed')),
    summary         BLOB NOT NULL,
    shown_digest    TEXT NOT NULL,
    roles           TEXT NOT NULL,
    requested_at_ns INTEGER NOT NULL,
    expires_at_ns   INTEGER NOT NULL,
    approvers_min   INTEGER NOT NULL,
    decision_id     TEXT NOT NULL,
    trace_id        TEXT,
    consumed_by     TEXT,
    restored        INTEGER NOT NULL DEFAULT 0,
    token_taken     INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX approval_action ON approval (project, requester, tool, key_hash, action_hash);
CREATE INDEX approval_recent ON approval (project, requested_at_ns);

CREATE TABLE vote (
    approval_id  TEXT NOT NULL REFERENCES approval (approval_id),
    voter        TEXT NOT NULL,
    identity     TEXT NOT NULL,
    decision     TEXT NOT NULL CHECK (decision IN ('approve', 'deny')),
    reason       TEXT NOT NULL,
    voted_at_ns  INTEGER NOT NULL,
    shown_digest TEXT NOT NULL,
    PRIMARY KEY (approval_id, identity)
);

CREATE TABLE hold (
    call_id  TEXT NOT NULL,
    scope    TEXT NOT NULL,
    project  TEXT NOT NULL,
    amount   TEXT NOT NULL,
    currency TEXT NOT NULL,
    state    TEXT NOT NULL CHECK (state IN ('held', 'settled', 'released')),
    PRIMARY KEY (call_id, scope)
);

CREATE TABLE signing_key (
    kid           TEXT PRIMARY KEY,
    public        BLOB NOT NULL,
    sealed        BLOB NOT NULL,
    created_at_ns INTEGER NOT NULL
);

CREATE TABLE gateway_state (
    name  TEXT PRIMARY KEY,
    value BLOB NOT NULL
);

CREATE TABLE audit (
    seq     INTEGER PRIMARY KEY,
    at_ns   INTEGER NOT NULL,
    project TEXT NOT NULL,
    kind    TEXT NOT NULL,
    body    TEXT NOT NULL,
    prev    TEXT NOT NULL,
    hash    TEXT NOT NULL
);

CREATE TABLE audit_head (
    id           INTEGER PRIMARY KEY CHECK (id = 1),
    seq          INTEGER NOT NULL,
    hash         TEXT NOT NULL,
    signed_at_ns INTEGER NOT NULL,
    kid          TEXT NOT NULL,
    signature    BLOB NOT NULL
);
