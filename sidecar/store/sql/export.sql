-- What is to be sent on, in the order in which it became known: OTLP requests, redacted and sealed.
-- end_offset counts the sealed bytes of all rows up to and including this one.
CREATE TABLE export_item (
    seq        INTEGER PRIMARY KEY AUTOINCREMENT,
    project    TEXT NOT NULL,
    signal     TEXT NOT NULL,
    items      INTEGER NOT NULL,
    end_offset INTEGER NOT NULL,
    stored_ns  INTEGER NOT NULL,
    sealed     BLOB NOT NULL
);
-- How far each exporter has come; what no exporter needs any more is deleted.
CREATE TABLE export_cursor (
    name       TEXT PRIMARY KEY,
    seq        INTEGER NOT NULL,
    end_offset INTEGER NOT NULL,
    bytes_max  INTEGER NOT NULL
);
-- What became of the items behind the cursors.
CREATE TABLE export_tally (
    name   TEXT NOT NULL,
    signal TEXT NOT NULL,
    fate   TEXT NOT NULL,
    items  INTEGER NOT NULL,
    PRIMARY KEY (name, signal, fate)
);
-- Which items of an open trace have left: digests of 16 bytes, one after another.
CREATE TABLE export_sent (
    open_id INTEGER PRIMARY KEY,
    digests BLOB NOT NULL
);
