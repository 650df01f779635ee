-- Credentials and wrapped data keys.
CREATE TABLE api_key (
    key_id            text PRIMARY KEY,
    kind              text NOT NULL CHECK (kind IN ('agent', 'approver', 'reader', 'admin')),
    project           text NOT NULL,
    name              text NOT NULL,
    secret_sha256     text NOT NULL,
    created_at_ns     bigint NOT NULL,
    revoked_at_ns     bigint,
    role              text CHECK (role IN ('owner', 'admin', 'engineer', 'reviewer', 'viewer')),
    organisation      text,
    tools             text NOT NULL DEFAULT '',
    expires_at_ns     bigint,
    previous_sha256   text,
    previous_until_ns bigint
);
CREATE TABLE data_key (
    project       text NOT NULL,
    number        integer NOT NULL CHECK (number BETWEEN 0 AND 65535),
    wrapped       bytea NOT NULL,
    created_at_ns bigint,
    PRIMARY KEY (project, number)
);
CREATE TABLE redaction_key (
    project       text NOT NULL,
    key_id        text NOT NULL,
    sealed        bytea NOT NULL,
    created_at_ns bigint NOT NULL,
    retires_at_ns bigint,
    PRIMARY KEY (project, key_id)
);
CREATE UNIQUE INDEX redaction_key_current ON redaction_key (project) WHERE retires_at_ns IS NULL;

-- Claims, calls, approvals, holds, signing keys and the audit chain.
CREATE TABLE claim (
    claim_id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    project        text NOT NULL,
    principal      text NOT NULL,
    tool           text NOT NULL,
    key_hash       text,
    fingerprint    text NOT NULL,
    state          text NOT NULL CHECK (state IN ('claimed', 'sent', 'completed', 'failed_safe',
                                                  'unknown', 'resolved_done', 'resolved_not_done')),
    owner          text NOT NULL,
    lease_until_ns bigint NOT NULL,
    fence          bigint NOT NULL,
    attempt        bigint NOT NULL,
    call_id        text NOT NULL,
    updated_at_ns  bigint NOT NULL,
    expires_at_ns  bigint NOT NULL,
    approval_id    text,
    receipt_id     text,
    reason         text,
    answer         bytea
);
CREATE UNIQUE INDEX claim_scope ON claim (project, principal, tool, key_hash) WHERE key_hash IS NOT NULL;
CREATE INDEX claim_open ON claim (state, claim_id) WHERE state IN ('claimed', 'sent', 'unknown');
CREATE UNIQUE INDEX claim_call ON claim (call_id);

-- Whose claims are whose: a running gateway holds the advisory lock of its name (see postgres/owner.py).
CREATE TABLE owner (
    name       text PRIMARY KEY,
    missed_at  timestamptz
);

CREATE TABLE call (
    call_id         text PRIMARY KEY,
    project         text NOT NULL,
    principal       text NOT NULL,
    tool            text NOT NULL,
    class           text NOT NULL,
    phase           text NOT NULL,
    status          integer NOT NULL,
    effect          text NOT NULL,
    decision_effect text NOT NULL,
    code            text,
    approval_id     text,
    trace_id        text,
    started_at_ns   bigint NOT NULL,
    finished_at_ns  bigint NOT NULL,
    arguments       bytea
);
CREATE INDEX call_recent ON call (project, started_at_ns, call_id);
CREATE INDEX call_all_recent ON call (started_at_ns, call_id);
CREATE INDEX call_trace ON call (trace_id, started_at_ns) WHERE trace_id IS NOT NULL;

CREATE TABLE receipt (
    receipt_id text PRIMARY KEY,
    call_id    text NOT NULL,
    seq        bigint NOT NULL
);
CREATE INDEX receipt_call ON receipt (call_id, seq);
CREATE UNIQUE INDEX receipt_seq ON receipt (seq);

CREATE TABLE approval (
    approval_id     text PRIMARY KEY,
    project         text NOT NULL,
    requester       text NOT NULL,
    requester_name  text NOT NULL,
    tool            text NOT NULL,
    action_hash     text NOT NULL,
    key_hash        text NOT NULL,
    policy_revision text NOT NULL,
    tool_digest     text NOT NULL,
    status          text NOT NULL CHECK (status IN ('pending', 'approved', 'denied', 'expired', 'consumed')),
    summary         bytea NOT NULL,
    shown_digest    text NOT NULL,
    roles           text NOT NULL,
    requested_at_ns bigint NOT NULL,
    expires_at_ns   bigint NOT NULL,
    approvers_min   integer NOT NULL,
    decision_id     text NOT NULL,
    trace_id        text,
    consumed_by     text,
    restored        integer NOT NULL DEFAULT 0,
    token_taken     boolean NOT NULL DEFAULT false
);
CREATE INDEX approval_action ON approval (project, requester, tool, key_hash, action_hash);
CREATE INDEX approval_recent ON approval (project, requested_at_ns, approval_id);
CREATE INDEX approval_all_recent ON approval (requested_at_ns, approval_id);
CREATE INDEX approval_consumed ON approval (consumed_by) WHERE consumed_by IS NOT NULL;

CREATE TABLE vote (
    approval_id  text NOT NULL REFERENCES approval (approval_id),
    voter        text NOT NULL,
    identity     text NOT NULL,
    decision     text NOT NULL CHECK (decision IN ('approve', 'deny')),
    reason       text NOT NULL,
    voted_at_ns  bigint NOT NULL,
    shown_digest text NOT NULL,
    PRIMARY KEY (approval_id, identity)
);

CREATE TABLE hold (
    call_id  text NOT NULL,
    scope    text NOT NULL,
    project  text NOT NULL,
    amount   text NOT NULL,
    currency text NOT NULL,
    state    text NOT NULL CHECK (state IN ('held', 'settled', 'released')),
    PRIMARY KEY (call_id, scope)
);

CREATE TABLE signing_key (
    kid           text PRIMARY KEY,
    public        bytea NOT NULL,
    sealed        bytea NOT NULL,
    created_at_ns bigint NOT NULL
);

CREATE TABLE gateway_state (
    name  text PRIMARY KEY,
    value bytea NOT NULL
);

CREATE TABLE audit (
    seq     bigint PRIMARY KEY,
    at_ns   bigint NOT NULL,
    project text NOT NULL,
    kind    text NOT NULL,
    body    text NOT NULL,
    prev    text NOT NULL,
    hash    text NOT NULL
);

-- One row: the signed end of the chain. Whoever writes the ledger locks it first: one appender at a time.
CREATE TABLE audit_head (
    id           integer PRIMARY KEY CHECK (id = 1),
    seq          bigint NOT NULL,
    hash         text NOT NULL,
    signed_at_ns bigint NOT NULL,
    kid          text NOT NULL,
    signature    bytea NOT NULL
);
INSERT INTO audit_head VALUES
    (1, 0, 'sha256:0000000000000000000000000000000000000000000000000000000000000000', 0, '', '');
