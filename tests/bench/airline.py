"""100 recorded runs onto the airline twin: CPU seconds to read the tapes and to replay them.

Beside it: the same calls on a world that is copied for each run, which is how a benchmark without
an undo journal starts afresh.
"""

import argparse
import copy
import gzip
import json
import sys
import tempfile
import time
from pathlib import Path

from sidecar.cli.tape_import import write
from sidecar.replay.import_tape import redactor_of
from sidecar.replay.import_tau import tau_runs
from sidecar.replay.onto_twin import OntoTwin, taped_run
from sidecar.tape.files import read_tape
from sidecar.twins import examples
from sidecar.twins.files import load_twins
from sidecar.twins.state.files import with_state

CORPUS = Path(__file__).parents[3] / "shared" / "corpora" / "tau-airline"
BUDGET_SECONDS = 2.0


def main() -> int:
    """Print the figures; exit 1 when the corpus is not there."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    if not CORPUS.is_dir():
        print("the airline corpus is not beside the project", file=sys.stderr)
        return 1
    twin = Path(examples.__path__[0]) / "airline" / "twin.yaml"
    group = with_state(load_twins([twin]).group, CORPUS)
    with tempfile.TemporaryDirectory() as folder:
        text = gzip.decompress((CORPUS / "runs.jsonl.gz").read_bytes())
        for number, one in enumerate(tau_runs(text, "full")):
            path = Path(folder) / f"{number:03}.tape"
            write(one, path, "packed", redactor_of("full"), content=True)
        start = time.process_time()
        runs = [taped_run(one.stem, read_tape(one)) for one in sorted(Path(folder).glob("*.tape"))]
        read = time.process_time() - start
    start = time.process_time()
    onto = OntoTwin(group)
    done = [onto.replay(run) for run in runs]
    replayed = time.process_time() - start
    world = json.loads(
        json.dumps(
            [
                list(entity.rows)
                for one in group.twins.values()
                for entity in one.declaration.entities.values()
            ]
        )
    )
    start = time.process_time()
    for _ in range(10):
        copy.deepcopy(world)
    copied = (time.process_time() - start) / 10 * len(done)
    passed = sum(one.verified == "verified_success" for one in done)
    print(f"{len(done)} runs, {passed} verified: read {read:.2f} s, replay {replayed:.2f} s CPU")
    print(f"budget {BUDGET_SECONDS:.0f} s for both; copying the world for each run: {copied:.2f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
