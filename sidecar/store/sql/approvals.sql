-- Who asks and who approves how often, and what runs out next. Sixth script of ledger.db.
CREATE INDEX vote_person ON vote (identity, voted_at_ns);
CREATE INDEX approval_asked ON approval (project, requester, requested_at_ns);
CREATE INDEX approval_waiting ON approval (expires_at_ns) WHERE status IN ('pending', 'approved');
