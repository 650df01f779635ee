"""Counts, from the store alone, how often each acknowledged span is in the newest revisions.

Usage: kill_counter.py STORE_FOLDER ACKNOWLEDGED_FILE. Prints JSON: how many spans are acknowledged,
stored, missing and there twice, some examples, and how many traces and revisions there are.
"""

import json
import sys
from collections import Counter
from pathlib import Path

from sidecar.store.sqlite.traces import SqliteTraces
from sidecar.store.traces import TraceQuery


def main(store, acknowledged_file):
    """Print the count."""
    acknowledged = {tuple(line.split()) for line in acknowledged_file.read_text().splitlines()}
    traces = SqliteTraces(store / "traces.db")
    stored, revisions, count = Counter(), 0, 0
    for summary in traces.list_traces(TraceQuery(limit=10_000_000)):
        trace = traces.get_trace(summary.trace_id, summary.project)
        count += 1
        revisions += trace.revision
        for step in trace.steps:
            stored.update((s.trace_id, s.span_id) for s in step.sources if s.kind == "span")
    traces.close()
    missing = [pair for pair in acknowledged if not stored[pair]]
    twice = [pair for pair, times in stored.items() if times > 1]
    print(
        json.dumps(
            {
                "acknowledged": len(acknowledged),
                "stored": len(stored),
                "missing": len(missing),
                "twice": len(twice),
                "examples": missing[:3] + twice[:3],
                "traces": count,
                "revisions": revisions,
            }
        )
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
