"""Millions of spans with content as fast as it goes: memory flat, growth linear, nothing lost.

``make soak SOAK_SPANS=5000000``. Prints a line now and then while it runs, and at the end a table
of what each process held and what the store grew to; passes when, once the first tenth of the spans
is published, resident memory of each process of the tree stays within a tenth (or ``SLACK_BYTES``)
of what it was, the store grows linearly, and a process of its own finds no span lost and none there
twice.

``SOAK_RESULT=FILE`` keeps the result as JSON in a file, from the first sample on: for a run that is
started and left alone (docs/specs/ingest.md, "Soak"). Its ``state`` is running, passed or failed.
"""

import json
import os
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "e2e"))
from kill_rounds import _descendants  # noqa: E402
from sidecar_process import CONFIG, SidecarProcess  # noqa: E402

SPANS = int(os.environ.get("SOAK_SPANS", "5000000"))
RESULT = os.environ.get("SOAK_RESULT", "")
LANES = 4
SAMPLES = 40
# What an allocator may keep of one large moment, whatever the size of the process.
SLACK_BYTES = 16 << 20
GROWTH_TOLERANCE = 0.1
SPANS_A_TRACE = 8
PROJECT = 'projects: [{name: default, content: {capture: "redacted"}}]\n'
NAMES = {
    "serve": "main", "pipeline_main": "pipeline", "policy": "policy", "export": "export",
    "receive.process": "checker",
}  # fmt: skip


def processes(root):
    """Resident bytes by kind of process; of several of a kind, the largest."""
    found = {}
    for pid in (root, *_descendants(root)):
        try:
            command = Path(f"/proc/{pid}/cmdline").read_text()
            pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        except (OSError, IndexError):
            continue
        kind = next((name for word, name in NAMES.items() if word in command), "other")
        found[kind] = max(found.get(kind, 0), pages * os.sysconf("SC_PAGE_SIZE"))
    return found


def files(folder):
    """Bytes of each file of the store."""
    return {path.name: path.stat().st_size for path in folder.iterdir() if path.is_file()}


class Soak:
    """The sidecar, the sender, and samples of both while they run."""

    def __init__(self, folder):
        self.folder = folder
        self.sidecar = SidecarProcess(folder, CONFIG + PROJECT)
        self.progress = folder / "progress"
        self.progress.write_text("0")
        self.samples = []

    def run(self):
        """Send all, then wait until all of it is published."""
        key = self.sidecar.key()
        self.sidecar.start()
        address = self.sidecar.addresses["receive.grpc"]
        arguments = [address, key, str(SPANS), str(LANES), str(self.progress)]
        started = time.monotonic()
        sender = subprocess.Popen([sys.executable, str(HERE / "soak_sender.py"), *arguments])
        try:
            while sender.poll() is None:
                self.sample(started)
                time.sleep(max(1.0, (time.monotonic() - started) / SAMPLES))
        finally:
            sender.kill()
            sender.wait()
        assert sender.returncode == 0
        self.drain(started)

    def drain(self, started):
        """Until nothing waits any more in the journal or for a publication."""
        deadline = time.monotonic() + 120 + SPANS / 500
        while time.monotonic() < deadline:
            self.sample(started)
            if self.waiting() == (0, 0):
                return
            time.sleep(max(1.0, (time.monotonic() - started) / SAMPLES))
        raise AssertionError(f"still waiting: {self.waiting()}")

    def waiting(self):
        """(journal records, open traces not published)."""
        due = "SELECT count(*) FROM open_trace WHERE version > published_version"
        return self.ask("journal.db", "SELECT count(*) FROM record"), self.ask("traces.db", due)

    def sample(self, started):
        memory = processes(self.sidecar.process.pid)
        stored = files(self.folder / "data")
        spans = int(self.progress.read_text() or 0)
        published = SPANS_A_TRACE * self.ask(
            "traces.db", "SELECT coalesce(max(row_id), 0) FROM trace"
        )
        self.samples.append((time.monotonic() - started, spans, published, memory, stored))
        tell(self.samples[-1])
        keep("running", self.samples)

    def ask(self, file, query):
        """A number from a database."""
        connection = sqlite3.connect(f"file:{self.folder}/data/{file}?mode=ro", uri=True)
        try:
            return connection.execute(query).fetchone()[0]
        finally:
            connection.close()

    def count(self):
        """What another process counts."""
        command = [sys.executable, str(HERE / "soak_counter.py"), str(self.folder / "data")]
        done = subprocess.run([*command, str(SPANS)], check=True, capture_output=True)
        return json.loads(done.stdout)


