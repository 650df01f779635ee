-- Break-glass: what was opened for which request, by whom, and its review.
CREATE TABLE glass (
    glass_id       TEXT PRIMARY KEY,
    project        TEXT NOT NULL,
    approval_id    TEXT NOT NULL REFERENCES approval (approval_id),
    document       TEXT NOT NULL,
    digest         TEXT NOT NULL,
    kid            TEXT NOT NULL,
    signature      BLOB NOT NULL,
    opened_at_ns   INTEGER NOT NULL,
    expires_at_ns  INTEGER NOT NULL,
    broken_at_ns   INTEGER,
    reviewed_at_ns INTEGER,
    reviewed_by    TEXT NOT NULL DEFAULT '',
    review         TEXT NOT NULL DEFAULT ''
);
CREATE INDEX glass_recent ON glass (project, opened_at_ns, glass_id);
CREATE INDEX glass_of ON glass (approval_id);

CREATE TABLE glass_vote (
    glass_id    TEXT NOT NULL REFERENCES glass (glass_id),
    identity    TEXT NOT NULL,
    voter       TEXT NOT NULL,
    reason      TEXT NOT NULL,
    voted_at_ns INTEGER NOT NULL,
    digest      TEXT NOT NULL,
    authn       TEXT NOT NULL,
    PRIMARY KEY (glass_id, identity)
);
ALTER TABLE approval ADD COLUMN glass_id TEXT NOT NULL DEFAULT '';
CREATE INDEX audit_told ON audit (seq)
    WHERE kind IN ('approval_requested', 'approval_vote', 'approval_resolved', 'glass_opened', 'glass_broken', 'glass_reviewed');
DROP INDEX audit_approvals;
