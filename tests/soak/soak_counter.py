"""Counts, from the store alone, the spans of a soak: lost, and there twice.

Usage: soak_counter.py STORE_FOLDER SPANS. Trace ids count up from 1, eight spans each. Prints JSON.
Nothing is held but one trace and a bit for each span.
"""

import json
import sys
from pathlib import Path

from soak_sender import SPANS, TRACES

from sidecar.store.sqlite.traces import SqliteTraces


def main(folder, spans):
    """Print the count."""
    traces = SqliteTraces(Path(folder) / "traces.db")
    requests = -(-int(spans) // (TRACES * SPANS))
    total = requests * TRACES
    lost = twice = revisions = strange = 0
    for trace in range(1, total + 1):
        found = traces.get_trace(f"{trace:032x}")
        if found is None:
            lost += SPANS
            continue
        revisions += found.revision
        sources = [s.span_id for step in found.steps for s in step.sources if s.kind == "span"]
        expected = {f"{trace * SPANS + place + 1:016x}" for place in range(SPANS)}
        lost += len(expected - set(sources))
        twice += len(sources) - len(set(sources))
        strange += len(set(sources) - expected)
    traces.close()
    counted = {"traces": total, "spans": total * SPANS, "lost": lost, "twice": twice}
    print(json.dumps({**counted, "strange": strange, "revisions": revisions}))


if __name__ == "__main__":
    main(*sys.argv[1:])
