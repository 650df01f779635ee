-- Who never approves an agent's calls (its owner, whom it acts for) is part of what a key is.
CREATE OR REPLACE FUNCTION note_key_change() RETURNS trigger LANGUAGE plpgsql AS $$
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
           OR (old.role, old.organisation, old.expires_at_ns, old.owner, old.on_behalf_of)
           IS DISTINCT FROM
           (new.role, new.organisation, new.expires_at_ns, new.owner, new.on_behalf_of)
           OR (old.revoked_at_ns IS NOT NULL AND new.revoked_at_ns IS NULL) THEN
            INSERT INTO key_change (what, project, key_id, kind)
            VALUES ('key_altered', new.project, new.key_id, new.kind);
        END IF;
    END IF;
    RETURN NULL;
END
$$;