def tell(sample):
    """A line about now."""
    seconds, spans, published, memory, stored = sample
    held = ", ".join(f"{kind} {size / 2**20:.0f}M" for kind, size in sorted(memory.items()))
    print(
        f"{seconds:6.0f} s: {spans:,} of {SPANS:,} acknowledged, {published:,} published; {held};"
        f" store {sum(stored.values()) / 2**20:.0f}M",
        flush=True,
    )


def keep(state, samples, **more):
    """Write the result's file anew, whole at any moment."""
    if not RESULT:
        return
    names = ("seconds", "acknowledged", "published", "resident_bytes", "stored_bytes")
    rows = [dict(zip(names, sample, strict=True)) for sample in thinned(samples)]
    new = Path(RESULT + ".new")
    new.write_text(json.dumps({"state": state, "spans": SPANS, **more, "samples": rows}, indent=1))
    new.replace(RESULT)


def show(samples, found):
    """The table, and what was found."""
    kinds = sorted({kind for sample in samples for kind in sample[3]})
    names = ("journal.db", "journal.db-wal", "traces.db", "traces.db-wal")
    print("\nseconds      spans  published " + "".join(f"{kind:>12}" for kind in kinds), end="")
    print("".join(f"{name:>16}" for name in names))
    for seconds, spans, published, memory, stored in thinned(samples):
        print(f"{seconds:7.0f} {spans:10} {published:10}", end=" ")
        print("".join(f"{memory.get(kind, 0) / 2**20:11.1f}M" for kind in kinds), end="")
        print("".join(f"{stored.get(name, 0) / 2**20:15.1f}M" for name in names))
    print(found, flush=True)


def thinned(samples, rows=30):
    """Some of the samples, the first and the last among them."""
    step = max(1, len(samples) // rows)
    return [*samples[:-1:step], samples[-1]]


def not_flat(samples):
    """Processes whose memory grew after the first tenth, with (then, highest after)."""
    first = sum(published <= SPANS / 10 for _, _, published, *_ in samples)
    grown = {}
    for kind in {kind for sample in samples for kind in sample[3]}:
        series = [sample[3].get(kind, 0) for sample in samples]
        # One that is started later is measured from then on.
        then = max(series[: first + 1]) or next(filter(None, series))
        highest = max(series[first + 1 :], default=then)
        if highest > max(then * 1.1, then + SLACK_BYTES):
            grown[kind] = (then, highest)
    return grown


def not_linear(samples):
    """Bytes of traces.db for each published span, in either half, where they differ."""
    points = [(published, stored["traces.db"]) for _, _, published, _, stored in samples]
    whole = points[-1]
    half = min(points, key=lambda point: abs(point[0] - whole[0] / 2))
    first = half[1] / max(1, half[0])
    second = (whole[1] - half[1]) / max(1, whole[0] - half[0])
    return {} if second <= first * (1 + GROWTH_TOLERANCE) else {"first": first, "second": second}


@pytest.mark.soak
@pytest.mark.requirement("REC-02")
@pytest.mark.requirement("REC-03")
def test_memory_is_flat_growth_linear_and_nothing_is_lost_or_doubled(tmp_path):
    soak = Soak(tmp_path)
    found = {}
    try:
        soak.run()
        found["counted"] = soak.count()
    finally:
        found["exit_code"] = soak.sidecar.stop()
        if soak.samples:
            found["not_flat"] = not_flat(soak.samples)
            found["not_linear"] = not_linear(soak.samples)
            show(soak.samples, found)
            keep("passed" if sound(found) else "failed", soak.samples, **found)
    assert sound(found), found


def sound(found):
    """Whether nothing is lost, doubled or strange, and nothing grew as it should not."""
    counted = found.get("counted")
    if counted is None or found["exit_code"] != 0:
        return False
    whole = not any(counted[kind] for kind in ("lost", "twice", "strange"))
    return whole and not found["not_flat"] and not found["not_linear"]
