"""The library: a run is recorded, loaded, replayed, checked and reported."""

import json
import os
import threading
import time

import pytest

from sidecar.capture.seams.session import active
from sidecar.errors import SidecarError
from sidecar.evaluate.assertions.factories import budget_within, claim_verified, never_calls
from sidecar.testing import tapes
from sidecar.testing.driver import recording

pytestmark = pytest.mark.requirement("SDK-02")


def agent(again=1):
    return [time.time() for _ in range(again)]


@pytest.fixture
def here(tmp_path, request):
    """A tape of the agent of this file."""
    roots = [request.path.parent]
    with tapes.record(tmp_path / "a.tape", roots=roots, labels={"suite": "own"}) as run:
        run.output(agent())
    return tmp_path / "a.tape", roots


def test_a_run_is_replayed_with_the_digest_it_was_recorded_with(here):
    path, roots = here
    recorded = tapes.load(path)
    assert recorded.header.fidelity == "L3" and recorded.header.labels == {"suite": "own"}
    for _ in range(2):
        with tapes.replay(path, roots=roots) as run:
            run.output(agent())
        assert run.digest == recorded.seal.exact_digest
        assert run.drift is None


def test_where_a_run_leaves_its_tape_it_ends_and_nothing_of_it_is_left(here):
    path, roots = here
    before = time.time
    with pytest.raises(tapes.Drifted) as found, tapes.replay(path, roots=roots):
        agent(again=2)
    assert (found.value.drift.kind, found.value.drift.seq) == ("EXTRA_CALL", 3)
    said = tapes.drift_text("a", found.value.drift, tapes.load(path), again="so")
    assert said.splitlines()[0].startswith("tape a: EXTRA_CALL at 3 (decision time.time): ")
    assert said.splitlines()[-1] == "where the change is meant, record it again: so"
    assert active() is None and time.time is before


def test_the_same_events_after_others_than_recorded_fail_a_run(tmp_path, request):
    def threads(*, joins):
        thread = threading.Thread(target=agent)
        thread.start()
        while thread.is_alive():
            os.sched_yield()
        if joins:
            thread.join()
        agent()

    roots = [request.path.parent]
    with tapes.record(tmp_path / "a.tape", roots=roots):
        threads(joins=True)
    with tapes.replay(tmp_path / "a.tape", roots=roots) as run:
        threads(joins=True)
    assert run.drift is None
    with pytest.raises(tapes.Drifted) as found, tapes.replay(tmp_path / "a.tape", roots=roots):
        threads(joins=False)
    assert (found.value.drift.kind, found.value.drift.seq) == ("ORDER", 2)
    assert "(causes)" in found.value.drift.reason


def test_a_run_that_fails_by_itself_fails_so_and_is_no_recording(here, tmp_path):
    path, roots = here
    with pytest.raises(KeyError), tapes.replay(path, roots=roots):
        raise KeyError("own")
    with pytest.raises(KeyError), tapes.record(tmp_path / "b.tape", roots=roots):
        raise KeyError("own")
    assert [one.name for one in tmp_path.iterdir()] == ["a.tape"] and active() is None


def test_a_process_has_one_tape_at_a_time(here, tmp_path):
    path, roots = here
    with tapes.record(tmp_path / "c.tape", roots=roots):
        with pytest.raises(SidecarError, match="already"), tapes.replay(path):
            pass
        with pytest.raises(SidecarError, match="already"), recording(tmp_path / "d.tape"):
            pass
    assert {one.name for one in tmp_path.iterdir()} == {"a.tape", "c.tape"}


def test_a_recording_without_content_cannot_be_replayed(tmp_path, request):
    roots = [request.path.parent]
    with tapes.record(tmp_path / "a.tape", roots=roots, capture="off"):
        agent()
    with pytest.raises(SidecarError, match="L1"), tapes.replay(tmp_path / "a.tape"):
        pass


def test_a_folder_that_takes_no_tape_is_said_before_anything_runs(tmp_path):
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(SidecarError, match="cannot be written"),
        tapes.record(tmp_path / "file" / "a.tape"),
    ):
        raise AssertionError("it ran")


def shopping(llm, tools):
    """An agent that asks its model, and refunds what is open."""
    order = tools.get_order(order="17")
    said = llm(model="m-1", messages=[{"role": "user", "content": order["state"]}])
    if said == "refund":
        return tools.issue_refund(order="17")
    return said


@pytest.fixture
def shop(tmp_path, request):
    """A tape of that agent, in which it refunds."""
    roots = [request.path.parent]
    tools = {
        "get_order": lambda order: {"state": "open"},
        "issue_refund": lambda order: {"refunded": order},
    }
    with tapes.record(tmp_path / "shop.tape", roots=roots) as run:
        run.call(shopping, llm=lambda request: "refund", tools=tools)
    return tmp_path / "shop.tape", roots


def seq_of(tape, kind, name):
    return next(one.seq for one in tape.events if (one.kind, one.name) == (kind, name))


