-- Who is signed in to the approval pages, and sign-ins under way; found by digest, sealed.
CREATE TABLE page_state (
    digest        text PRIMARY KEY,
    kind          text NOT NULL CHECK (kind IN ('session', 'login')),
    owner         text NOT NULL,
    sealed        bytea NOT NULL,
    used_at_ns    bigint NOT NULL,
    expires_at_ns bigint NOT NULL
);
CREATE INDEX page_state_used ON page_state (kind, used_at_ns);
