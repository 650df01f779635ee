"""A bundle holds what a verdict was made from, and shows when any of it was changed."""

import os
from xml.etree import ElementTree

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given, settings
from hypothesis import strategies as st
from tier import examples

from processors.model.call import Receipt
from processors.model.trace import AgentTrace
from processors.model.verdict import Score, Verdict
from sidecar.canonical import sha256
from sidecar.errors import ExitCode, SidecarError
from sidecar.gate import dsse
from sidecar.gate.conclude import conclude, fold, gate_input
from sidecar.gate.evidence import (
    FORMAT,
    MANIFEST,
    STATEMENTS,
    FileEntry,
    Manifest,
    bundle,
    manifest_of,
    root_of,
    run_path,
)
from sidecar.gate.examine import derive, integrity, stored_faults, verdict_faults
from sidecar.gate.files import read_bundle, write_bundle
from sidecar.gate.policy import GatePolicy
from sidecar.gate.report import junit, verdict_markdown, verdict_text
from sidecar.gate.report.verdict import verdict_report
from sidecar.gate.spelling import encoded
from sidecar.gate.statement import Made
from sidecar.replay.compare import Plan
from sidecar.replay.record import AgentExit, EpisodeRecord
from sidecar.replay.run import Pins, ReplayResult


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
        started_at_ns=5,
        files={"suite.yaml": b"suite: s\n", "../evil": b"x"},
    )


KEY = Ed25519PrivateKey.from_private_bytes(b"k" * 32)
OTHER = Ed25519PrivateKey.from_private_bytes(b"o" * 32)
MADE = Made(tools={"pay": "irreversible"}, commit="0" * 40, environment={"python": "3"})


def unsealed(found, verdict, folder="x", keys=(KEY,), made=MADE):
    folded = fold(found.pins, found.runs)
    given = gate_input(found.pins, folded, GatePolicy(), verdict.created_at_ns)
    return bundle(found, given, verdict, folder=folder, made=made, keys=keys)


class Whole:
    """A bundle in memory, as its folder holds it."""

    def __init__(self, unsealed):
        files = {path: b"".join(pieces) for path, pieces in unsealed.contents}
        sealed = unsealed.seal(entries_of(files))
        self.files, self.verdict = {**files, **sealed.files}, sealed.verdict
        self.manifest = sealed.manifest


def entries_of(files):
    return [FileEntry(path=p, size=len(d), sha256=sha256(d)) for p, d in files.items()]


def in_folder(files, folder):
    """What a folder holds of these files and what seals them."""
    made = unsealed(result(), WHOLE.verdict)
    contents = [(path, (data,)) for path, data in files.items()]
    write_bundle(msgspec.structs.replace(made, contents=contents), folder)
    return dict(read_bundle(folder))


def packed(*of, **how):
    return Whole(unsealed(*of, **how))


def made(folder, **how):
    found = result(**how)
    verdict = conclude(found, verdict_id="v1", now_ns=9)
    return found, write_bundle(unsealed(found, verdict, str(folder)), folder).verdict


def faults(files, verdict):
    """All that does not hold of a bundle beside its stored verdict."""
    whole = integrity(files)
    if whole.verdict is None:
        return list(whole.faults)
    found = [*whole.faults, *stored_faults(whole.verdict, whole.root, verdict)]
    return found or [*verdict_faults(derive(files), whole.verdict)]


WHOLE = packed(result(), conclude(result(), verdict_id="v1", now_ns=9))


def test_what_was_written_holds(tmp_path):
    found, verdict = made(tmp_path / "v1")
    files = read_bundle(tmp_path / "v1")
    assert faults(files, verdict) == []
    assert integrity(files).signers == (dsse.keyid(KEY.public_key()),)
    assert {run_path(run) for run in found.runs} <= set(files)
    assert "inputs/%2E%2E/evil" in files and not (tmp_path / "evil").exists()
    assert (tmp_path / "v1").stat().st_mode & 0o77 == 0


