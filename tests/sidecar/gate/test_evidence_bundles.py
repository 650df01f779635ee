"""A bundle holds what a verdict was made from, and shows when any of it was changed."""

from xml.etree import ElementTree

import msgspec
import pytest

from processors.model.trace import AgentTrace
from processors.model.verdict import Score, Verdict
from sidecar.errors import SidecarError
from sidecar.gate.conclude import conclude
from sidecar.gate.evidence import bundle, faults, run_path
from sidecar.gate.files import read_bundle, write_bundle
from sidecar.gate.report import junit, verdict_markdown, verdict_text
from sidecar.gate.report.verdict import verdict_report
from sidecar.replay.compare import Plan
from sidecar.replay.record import AgentExit, EpisodeRecord
from sidecar.replay.run import Pins, ReplayResult, compared


def record(side, run, conclusion, *, case="a/b", void=None):
    status = {"passed": "pass", "failed": "fail", "incomplete": "error"}[conclusion]
    return EpisodeRecord(
        episode=f"{side}{run}",
        case=case,
        side=side,
        run=run,
        seed=1,
        agent=AgentExit(ending="completed", exit_code=0, output=f"{side} <says> | so"),
        trace=AgentTrace(trace_id="t"),
        scores=(
            Score(
                expectation="toolCalled:pay", type="toolCalled", status=status, detail="why | so"
            ),
        ),
        conclusion=conclusion,
        digest=f"sha256:{side}",
        void=void,
    )


def result(candidate="failed", **more):
    runs = (
        record("baseline", 1, "passed"),
        record("baseline", 2, "passed"),
        record("candidate", 1, candidate, **more),
        record("candidate", 2, candidate, **more),
    )
    pins = Pins(
        suite="s",
        suite_version="1",
        suite_digest="sha256:1",
        deterministic=True,
        repeats=2,
        seed=1,
        twins={"shop": "sha256:2"},
        policy_revision="sha256:3",
        baseline="cmd:a",
        candidate="cmd:b",
        project="default",
        seeds={"a/b": 1},
        plans=(Plan(case="a/b", title="pays", severity="critical"),),
    )
    return ReplayResult(
        pins=pins,
        runs=runs,
        results=compared(pins, runs),
        started_at_ns=5,
        files={"suite.yaml": b"suite: s\n", "../evil": b"x"},
    )


def made(folder, **how):
    found = result(**how)
    verdict = conclude(found, verdict_id="v1", now_ns=9)
    whole = bundle(found, verdict, folder=str(folder))
    write_bundle(whole, folder)
    return found, whole.verdict


def test_what_was_written_holds(tmp_path):
    found, verdict = made(tmp_path / "v1")
    files = read_bundle(tmp_path / "v1")
    assert faults(files, verdict) == []
    assert {run_path(run) for run in found.runs} <= set(files)
    assert "inputs/evil" in files and not (tmp_path / "evil").exists()
    assert (tmp_path / "v1").stat().st_mode & 0o77 == 0


@pytest.mark.parametrize(
    "name", ["plan.json", "comparison.json", "verdict.json", "inputs/suite.yaml"]
)
def test_a_changed_byte_is_found(tmp_path, name):
    _, verdict = made(tmp_path / "v1")
    files = read_bundle(tmp_path / "v1")
    files[name] = files[name].replace(b"s", b"t", 1)
    assert faults(files, verdict) == [f"{name} is not as it was written"]


def test_a_missing_an_added_and_a_relisted_file_are_found(tmp_path):
    found, verdict = made(tmp_path / "v1")
    files = read_bundle(tmp_path / "v1")
    path = run_path(found.runs[0])
    assert faults({k: v for k, v in files.items() if k != path}, verdict) == [f"{path} is missing"]
    assert faults({**files, "more": b""}, verdict) == ["more is not in the manifest"]
    other = bundle(result("passed"), verdict, folder="x").files
    assert faults(other, verdict) == ["the manifest's root is not the one kept with the verdict"]
    assert faults({}, verdict) == ["MANIFEST.json is missing"]
    assert "cannot be read" in faults({"MANIFEST.json": b"{"}, verdict)[0]


