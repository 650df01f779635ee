-- Break-glass: what was opened for which request, by whom, and its review.
CREATE TABLE glass (
    glass_id       text PRIMARY KEY,
    project        text NOT NULL,
    approval_id    text NOT NULL REFERENCES approval (approval_id),
    document       text NOT NULL,
    digest         text NOT NULL,
    kid            text NOT NULL,
    signature      bytea NOT NULL,
    opened_at_ns   bigint NOT NULL,
    expires_at_ns  bigint NOT NULL,
    broken_at_ns   bigint,
    reviewed_at_ns bigint,
    reviewed_by    text NOT NULL DEFAULT '',
    review         text NOT NULL DEFAULT ''
);
CREATE INDEX glass_recent ON glass (project, opened_at_ns, glass_id);
CREATE INDEX glass_of ON glass (approval_id);

CREATE TABLE glass_vote (
    glass_id    text NOT NULL REFERENCES glass (glass_id),
    identity    text NOT NULL,
    voter       text NOT NULL,
    reason      text NOT NULL,
    voted_at_ns bigint NOT NULL,
    digest      text NOT NULL,
    authn       text NOT NULL,
    PRIMARY KEY (glass_id, identity)
);
ALTER TABLE approval ADD COLUMN glass_id text NOT NULL DEFAULT '';
CREATE INDEX audit_told ON audit (seq)
    WHERE kind IN ('approval_requested', 'approval_vote', 'approval_resolved', 'glass_opened', 'glass_broken', 'glass_reviewed');
DROP INDEX audit_approvals;
