-- Ids and names sort by their bytes, whatever the database's language is.

-- How far each source has been taken in.
CREATE TABLE cursor (
    name     text COLLATE "C" PRIMARY KEY,
    position bigint NOT NULL
) WITH (fillfactor = 50);

-- Traces whose telemetry is still kept, so that late data re-opens them; items and bytes (unpacked)
-- are of their telemetry, sealed_bytes is what all their parts take, lost what had no room.
CREATE SEQUENCE open_id;
CREATE TABLE open_trace (
    open_id           bigint PRIMARY KEY,
    project           text COLLATE "C" NOT NULL,
    key               text COLLATE "C" NOT NULL,
    version           bigint NOT NULL,
    published_version bigint NOT NULL DEFAULT 0,
    touched_ns        bigint NOT NULL,
    dirty_ns          bigint NOT NULL,
    expires_ns        bigint NOT NULL,
    items             bigint NOT NULL DEFAULT 0,
    bytes             bigint NOT NULL DEFAULT 0,
    sealed_bytes      bigint NOT NULL DEFAULT 0,
    lost              bigint NOT NULL DEFAULT 0,
    fault             text
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX open_trace_due ON open_trace (touched_ns, open_id) WHERE version > published_version;
CREATE INDEX open_trace_expiry ON open_trace (expires_ns) WHERE version = published_version;
CREATE TABLE part (
    part_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    open_id bigint NOT NULL,
    kind    text NOT NULL,
    key     text COLLATE "C" NOT NULL,
    items   bigint NOT NULL,
    bytes   bigint NOT NULL,
    sealed  bytea NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.05);
ALTER TABLE part ALTER COLUMN sealed SET STORAGE EXTERNAL;
CREATE INDEX part_of ON part (open_id, part_id);
-- Open traces that are looked at together: every key (trace id or session) leads to one open trace.
CREATE TABLE run_key (
    project       text COLLATE "C" NOT NULL,
    key           text COLLATE "C" NOT NULL,
    open_id       bigint NOT NULL,
    base_trace_id text COLLATE "C",
    base_revision integer,
    PRIMARY KEY (project, key)
);
CREATE INDEX run_key_of ON run_key (open_id);
-- Words that traces of one run share, as digests; each leads to one open trace.
CREATE TABLE clue (
    project text COLLATE "C" NOT NULL,
    word    bytea NOT NULL,
    open_id bigint NOT NULL,
    PRIMARY KEY (project, word)
);
CREATE INDEX clue_of ON clue (open_id);
-- What all open traces hold, as each source added and took away: the sum over the sources is true,
-- and no two sidecars wait for one row.
CREATE TABLE held (
    source text COLLATE "C" PRIMARY KEY,
    bytes  bigint NOT NULL,
    traces bigint NOT NULL
) WITH (fillfactor = 50);

-- Published, redacted; one row a revision. Numbers grow in the order of the commits.
CREATE TABLE trace (
    row_id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    project         text COLLATE "C" NOT NULL,
    trace_id        text COLLATE "C" NOT NULL,
    revision        integer NOT NULL,
    newest          boolean NOT NULL,
    service         text,
    service_version text,
    started_ns      bigint NOT NULL,
    ended_ns        bigint NOT NULL,
    steps           integer NOT NULL,
    completeness    text NOT NULL,
    outcome         text NOT NULL,
    contradictions  text NOT NULL,
    published_ns    bigint NOT NULL,
    facts_digest    text NOT NULL,
    content_digest  text NOT NULL,
    UNIQUE (trace_id, project, revision)
);
CREATE INDEX trace_newest ON trace (project, started_ns DESC, trace_id) WHERE newest;
CREATE INDEX trace_age ON trace (project, published_ns);
-- What the revisions say, by the day of publication: a day that nobody keeps any more goes whole.
CREATE TABLE trace_content (
    row_id       bigint NOT NULL,
    project      text COLLATE "C" NOT NULL,
    published_ns bigint NOT NULL,
    content      bytea NOT NULL,
    PRIMARY KEY (published_ns, row_id)
) PARTITION BY RANGE (published_ns);
ALTER TABLE trace_content ALTER COLUMN content SET STORAGE EXTERNAL;
CREATE INDEX trace_content_of ON trace_content (project);
-- Where a day of its own could not be made: its rows are deleted one by one.
CREATE TABLE trace_content_rest PARTITION OF trace_content DEFAULT;
-- Trace ids whose steps are published under another, that of the run's earliest start.
CREATE TABLE superseded (
    project  text COLLATE "C" NOT NULL,
    trace_id text COLLATE "C" NOT NULL,
    by_id    text COLLATE "C" NOT NULL,
    PRIMARY KEY (project, trace_id)
);
CREATE INDEX superseded_by ON superseded (project, by_id);
CREATE INDEX superseded_id ON superseded (trace_id);

-- Records that could not be taken in, as they stood; and what was set aside or left out, by source.
CREATE TABLE quarantine (
    row_id    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    source    text COLLATE "C" NOT NULL,
    seq       bigint NOT NULL,
    project   text COLLATE "C" NOT NULL,
    reason    text NOT NULL,
    stored_ns bigint NOT NULL,
    sealed    bytea NOT NULL,
    UNIQUE (source, seq)
);
ALTER TABLE quarantine ALTER COLUMN sealed SET STORAGE EXTERNAL;
CREATE INDEX quarantine_age ON quarantine (project, stored_ns);
CREATE TABLE dropped (
    source text COLLATE "C" NOT NULL,
    reason text NOT NULL,
    items  bigint NOT NULL,
    PRIMARY KEY (source, reason)
) WITH (fillfactor = 50);

-- What is to be sent on, in the order of the commits: OTLP requests, redacted and sealed.
-- end_offset counts the sealed bytes of all rows up to and including this one.
CREATE TABLE export_item (
    seq        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    project    text COLLATE "C" NOT NULL,
    signal     text NOT NULL,
    items      bigint NOT NULL,
    end_offset bigint NOT NULL,
    stored_ns  bigint NOT NULL,
    sealed     bytea NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.05);
ALTER TABLE export_item ALTER COLUMN sealed SET STORAGE EXTERNAL;
CREATE TABLE export_cursor (
    name       text COLLATE "C" PRIMARY KEY,
    seq        bigint NOT NULL,
    end_offset bigint NOT NULL,
    bytes_max  bigint NOT NULL
) WITH (fillfactor = 50);
CREATE TABLE export_tally (
    name   text COLLATE "C" NOT NULL,
    signal text NOT NULL,
    fate   text NOT NULL,
    items  bigint NOT NULL,
    PRIMARY KEY (name, signal, fate)
);
CREATE TABLE export_sent (
    open_id bigint PRIMARY KEY,
    digests bytea NOT NULL
);

-- Gate verdicts: a verdict is written once and never changed.
CREATE TABLE verdict (
    verdict_id    text COLLATE "C" PRIMARY KEY,
    project       text COLLATE "C" NOT NULL,
    suite         text NOT NULL,
    baseline      text NOT NULL,
    candidate     text NOT NULL,
    status        text,
    exit_code     integer NOT NULL,
    created_at_ns bigint NOT NULL,
    digest        text NOT NULL,
    content       bytea NOT NULL
);
CREATE INDEX verdict_newest ON verdict (project, created_at_ns);
