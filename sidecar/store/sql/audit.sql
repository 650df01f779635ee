-- Signed checkpoints of the chain, and changes of keys that are still to go into it.
CREATE TABLE audit_checkpoint (
    seq       INTEGER PRIMARY KEY,
    hash      TEXT NOT NULL,
    at_ns     INTEGER NOT NULL,
    kid       TEXT NOT NULL,
    signature BLOB NOT NULL
);

CREATE TABLE key_change (
    change_id INTEGER PRIMARY KEY,
    what      TEXT NOT NULL,
    project   TEXT NOT NULL,
    key_id    TEXT NOT NULL,
    kind      TEXT NOT NULL
);
INSERT INTO key_change (what, project, key_id, kind)
    SELECT 'key_known', project, key_id, kind FROM api_key ORDER BY created_at_ns, key_id;
INSERT INTO key_change (what, project, key_id, kind)
    SELECT 'signing_key_known', '', kid, 'ed25519' FROM signing_key ORDER BY created_at_ns;
CREATE TRIGGER key_created AFTER INSERT ON api_key BEGIN
    INSERT INTO key_change (what, project, key_id, kind)
    VALUES ('key_created', new.project, new.key_id, new.kind);
END;
CREATE TRIGGER key_revoked AFTER UPDATE ON api_key
    WHEN old.revoked_at_ns IS NULL AND new.revoked_at_ns IS NOT NULL BEGIN
    INSERT INTO key_change (what, project, key_id, kind)
    VALUES ('key_revoked', new.project, new.key_id, new.kind);
END;
CREATE TRIGGER key_rotated AFTER UPDATE ON api_key
    WHEN old.secret_sha256 <> new.secret_sha256 BEGIN
    INSERT INTO key_change (what, project, key_id, kind)
    VALUES ('key_rotated', new.project, new.key_id, new.kind);
END;
CREATE TRIGGER key_altered AFTER UPDATE ON api_key
    WHEN (old.key_id, old.kind, old.project, old.name, old.tools)
         IS NOT (new.key_id, new.kind, new.project, new.name, new.tools)
         OR (old.role, old.organisation, old.expires_at_ns)
         IS NOT (new.role, new.organisation, new.expires_at_ns)
         OR (old.revoked_at_ns IS NOT NULL AND new.revoked_at_ns IS NULL) BEGIN
    INSERT INTO key_change (what, project, key_id, kind)
    VALUES ('key_altered', new.project, new.key_id, new.kind);
END;
CREATE TRIGGER key_deleted AFTER DELETE ON api_key BEGIN
    INSERT INTO key_change (what, project, key_id, kind)
    VALUES ('key_deleted', old.project, old.key_id, old.kind);
END;
CREATE TRIGGER signing_key_created AFTER INSERT ON signing_key BEGIN
    INSERT INTO key_change (what, project, key_id, kind)
    VALUES ('signing_key_created', '', new.kid, 'ed25519');
END;
