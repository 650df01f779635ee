-- Which sidecar was last seen to have which exporter: the place of one that another has is kept.
CREATE TABLE export_seen (
    name    text COLLATE "C" NOT NULL,
    source  text NOT NULL,
    seen_at timestamptz NOT NULL,
    PRIMARY KEY (name, source)
);
-- Whose the places of before are is not known.
INSERT INTO export_seen SELECT name, '', clock_timestamp() FROM export_cursor;
