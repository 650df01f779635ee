-- A request is decided by one moment and used by another.
ALTER TABLE approval ADD COLUMN decide_by_ns INTEGER NOT NULL DEFAULT 0;
ALTER TABLE approval ADD COLUMN execute_by_ns INTEGER NOT NULL DEFAULT 0;
UPDATE approval SET decide_by_ns = expires_at_ns, execute_by_ns = expires_at_ns;
