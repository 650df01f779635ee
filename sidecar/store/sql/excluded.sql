-- Who never approves an agent's calls (its owner, whom it acts for) is part of what a key is.
DROP TRIGGER key_altered;
CREATE TRIGGER key_altered AFTER UPDATE ON api_key
    WHEN (old.key_id, old.kind, old.project, old.name, old.tools)
         IS NOT (new.key_id, new.kind, new.project, new.name, new.tools)
         OR (old.role, old.organisation, old.expires_at_ns, old.owner, old.on_behalf_of)
         IS NOT (new.role, new.organisation, new.expires_at_ns, new.owner, new.on_behalf_of)
         OR (old.revoked_at_ns IS NOT NULL AND new.revoked_at_ns IS NULL) BEGIN
    INSERT INTO key_change (what, project, key_id, kind)
    VALUES ('key_altered', new.project, new.key_id, new.kind);
END;
