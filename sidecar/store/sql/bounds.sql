-- How much each open trace holds, and all of them together: kept by triggers, whatever moves a part.
-- bytes are unpacked; lost counts the items for which there was no room.
ALTER TABLE part ADD COLUMN items INTEGER NOT NULL DEFAULT 0;
ALTER TABLE part ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0;
ALTER TABLE open_trace ADD COLUMN items INTEGER NOT NULL DEFAULT 0;
ALTER TABLE open_trace ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0;
ALTER TABLE open_trace ADD COLUMN lost INTEGER NOT NULL DEFAULT 0;
UPDATE part SET bytes = length(sealed);
UPDATE open_trace SET bytes = (SELECT total(bytes) FROM part WHERE part.open_id = open_trace.open_id);
CREATE TABLE held (
    only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
    bytes    INTEGER NOT NULL,
    traces   INTEGER NOT NULL
);
INSERT INTO held SELECT 1, (SELECT coalesce(sum(length(sealed)), 0) FROM part), (SELECT count(*) FROM open_trace);
CREATE TRIGGER part_added AFTER INSERT ON part BEGIN
    UPDATE open_trace SET items = items + new.items, bytes = bytes + new.bytes WHERE open_id = new.open_id;
    UPDATE held SET bytes = bytes + length(new.sealed);
END;
CREATE TRIGGER part_moved AFTER UPDATE OF open_id ON part BEGIN
    UPDATE open_trace SET items = items - old.items, bytes = bytes - old.bytes WHERE open_id = old.open_id;
    UPDATE open_trace SET items = items + new.items, bytes = bytes + new.bytes WHERE open_id = new.open_id;
END;
CREATE TRIGGER part_gone AFTER DELETE ON part BEGIN
    UPDATE open_trace SET items = items - old.items, bytes = bytes - old.bytes WHERE open_id = old.open_id;
    UPDATE held SET bytes = bytes - length(old.sealed);
END;
CREATE TRIGGER open_trace_added AFTER INSERT ON open_trace BEGIN
    UPDATE held SET traces = traces + 1;
END;
CREATE TRIGGER open_trace_gone AFTER DELETE ON open_trace BEGIN
    UPDATE held SET traces = traces - 1;
END;
-- What the pipeline set aside or left out, by reason, since the store was made.
CREATE TABLE dropped (
    reason TEXT PRIMARY KEY,
    items  INTEGER NOT NULL
);
CREATE INDEX trace_age ON trace (project, published_ns);
CREATE INDEX quarantine_age ON quarantine (project, stored_ns);
CREATE INDEX superseded_by ON superseded (project, by_id);
CREATE INDEX superseded_id ON superseded (trace_id);