def test_a_verdict_that_its_records_do_not_come_to_is_found(tmp_path):
    _, verdict = made(tmp_path / "v1")
    files = read_bundle(tmp_path / "v1")
    forged = msgspec.structs.replace(verdict, status="PASS", exit_code=0)
    assert faults(files, forged) == ["the records come to BLOCK, the verdict says PASS"]


def test_the_digest_depends_on_what_happened_and_not_on_ids_or_times():
    one = conclude(result(), verdict_id="v1", now_ns=1)
    two = conclude(result(), verdict_id="v2", now_ns=2)
    other = conclude(result("passed"), verdict_id="v1", now_ns=1)
    assert one.digest == two.digest != other.digest


def test_a_bundle_is_never_half_there_nor_overwritten(tmp_path):
    made(tmp_path / "v1")
    with pytest.raises(SidecarError, match="cannot be written"):
        made(tmp_path / "v1")
    assert not list(tmp_path.glob("*.part"))
    with pytest.raises(SidecarError, match="there is no evidence"):
        read_bundle(tmp_path / "v2")


def test_reports_say_the_verdict_and_the_first_thing_that_failed(tmp_path):
    _, verdict = made(tmp_path / "v1")
    assert isinstance(msgspec.json.decode(msgspec.json.encode(verdict), type=Verdict), Verdict)
    told = verdict_text.render(verdict)
    assert told.startswith("BLOCK  s: cmd:b against cmd:a\n  1 case: 1 new critical\n")
    assert "first difference: step 1" in told and "toolCalled:pay: why | so" in told
    explained = verdict_text.explain(verdict)
    assert "new_critical = 1 > 0" in explained and "twin shop: sha256:2" in explained
    suite = ElementTree.fromstring(junit.render(verdict_report(verdict)))
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("1", "1", "0")
    assert suite.find("testcase/failure").get("type") == "new_critical"
    shown = verdict_markdown.render(verdict)
    assert "why &#124; so" in shown and "&#60;says&#62;" in shown


def test_runs_of_one_case_that_differ_are_told_as_attempts_of_it():
    found = result("passed")
    runs = (*found.runs[:3], record("candidate", 2, "failed"))
    runs = (*runs[:3], msgspec.structs.replace(runs[3], digest="sha256:other"))
    mixed = msgspec.structs.replace(found, runs=runs, results=compared(found.pins, runs))
    told = verdict_report(conclude(mixed, verdict_id="v", now_ns=1))
    (case,) = told.cases
    assert (case.rule, case.status, told.counts.flaky) == ("flaky", "error", 1)
    assert [one.status for one in case.attempts] == ["pass", "fail"]
    suite = ElementTree.fromstring(junit.render(told))
    assert suite.get("tests") == "1" and [one.tag for one in suite.find("testcase")] == [
        "error",
        "rerunFailure",
    ]
    again = verdict_report(conclude(result("failed"), verdict_id="v", now_ns=1))
    suite = ElementTree.fromstring(junit.render(again))
    assert [one.tag for one in suite.find("testcase")] == ["failure", "rerunFailure"]


def test_what_both_runs_of_a_side_lack_is_said_once():
    (failure,) = conclude(result("passed", void="twin_gap: x"), verdict_id="v", now_ns=1).failures
    assert failure.detail == "candidate: twin_gap: x"
    (failure,) = conclude(result("incomplete"), verdict_id="v", now_ns=1).failures
    assert failure.detail == "candidate: toolCalled:pay: why | so"


def test_a_void_case_is_an_error_of_the_suite_and_not_a_failure():
    verdict = conclude(result("passed", void="twin_gap: x"), verdict_id="v", now_ns=1)
    suite = ElementTree.fromstring(junit.render(verdict_report(verdict)))
    assert (suite.get("failures"), suite.get("errors")) == ("0", "1")
    assert "UNDECIDED" in verdict_text.render(verdict) and "twin_gap: x" in verdict_text.render(
        verdict
    )
