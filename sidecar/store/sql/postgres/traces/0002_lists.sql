-- Lists by service, over all projects and of verdicts read no more than their page.
CREATE INDEX trace_by_service ON trace (service, project, started_ns DESC, trace_id) WHERE newest;
CREATE INDEX trace_by_start ON trace (started_ns DESC, trace_id) WHERE newest;
CREATE INDEX verdict_by_time ON verdict (created_at_ns DESC, verdict_id DESC);
