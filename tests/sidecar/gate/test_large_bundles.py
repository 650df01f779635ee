"""Bundles of many runs are written and judged again run by run, and killed ones leave nothing."""

import os
import signal
import subprocess
import sys
import tracemalloc
from pathlib import Path

import msgspec
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from sampled_rig import given as sampled_input
from sampled_rig import seeded, suite
from test_evidence_bundles import WHOLE, packed, record, result, unsealed

from processors.model.trace import TraceWarning
from sidecar.gate.conclude import conclude, fold, gate_input, verdict_of
from sidecar.gate.evidence import SLIM_RUNS, run_path, slim_lines, slim_path
from sidecar.gate.examine import derive
from sidecar.gate.files import read_bundle, remove_parts, write_bundle
from sidecar.gate.policy import GatePolicy
from sidecar.gate.process import verify_bundle
from sidecar.gate.spelling import encoded, parts
from sidecar.replay.compare import Plan
from sidecar.replay.record import STEPS_LEFT_OUT, EpisodeRecord

ROOT = Path(__file__).parents[3]
VERDICT = "0" * 32


def slimmed(run):
    warning = TraceWarning(code=STEPS_LEFT_OUT, detail="it passed")
    return replace(run, trace=replace(run.trace, warnings=(warning,)))


def many(count=SLIM_RUNS, failed=(3,)):
    """A result of so many runs a side, all slim but those of the candidate that failed."""
    runs = []
    for side in ("baseline", "candidate"):
        for number in range(1, count + 1):
            bad = side == "candidate" and number in failed
            one = record(side, number, "failed" if bad else "passed")
            runs.append(one if bad else slimmed(replace(one, digest="sha256:same")))
    found = result()
    return replace(found, runs=tuple(runs), pins=replace(found.pins, deterministic=False))


@pytest.mark.requirement("EVD-01")
def test_slim_runs_stand_together_and_a_failed_one_alone_and_the_verdict_is_made_again(tmp_path):
    found = many()
    verdict = conclude(found, verdict_id=VERDICT, now_ns=9)
    folder = tmp_path / VERDICT
    stored = write_bundle(unsealed(found, verdict, str(folder)), folder).verdict
    files = read_bundle(folder)
    assert [path for path in files if path.startswith("cases/")] == [run_path(found.runs[502])]
    assert sorted(path for path in files if path.startswith("runs/")) == [
        slim_path(0),
        slim_path(1),
    ]
    told = verify_bundle(files, {})
    assert told.faults == () and told.digest == stored.digest
    assert stored.evidence["runs"] == 2 * SLIM_RUNS


@pytest.mark.requirement("EVD-01")
def test_slim_runs_that_are_changed_left_out_or_said_twice_hold_nothing():
    found = many(20)
    files = packed(found, conclude(found, verdict_id=VERDICT, now_ns=9)).files
    lines = zstandard.ZstdDecompressor().decompress(files[slim_path(0)]).splitlines()

    def told(changed):
        return derive({**files, slim_path(0): slim_lines(changed)}).faults[0]

    assert derive(files).faults == ()
    assert "gate-input.json is not what" in told(lines[1:])
    assert "run 2 is out of order" in told([*lines[:2], lines[1], *lines[2:]])
    whole = msgspec.json.encode(record("baseline", 1, "passed"))
    assert "is not slim" in told([whole, *lines[1:]])
    moved = {**files, "cases/a%2Fb/candidate-7.json": files[run_path(found.runs[22])]}
    assert "it holds run 3 of the candidate" in derive(moved).faults[0]
    bomb = zstandard.ZstdCompressor().compress(b"0" * (300 * 1024 * 1024))
    assert "larger than records are" in derive({**files, slim_path(0): bomb}).faults[0]
    assert "cannot be unpacked" in derive({**files, slim_path(0): b"no frame"}).faults[0]


def test_of_many_faults_the_first_are_named_and_the_others_counted():
    found = many(120, failed=tuple(range(1, 111)))
    verdict = conclude(found, verdict_id=VERDICT, now_ns=9)
    lied = replace(found, runs=tuple(replace(one, conclusion="passed") for one in found.runs))
    faults = derive(packed(lied, verdict).files).faults
    assert len(faults) == 101 and faults[-1] == "and 10 more"
    assert faults[0].startswith("cases/a%2Fb/candidate-1.json: its scores come to failed")


