-- Kill switches and freezes: who set them, and who wants them lifted.
CREATE TABLE stop (
    stop_id      text PRIMARY KEY,
    project      text NOT NULL,
    kind         text NOT NULL CHECK (kind IN ('kill', 'freeze')),
    scope        text NOT NULL CHECK (scope IN ('project', 'agent', 'tool')),
    subject      text NOT NULL,
    reason       text NOT NULL,
    set_by       text NOT NULL,
    set_at_ns    bigint NOT NULL,
    lifted_at_ns bigint
);
CREATE UNIQUE INDEX stop_active ON stop (project, scope, subject, kind) WHERE lifted_at_ns IS NULL;
CREATE INDEX stop_recent ON stop (project, set_at_ns);

CREATE TABLE stop_lift (
    stop_id  text NOT NULL REFERENCES stop (stop_id),
    identity text NOT NULL,
    lifter   text NOT NULL,
    reason   text NOT NULL,
    at_ns    bigint NOT NULL,
    PRIMARY KEY (stop_id, identity)
);
