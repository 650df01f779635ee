-- Signing keys follow one another and are revoked; what is done to keys that seal and digest is noted.
ALTER TABLE signing_key ADD COLUMN signs_from_ns bigint NOT NULL DEFAULT 0;
ALTER TABLE signing_key ADD COLUMN revoked_at_ns bigint;
CREATE FUNCTION note_signing_key_revoked() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO key_change (what, project, key_id, kind)
    VALUES ('signing_key_revoked', '', new.kid, 'ed25519');
    RETURN NULL;
END
$$;
CREATE TRIGGER signing_key_revoked AFTER UPDATE ON signing_key FOR EACH ROW
    WHEN (old.revoked_at_ns IS NULL AND new.revoked_at_ns IS NOT NULL)
    EXECUTE FUNCTION note_signing_key_revoked();
CREATE FUNCTION note_data_key() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO key_change (what, project, key_id, kind)
    VALUES ('data_key_rotated', new.project, new.number::text, 'aes-256-gcm');
    RETURN NULL;
END
$$;
CREATE TRIGGER data_key_rotated AFTER INSERT ON data_key FOR EACH ROW
    WHEN (new.number > 0) EXECUTE FUNCTION note_data_key();
CREATE FUNCTION note_redaction_key() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO key_change (what, project, key_id, kind)
    VALUES ('redaction_key_rotated', new.project, new.key_id, 'hmac-sha256');
    RETURN NULL;
END
$$;
CREATE TRIGGER redaction_key_rotated AFTER UPDATE ON redaction_key FOR EACH ROW
    WHEN (old.retires_at_ns IS NULL AND new.retires_at_ns IS NOT NULL)
    EXECUTE FUNCTION note_redaction_key();
