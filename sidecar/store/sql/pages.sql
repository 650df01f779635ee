-- Who is signed in to the approval pages, and sign-ins under way; found by digest, sealed.
CREATE TABLE page_state (
    digest        TEXT PRIMARY KEY,
    kind          TEXT NOT NULL CHECK (kind IN ('session', 'login')),
    owner         TEXT NOT NULL,
    sealed        BLOB NOT NULL,
    used_at_ns    INTEGER NOT NULL,
    expires_at_ns INTEGER NOT NULL
);
CREATE INDEX page_state_used ON page_state (kind, used_at_ns);