@pytest.mark.requirement("EVD-01")
@pytest.mark.parametrize("name", sorted(WHOLE.files))
def test_one_flipped_byte_in_any_file_is_found_and_the_file_named(name):
    for place in {0, len(WHOLE.files[name]) // 2, len(WHOLE.files[name]) - 1}:
        _flipped(name, place, 0x01)


@pytest.mark.requirement("EVD-01")
@settings(max_examples=examples(150))
@given(st.data())
def test_one_changed_byte_at_any_offset_is_found_and_the_file_named(data):
    name = data.draw(st.sampled_from(sorted(WHOLE.files)))
    place = data.draw(st.integers(0, len(WHOLE.files[name]) - 1))
    _flipped(name, place, data.draw(st.integers(1, 255)))


def _flipped(name, place, mask):
    changed = bytearray(WHOLE.files[name])
    changed[place] ^= mask
    whole = integrity({**WHOLE.files, name: bytes(changed)})
    assert whole.verdict is None
    assert any(one.startswith(name) for one in whole.faults), (name, place, whole.faults)


def test_every_byte_of_the_statements_is_covered():
    for place in range(len(WHOLE.files[STATEMENTS])):
        _flipped(STATEMENTS, place, 0x04)


def test_a_missing_an_added_and_another_file_are_found(tmp_path):
    found, verdict = made(tmp_path / "v1")
    files = read_bundle(tmp_path / "v1")
    path = run_path(found.runs[0])
    assert faults({k: v for k, v in files.items() if k != path}, verdict) == [f"{path} is missing"]
    assert faults({**files, "more": b""}, verdict) == ["more is not in the manifest"]
    passing = result("passed")
    other = packed(passing, conclude(passing, verdict_id="v1", now_ns=9)).files
    assert faults(other, verdict) == [
        "the manifest's root is not the one kept with the verdict",
        "verdict.json is not the verdict that is stored",
    ]
    assert faults({}, verdict) == ["MANIFEST.json is missing"]
    assert faults({MANIFEST: b"{"}, verdict) == ["STATEMENTS.jsonl is missing"]
    assert "cannot be read" in faults({MANIFEST: b"{", STATEMENTS: b""}, verdict)[0]


@pytest.mark.requirement("EVD-01")
def test_a_bundle_made_anew_around_a_forged_verdict_is_found_by_its_records():
    found = result()
    forged = msgspec.structs.replace(
        conclude(found, verdict_id="v1", now_ns=9), status="PASS", exit_code=0
    )
    files = packed(found, forged).files
    assert integrity(files).faults == ()
    told = [*verdict_faults(derive(files), integrity(files).verdict)]
    assert told == ["verdict.json says more than the records come to"]
    other = msgspec.structs.replace(forged, digest="sha256:0")
    files = packed(found, other).files
    (status, digest) = verdict_faults(derive(files), other)
    assert status == "the records come to BLOCK, the verdict says PASS"
    assert digest.startswith("the records come to digest sha256:")


@pytest.mark.requirement("EVD-01")
def test_a_tool_the_plan_does_not_know_or_of_another_class_holds_nothing():
    receipt = make_receipt()
    found = result()
    runs = tuple(msgspec.structs.replace(run, receipts=(receipt,)) for run in found.runs)
    found = msgspec.structs.replace(found, runs=runs)
    verdict = conclude(found, verdict_id="v1", now_ns=9)

    def told(tools):
        return derive(packed(found, verdict, made=Made(tools=tools)).files).faults

    assert told({"pay": "irreversible"}) == ()
    assert "there is no tool 'pay' in tools.json" in told({})[0]
    assert "pay was irreversible, tools.json says read" in told({"pay": "read"})[0]


@pytest.mark.requirement("EVD-01")
def test_a_record_that_says_otherwise_than_its_scores_or_its_place_holds_nothing():
    found = result()
    lied = [msgspec.structs.replace(one, conclusion="passed") for one in found.runs]
    lied = msgspec.structs.replace(found, runs=tuple(lied))
    verdict = conclude(lied, verdict_id="v1", now_ns=9)
    assert verdict.status == "PASS"
    (first, _) = derive(packed(lied, verdict).files).faults
    assert first == "cases/a%2Fb/candidate-1.json: its scores come to failed, it says passed"

    files = dict(packed(found, conclude(found, verdict_id="v1", now_ns=9)).files)
    one, other = (run_path(found.runs[place]) for place in (1, 3))
    files[one], files[other] = files[other], files[one]
    assert derive(files).faults == (
        f"{one}: it holds run 2 of the candidate of a/b",
        f"{other}: it holds run 2 of the baseline of a/b",
    )


@pytest.mark.requirement("EVD-01")
def test_a_comparison_that_is_not_of_the_records_is_found():
    found = result()
    verdict = conclude(found, verdict_id="v1", now_ns=9)
    other = {"comparison.json": packed(result("passed"), verdict).files["comparison.json"]}
    assert derive({**packed(found, verdict).files, **other}).faults == (
        "comparison.json is not what the records come to",
    )


@pytest.mark.requirement("EVD-01")
def test_a_list_that_was_reordered_is_found_though_its_root_and_signature_are_made_anew():
    files = dict(WHOLE.files)
    listed = tuple(reversed(msgspec.json.decode(files[MANIFEST], type=Manifest).files))
    files[MANIFEST] = encoded(Manifest(format=FORMAT, root=root_of(listed), files=listed))
    assert "its list is out of order" in integrity(files).faults[0]


def doubted(run, *, status="fail", required=False):
    opinion = Score(
        expectation="semantic", type="semantic", status=status, required=required, level="J"
    )
    return msgspec.structs.replace(run, scores=(*run.scores, opinion))


@pytest.mark.requirement("GAT-01")
def test_a_judges_doubt_in_any_run_of_the_candidate_warns_once_and_decides_nothing():
    found = result("passed")

    def told(runs):
        whole = msgspec.structs.replace(found, runs=runs)
        verdict = conclude(whole, verdict_id="v", now_ns=1)
        (doubts,) = [one.operands for one in verdict.findings if one.rule == "judge_doubts"] or [{}]
        return verdict.status, doubts.get("judge_doubts")

    *before, one, two = found.runs
    assert told(found.runs) == ("PASS", None)
    for side in ((one, doubted(two)), (doubted(one), two), (doubted(one), doubted(two))):
        assert told((*before, *side)) == ("WARN", 1)
    assert told((*before, doubted(one, status="pass"), two)) == ("PASS", None)
    assert told((*map(doubted, before), one, two)) == ("PASS", None)  # of the baseline's no word


def make_receipt():
    return Receipt(
        receipt_id="r", call_id="c", phase="executed", project="default", principal="a",
        principal_kind="agent", tool="pay", class_="irreversible", action_hash="h",
        decision_id="d", decision_effect="allow", reasons=(), policy_revision="p",
        effect="confirmed", status=200, started_at_ns=1, finished_at_ns=2,
    )  # fmt: skip


@pytest.mark.requirement("EVD-01")
def test_a_bundle_is_signed_by_several_and_each_signature_must_hold():
    found = result()
    verdict = conclude(found, verdict_id="v1", now_ns=9)
    files = packed(found, verdict, keys=(KEY, OTHER)).files
    assert integrity(files).signers == tuple(dsse.keyid(k.public_key()) for k in (KEY, OTHER))
    envelopes = [dsse.opened(line) for line in files[STATEMENTS].splitlines()]
    swapped = [
        msgspec.structs.replace(
            one,
            signatures=(
                one.signatures[0],
                msgspec.structs.replace(one.signatures[1], sig=one.signatures[0].sig),
            ),
        )
        for one in envelopes
    ]
    bad = {**files, STATEMENTS: b"".join(dsse.encoded(one) + b"\n" for one in swapped)}
    assert "does not hold" in integrity(bad).faults[0]
    unsigned = [msgspec.structs.replace(one, signatures=()) for one in envelopes]
    bad = {**files, STATEMENTS: b"".join(dsse.encoded(one) + b"\n" for one in unsigned)}
    assert "it is not signed" in integrity(bad).faults[0]


@pytest.mark.requirement("EVD-01")
def test_the_statements_are_in_toto_of_two_predicates_over_the_root_and_the_commit():
    payloads = [
        msgspec.json.decode(dsse.payload(dsse.opened(line)))
        for line in WHOLE.files[STATEMENTS].splitlines()
    ]
    assert {one["_type"] for one in payloads} == {"https://in-toto.io/Statement/v1"}
    assert [one["predicateType"] for one in payloads] == [
        "https://in-toto.io/attestation/test-result/v0.1",
        "https://agenttwin.dev/attestation/agent-gate/v1",
    ]
    for one in payloads:
        bundle_, source = one["subject"]
        assert bundle_["digest"] == {"sha256": WHOLE.manifest.root.removeprefix("sha256:")}
        assert source["digest"] == {"gitCommit": "0" * 40}
    generic, own = (one["predicate"] for one in payloads)
    assert generic["result"] == "FAILED" and generic["failedTests"] == ["a/b"]
    assert {"name": "twin:shop", "digest": {"sha256": "2"}} in generic["configuration"]
    assert own["decisionDigest"] == WHOLE.verdict.digest and own["seeds"] == {"a/b": 1}
    assert "duration_ms" in own["notInDigest"]


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


@pytest.mark.row("R45")
def test_runs_of_one_case_that_differ_are_told_as_attempts_of_it():
    found = result("passed")
    runs = (*found.runs[:3], record("candidate", 2, "failed"))
    runs = (*runs[:3], msgspec.structs.replace(runs[3], digest="sha256:other"))
    mixed = msgspec.structs.replace(found, runs=runs)
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


@pytest.mark.requirement("EVD-01")
@pytest.mark.parametrize("name", [".", "..", "a/../../b", "x" * 400, "ä" * 200])
def test_a_case_of_any_name_has_its_own_folder_in_the_bundle(tmp_path, name):
    folder = run_path(record("candidate", 1, "passed", case=name)).split("/")[1:-1]
    assert len(folder) == 1 and folder[0] not in (".", "..") and len(folder[0]) < 255
    path = run_path(record("candidate", 1, "passed", case=name))
    files = in_folder({path: b"{}"}, tmp_path / "b")
    assert files[path] == b"{}"
    assert run_path(record("candidate", 1, "passed", case=name + "x")) not in files


@pytest.mark.requirement("EVD-01")
@pytest.mark.parametrize("kind", ["file", "folder", "nowhere", "pipe", "instead"])
def test_what_is_no_file_of_the_bundle_is_found(tmp_path, kind):
    folder = tmp_path / "b"
    in_folder({"plan.json": b"{}"}, folder)
    strange = folder / "strange"
    if kind == "pipe":
        os.mkfifo(strange)
    elif kind == "instead":
        strange = folder / "plan.json"
        strange.rename(tmp_path / "plan.json")
        strange.symlink_to(tmp_path / "plan.json")
    else:
        strange.symlink_to({"file": __file__, "folder": tmp_path, "nowhere": "none"}[kind])
    with pytest.raises(SidecarError, match=f"{strange.name} is a ") as raised:
        read_bundle(folder)
    assert raised.value.code == ExitCode.FAILED


@pytest.mark.parametrize(
    "payload",
    [b'{"subject":5}', b'{"subject":["x"]}', b'{"subject":[{"digest":null}]}', b"[1]", b"{", b""],
)
def test_a_statement_of_any_shape_is_a_fault_and_never_raises(payload):
    line = dsse.encoded(dsse.signed(payload, [KEY])) + b"\n"
    assert integrity({**WHOLE.files, STATEMENTS: line}).faults


@pytest.mark.parametrize("cases", [5, [1], [{}], [{"class": [], "candidate": "passed"}]])
def test_a_verdict_of_any_shape_is_a_fault_and_never_raises(cases):
    said = msgspec.json.decode(WHOLE.files["verdict.json"])
    said["evidence"]["cases"] = cases
    inside = {**WHOLE.files, "verdict.json": msgspec.json.encode(said)}
    files = {name: data for name, data in inside.items() if name not in (MANIFEST, STATEMENTS)}
    files[MANIFEST] = encoded(manifest_of(entries_of(files)))
    assert integrity({**files, STATEMENTS: WHOLE.files[STATEMENTS]}).faults


def test_a_gate_policy_that_divides_by_nothing_comes_to_nothing():
    policy = msgspec.json.decode(WHOLE.files["gate-policy.json"])
    policy["composite"]["weights"] = dict.fromkeys(("success", "safety", "rubric", "likeness"), 0)
    found = derive({**WHOLE.files, "gate-policy.json": msgspec.json.encode(policy)})
    assert found.faults
