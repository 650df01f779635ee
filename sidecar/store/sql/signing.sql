-- Signing keys follow one another and are revoked; what is done to keys that seal and digest is noted.
ALTER TABLE signing_key ADD COLUMN signs_from_ns INTEGER NOT NULL DEFAULT 0;
ALTER TABLE signing_key ADD COLUMN revoked_at_ns INTEGER;
CREATE TRIGGER signing_key_revoked AFTER UPDATE ON signing_key
    WHEN old.revoked_at_ns IS NULL AND new.revoked_at_ns IS NOT NULL BEGIN
    INSERT INTO key_change (what, project, key_id, kind)
    VALUES ('signing_key_revoked', '', new.kid, 'ed25519');
END;
CREATE TRIGGER data_key_rotated AFTER INSERT ON later_data_key BEGIN
    INSERT INTO key_change (what, project, key_id, kind)
    VALUES ('data_key_rotated', new.project, CAST(new.number AS TEXT), 'aes-256-gcm');
END;
CREATE TRIGGER redaction_key_rotated AFTER UPDATE ON redaction_key
    WHEN old.retires_at_ns IS NULL AND new.retires_at_ns IS NOT NULL BEGIN
    INSERT INTO key_change (what, project, key_id, kind)
    VALUES ('redaction_key_rotated', new.project, new.key_id, 'hmac-sha256');
END;
