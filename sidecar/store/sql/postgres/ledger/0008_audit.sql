-- Signed checkpoints of the chain, and changes of keys that are still to go into it.
CREATE TABLE audit_checkpoint (
    seq       bigint PRIMARY KEY,
    hash      text NOT NULL,
    at_ns     bigint NOT NULL,
    kid       text NOT NULL,
    signature bytea NOT NULL
);

CREATE TABLE key_change (
    change_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    what      text NOT NULL,
    project   text NOT NULL,
    key_id    text NOT NULL,
    kind      text NOT NULL
);
INSERT INTO key_change (what, project, key_id, kind)
    SELECT 'key_known', project, key_id, kind FROM api_key ORDER BY created_at_ns, key_id;
INSERT INTO key_change (what, project, key_id, kind)
    SELECT 'signing_key_known', '', kid, 'ed25519' FROM signing_key ORDER BY created_at_ns;
CREATE FUNCTION note_key_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO key_change (what, project, key_id, kind)
        VALUES ('key_created', new.project, new.key_id, new.kind);
    ELSIF TG_OP = 'DELETE' THEN
        INSERT INTO key_change (what, project, key_id, kind)
        VALUES ('key_deleted', old.project, old.key_id, old.kind);
    ELSE
        IF old.revoked_at_ns IS NULL AND new.revoked_at_ns IS NOT NULL THEN
            INSERT INTO key_change (what, project, key_id, kind)
            VALUES ('key_revoked', new.project, new.key_id, new.kind);
        END IF;
        IF old.secret_sha256 <> new.secret_sha256 THEN
            INSERT INTO key_change (what, project, key_id, kind)
            VALUES ('key_rotated', new.project, new.key_id, new.kind);
        END IF;
        IF (old.key_id, old.kind, old.project, old.name, old.tools)
           IS DISTINCT FROM (new.key_id, new.kind, new.project, new.name, new.tools)
           OR (old.role, old.organisation, old.expires_at_ns)
           IS DISTINCT FROM (new.role, new.organisation, new.expires_at_ns)
           OR (old.revoked_at_ns IS NOT NULL AND new.revoked_at_ns IS NULL) THEN
            INSERT INTO key_change (what, project, key_id, kind)
            VALUES ('key_altered', new.project, new.key_id, new.kind);
        END IF;
    END IF;
    RETURN NULL;
END
$$;
CREATE TRIGGER key_changed AFTER INSERT OR UPDATE OR DELETE ON api_key
    FOR EACH ROW EXECUTE FUNCTION note_key_change();
CREATE FUNCTION note_signing_key() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO key_change (what, project, key_id, kind)
    VALUES ('signing_key_created', '', new.kid, 'ed25519');
    RETURN NULL;
END
$$;
CREATE TRIGGER signing_key_made AFTER INSERT ON signing_key
    FOR EACH ROW EXECUTE FUNCTION note_signing_key();