@pytest.mark.requirement("REP-03")
def test_what_another_result_would_have_led_to_is_shown_and_asserted_on(shop, tmp_path):
    path, roots = shop
    seq = seq_of(tapes.load(path), "tool_call", "get_order")
    closed = tapes.Patch(what="result", seq=seq, value={"state": "closed"})
    to = tmp_path / "closed.tape"
    with tapes.counterfactual(path, closed, live=["provider"], to=to, roots=roots) as run:
        run.call(shopping, llm=lambda request: request["messages"][0]["content"])
    assert (run.told.parted, run.told.stopped, run.told.live) == (seq + 1, None, {"provider": 1})
    tapes.check(run.tape, never_calls("issue_refund")).must_hold()
    assert run.tape.header.replayed_from.exact_digest == tapes.load(path).seal.exact_digest
    with tapes.counterfactual(path, closed, to=tmp_path / "stopped.tape", roots=roots) as run:
        run.call(shopping)  # no model: it ends where nothing answers
    assert "no answer" in run.told.stopped and run.tape.examination.holds


@pytest.mark.requirement("REP-03")
def test_a_run_that_is_another_before_the_change_cannot_be_compared(shop, tmp_path):
    path, roots = shop
    seq = seq_of(tapes.load(path), "tool_call", "issue_refund")
    failed = tapes.Patch(what="fault", seq=seq, error="TimeoutError")
    to = tmp_path / "new.tape"
    with (
        pytest.raises(tapes.Incomparable, match="PREFIX"),
        tapes.counterfactual(path, failed, to=to, roots=roots) as run,
    ):
        run.call(lambda llm, tools: tools.get_order(order="18"))
    with pytest.raises(tapes.Incomparable), tapes.counterfactual(path, failed, roots=roots):
        pass  # never met
    with pytest.raises(SidecarError, match="nothing is answered"):
        tapes.counterfactual(path, tapes.Patch(what="result", seq=999, value=1)).__enter__()
    with pytest.raises(SidecarError, match="has patches"):
        tapes.counterfactual(path).__enter__()
    assert not to.exists() and active() is None


@pytest.mark.requirement("REP-01")
def test_another_model_is_tried_on_the_tools_of_the_tape(shop, tmp_path):
    path, roots = shop
    to = tmp_path / "new.tape"
    with tapes.replay(path, mode="tools", to=to, roots=roots) as run:
        run.call(shopping, llm=lambda request: "refund")
    assert run.tape.header.labels["replay"] == "tools" and run.digest is None
    with pytest.raises(tapes.Drifted) as left, tapes.replay(path, mode="tools", roots=roots) as run:
        run.call(shopping, llm=lambda request: "no")
    assert left.value.drift.kind == "MISSING_CALL"


@pytest.mark.requirement("ASR-01")
def test_what_holds_does_not_and_cannot_be_decided_are_told_apart(here, tmp_path):
    path, _ = here
    tape = tapes.load(path)
    tapes.check(tape, never_calls("rm")).must_hold()
    failed = tapes.check(tape, never_calls("rm"), budget_within(seconds=0), name="own")
    with pytest.raises(AssertionError, match="budget_within-2 does not hold at"):
        failed.must_hold()
    assert failed.outcome == "fail" and "tape own: of 2 assertions 1 hold" in failed.text()
    skipped = tapes.check(tape, claim_verified())
    assert (skipped.outcome, skipped.skipped) == ("undecided", True)
    with pytest.raises(tapes.Undecided, match="could not be asked"):
        skipped.must_hold()
    assert tapes.check(tape, claim_verified(), strict=True).outcome == "fail"
    path.write_bytes(path.read_bytes()[:-40])
    lost = tapes.check(tapes.load(path), never_calls("rm"))
    assert (lost.outcome, lost.skipped) == ("undecided", False)


@pytest.mark.parametrize(
    ("text", "said"),
    [(None, "cannot be read"), ("assertions: 3\n", "assertions"), ("\xff", "UTF-8")],
)
def test_assertions_that_cannot_be_read_are_said(here, tmp_path, text, said):
    path, _ = here
    own = tmp_path / "own.yaml"
    if text is not None:
        own.write_text(text, "latin-1")
    with pytest.raises(SidecarError, match=said):
        tapes.check(tapes.load(path), own)
    with pytest.raises(SidecarError, match="int is no assertion"):
        tapes.check(tapes.load(path), 3)


def test_what_checks_came_to_is_reported_in_any_form(here):
    path, _ = here
    tape = tapes.load(path)
    good = tapes.check(tape, never_calls("rm"), name="one")
    bad = tapes.check(tape, budget_within(seconds=0), name="two")
    assert json.loads(tapes.report([good], "json"))["outcome"] == "pass"
    told = json.loads(tapes.report([good, bad], "json", commit="abc"))
    assert (told["outcome"], told["exit_code"]) == ("fail", 1)
    assert told["facts"] == {"commit": "abc"}
    assert "FAIL" in tapes.report([bad])
    assert json.loads(tapes.report([], "json"))["outcome"] == "undecided"
    with pytest.raises(ValueError, match="pdf is no form of a report: text, json"):
        tapes.report([good], "pdf")