@given(st.integers(0, 4), st.integers(0, 3), st.text(max_size=5))
def test_a_record_in_pieces_is_the_record_at_once(cases, runs, text):
    made = suite(seeded(cases, runs, text), [0.5] * cases, count=max(1, runs))
    for value in (
        sampled_input(made, quarantined={text: True}),
        sampled_input(made).results,
        record("baseline", 1, "passed", case=text + "\n\\"),
    ):
        assert b"".join(parts(value)) == encoded(value)


def test_a_run_more_takes_hardly_more_memory_to_conclude():
    """Of the runs of callables, which come to few things, each is a few words."""
    line = msgspec.json.encode(slimmed(record("baseline", 1, "passed")))

    def read(cases):  # as from a store: nothing of one record is another's
        for case in cases:
            for number in range(200):
                side, run = ("baseline", "candidate")[number // 100], 301 + number % 100
                made = msgspec.json.decode(line, type=EpisodeRecord)
                texts = {"side": side, "digest": f"sha256:{number % 2:064}"}
                yield replace(made, case=case, run=run, duration_ms=300 + number % 3, **texts)

    def spent(count):
        cases = [f"c{number}" for number in range(count)]
        plans = tuple(Plan(case=one, title="", severity="minor") for one in cases)
        pins = replace(result().pins, deterministic=False, plans=plans)
        tracemalloc.start()
        try:
            folded = fold(pins, read(cases))
            kept = tracemalloc.get_traced_memory()[0]
            given = gate_input(pins, folded, GatePolicy(), 0)
            verdict_of(pins, folded, given, verdict_id=VERDICT, now_ns=0)
            return kept, tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    spent(1)  # modules are loaded
    small, large = spent(5), spent(25)
    kept, highest = ((more - less) / 4_000 for more, less in zip(large, small, strict=True))
    assert kept < 60 and highest < 200


def test_runs_that_are_not_together_are_refused():
    one, other = record("baseline", 1, "passed", case="x"), record("candidate", 1, "passed")
    with pytest.raises(ValueError, match="x: its runs are not together"):
        fold(result().pins, (one, other, replace(one, side="candidate")))


WRITER = """\
import sys
from pathlib import Path
sys.path[:0] = sys.argv[2:]
from test_evidence_bundles import WHOLE, result, unsealed
from msgspec.structs import replace
from sidecar.gate.files import write_bundle

def contents():
    yield "plan.json", (b"{}",)
    print("begun", flush=True)
    sys.stdin.read()

write_bundle(replace(unsealed(result(), WHOLE.verdict), contents=contents()), Path(sys.argv[1]))
"""


@pytest.mark.requirement("CRV-01")
def test_what_a_killed_replay_had_begun_to_write_is_said_and_removed_and_no_more(tmp_path):
    command = [sys.executable, "-P", "-c", WRITER, tmp_path / VERDICT, ROOT, ROOT / "tests"]
    writer = subprocess.Popen(
        [*command, Path(__file__).parent], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert writer.stdout.readline() == b"begun\n"
    part = tmp_path / f"{VERDICT}.part"
    theirs = tmp_path / "holiday.part"
    theirs.mkdir()
    (tmp_path / ("1" * 32 + ".part")).symlink_to(theirs)
    assert remove_parts(tmp_path) == [] and part.is_dir()  # its writer lives
    os.kill(writer.pid, signal.SIGKILL)
    writer.communicate()
    assert (part / "plan.json").is_file()
    assert remove_parts(tmp_path) == [part]
    assert not part.exists() and theirs.is_dir()
    assert remove_parts(tmp_path / "nowhere") == []


def test_a_write_that_fails_on_the_way_leaves_nothing(tmp_path):
    def contents():
        yield "plan.json", (b"{}",)
        raise KeyboardInterrupt

    made = replace(unsealed(result(), WHOLE.verdict), contents=contents())
    with pytest.raises(KeyboardInterrupt):
        write_bundle(made, tmp_path / VERDICT)
    assert list(tmp_path.iterdir()) == []
