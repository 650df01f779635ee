-- Datasets: a version is written once; an item stands in every version from added_in on, until the
-- one it was removed in. What it says may be erased, its digest stays.
CREATE TABLE dataset_version (
    project       text COLLATE "C" NOT NULL,
    name          text COLLATE "C" NOT NULL,
    version       bigint NOT NULL,
    digest        text NOT NULL,
    items         bigint NOT NULL,
    created_at_ns bigint NOT NULL,
    PRIMARY KEY (project, name, version)
);
CREATE TABLE dataset_item (
    project     text COLLATE "C" NOT NULL,
    name        text COLLATE "C" NOT NULL,
    item_id     text COLLATE "C" NOT NULL,
    added_in    bigint NOT NULL,
    removed_in  bigint,
    place       bigint NOT NULL,
    digest      text NOT NULL,
    question    text NOT NULL,
    trace_id    text COLLATE "C",
    captured    boolean NOT NULL,
    added_at_ns bigint NOT NULL,
    size_bytes  bigint NOT NULL,
    content     bytea,
    PRIMARY KEY (project, name, item_id, added_in)
);
CREATE INDEX dataset_item_of_trace ON dataset_item (project, trace_id) WHERE trace_id IS NOT NULL;
CREATE INDEX dataset_item_age ON dataset_item (project, added_at_ns)
    WHERE captured AND content IS NOT NULL;
