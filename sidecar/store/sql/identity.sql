-- What a key may do and until when, and the secret that a rotation replaces. Fourth script of ledger.db.
ALTER TABLE api_key ADD COLUMN role TEXT
    CHECK (role IN ('owner', 'admin', 'engineer', 'reviewer', 'viewer'));
ALTER TABLE api_key ADD COLUMN organisation TEXT;
ALTER TABLE api_key ADD COLUMN tools TEXT NOT NULL DEFAULT '';
ALTER TABLE api_key ADD COLUMN expires_at_ns INTEGER;
ALTER TABLE api_key ADD COLUMN previous_sha256 TEXT;
ALTER TABLE api_key ADD COLUMN previous_until_ns INTEGER;
