-- What an earlier attempt may have done; the same action without a key; what expires. After identity.
ALTER TABLE claim ADD COLUMN possible INTEGER NOT NULL DEFAULT 0;
CREATE INDEX claim_same ON claim (project, principal, tool, fingerprint);
CREATE INDEX claim_expiry ON claim (expires_at_ns)
    WHERE state IN ('completed', 'failed_safe', 'resolved_done', 'resolved_not_done');
CREATE INDEX claim_answer ON claim (expires_at_ns) WHERE answer IS NOT NULL;
