"""Gateway traffic becomes tapes, over a store that a real gateway wrote."""

import json
import shutil
from contextlib import ExitStack

import pytest
from click.testing import CliRunner
from msgspec.structs import replace
from traffic_rig import SECRET, TRACE, Store

from sidecar.app.loading import load_config
from sidecar.app.opening import open_ledger
from sidecar.app.taping import stored_traces
from sidecar.cli.root import root
from sidecar.errors import StoreUnavailable
from sidecar.evaluate.assertions import conclude, factories
from sidecar.evaluate.assertions.parse import Named
from sidecar.replay.query import read_query
from sidecar.store.ledger import TrafficQuery
from sidecar.tape.files import read_tape
from sidecar.tape.tape import MISSING

pytestmark = pytest.mark.requirement("TAP-03")
POSTGRES = pytest.param("postgres", marks=pytest.mark.full)


@pytest.fixture(scope="module", params=["sqlite", POSTGRES])
def written(request, tmp_path_factory):
    """A store before its telemetry was published."""
    with ExitStack() as stack:
        yield Store(tmp_path_factory.mktemp("traffic"), stack, request.param)


@pytest.fixture(scope="module", params=["sqlite", POSTGRES])
def published(request, tmp_path_factory):
    """A store with its telemetry."""
    with ExitStack() as stack:
        store = Store(tmp_path_factory.mktemp("published"), stack, request.param)
        store.publish()
        yield store


def config(folder, capture="redacted"):
    path = folder / "sidecar.yaml"
    projects = [{"name": "default", "content": {"capture": capture}}, {"name": "other"}]
    seal = {"key_file": str(folder / "seal-key")}
    path.write_text(json.dumps({"projects": projects, "seal": seal}))
    return path


def test_a_stored_run_has_what_the_gateway_knows_of_its_calls_and_no_other_projects(
    published, tmp_path
):
    shutil.copy(published.folder.parent / "data.seal-key", tmp_path / "seal-key")

    def found(project, capture="redacted"):
        loaded = load_config(str(config(tmp_path, capture)), published.url)
        query = read_query(f"store:trace={TRACE}", project=project, now_ns=1)
        return stored_traces(loaded, query)

    (trace,) = found("default")
    refund = next(one for one in trace.steps if one.name == "issue_refund")
    assert refund.tool.arguments["amount"] == 500  # of which its span says nothing
    assert refund.tool.result is not None
    assert found("other") == []
    assert SECRET not in repr(trace)
    (bare,) = found("default", "off")
    assert next(one for one in bare.steps if one.name == "issue_refund").tool.arguments is None


def imported(store, to, *more, query=f"store:trace={TRACE}", capture="redacted"):
    to.mkdir(exist_ok=True)
    shutil.copy(store.folder.parent / "data.seal-key", to / "seal-key")
    arguments = [
        *("tape", "import", query, "--format", "store", "--to", str(to / "tapes")),
        *("--store", store.url, "--config", str(config(to, capture)), "--output", "json", *more),
    ]
    return CliRunner().invoke(root, arguments, standalone_mode=False)


def tape_of(store, to, *more, **which):
    found = imported(store, to, *more, **which)
    assert found.return_value == 0, found.output + repr(found.exception)
    (one,) = json.loads(found.stdout)["tapes"]
    assert one["holds"] and not one["faults"]
    return read_tape(to / "tapes" / f"{TRACE}.tape")


def events(tape, *kinds):
    return [(one.kind, one.name, one.st) for one in tape.events if not kinds or one.kind in kinds]


def test_each_call_is_its_decision_its_votes_its_call_and_its_result(written, tmp_path):
    tape = tape_of(written, tmp_path)
    assert events(tape) == [
        ("decision", "get_order", "ok"),
        ("tool_call", "get_order", "unset"),
        ("tool_result", "get_order", "ok"),
        ("decision", "issue_refund", "ok"),
        ("tool_call", "issue_refund", "unset"),
        ("tool_result", "issue_refund", "ok"),
        ("tool_call", "issue_refund", "unset"),  # the stored answer again: nobody decided anew
        ("tool_result", "issue_refund", "ok"),
        ("decision", "issue_refund", "ok"),
        ("tool_call", "issue_refund", "unset"),
        ("tool_result", "issue_refund", "deferred"),
        ("human_input", "issue_refund", "ok"),
        ("decision", "issue_refund", "ok"),
        ("tool_call", "issue_refund", "unset"),
        ("tool_result", "issue_refund", "ok"),
        ("decision", "issue_refund", "ok"),
        ("tool_call", "issue_refund", "unset"),
        ("error", "issue_refund", "error"),
        ("tool_result", "issue_refund", "error"),
        ("tool_call", "issue_refund", "unset"),  # without a key: refused before anything
        ("tool_result", "issue_refund", "denied"),
        ("decision", "issue_refund", "ok"),
        ("tool_call", "issue_refund", "unset"),
        ("tool_result", "issue_refund", "deferred"),
        ("human_input", "issue_refund", "ok"),
        ("error", "request for no known tool", "error"),  # and no call
        ("terminal", "", "unset"),
    ]
    said = [tape.payload(one, "out") for one in tape.events if one.kind == "human_input"]
    assert [one["decision"] for one in said] == ["approve", "deny"]
    errors = [one.err.type for one in tape.events if one.err]
    assert errors == [
        *("approval_required", "outcome_unknown", "outcome_unknown"),
        *("idempotency_key_required", "approval_required", "no_such_tool"),
    ]
    results = [one for one in tape.events if one.kind == "tool_result"]
    assert tape.payload(results[1], "out") == {"order": "17", "refunded": 20}
    assert tape.payload(results[2], "out") == tape.payload(results[1], "out")
    phases = [one.attr["gateway"]["phase"] for one in results]
    assert phases[:3] == ["executed", "executed", "replayed"]


def test_a_run_that_only_the_gateway_tells_of_lets_nothing_pass_by_absence(written, tmp_path):
    tape = tape_of(written, tmp_path)
    assert (tape.header.source, tape.header.gaps) == ("proxy", ("no_spans",))
    assert tape.header.fidelity == "L1"  # of the read only the digest of its answer is kept
    wanted = [
        Named(id="absent", assertion=factories.never_calls("delete_order")),
        Named(id="there", assertion=factories.never_calls("issue_refund")),
    ]
    found = conclude.asserted(wanted, tape, 0)
    assert [(one.finding.status, one.finding.code) for one in found] == [
        ("skip", "gaps"),
        ("fail", ""),
    ]


def test_no_credential_is_on_a_tape_and_no_name_of_a_person(written, tmp_path):
    tape_of(written, tmp_path)
    text = (tmp_path / "tapes" / f"{TRACE}.tape").read_text()
    assert SECRET not in text and "agk_" not in text and "Bearer" not in text
    assert "a-person" not in text and "tok:approver:" in text


def test_the_other_project_has_the_same_trace_id_and_nothing_of_it_joins(written, tmp_path):
    tape = tape_of(written, tmp_path / "a")
    assert "others" not in (tmp_path / "a" / "tapes" / f"{TRACE}.tape").read_text()
    other = tape_of(written, tmp_path / "b", "--project", "other")
    assert events(other, "tool_call") == [("tool_call", "get_order", "unset")]
    assert {tape.header.tenant, other.header.tenant} == {"default", "other"}
    assert tape.header.tape_id != other.header.tape_id


def test_spans_and_receipts_of_one_call_are_one_call(published, tmp_path):
    tape = tape_of(published, tmp_path)
    assert [one[0] for one in events(tape)].count("tool_call") == 8  # as without any span
    assert events(tape)[0] == ("llm_call", "m-1", "ok")
    assert tape.header.gaps == () and tape.header.agent.name == "refund-agent"
    assert tape.header.fidelity == "L2"  # the span of the read says what it was answered
    agents = {one.agent for one in tape.events if one.kind == "tool_call"}
    assert agents == {"refunds"}
    called = [one for one in tape.events if one.kind == "tool_call"]
    read = tape.payload(next(one for one in tape.events if one.kind == "tool_result"), "out")
    assert read == {"open": 1, "order": "17"}
    # The span says error, the receipt that the refund was made: the receipt counts.
    results = {one.cause[0]: one for one in tape.events if one.kind == "tool_result"}
    assert [results[one.seq].st for one in called[3:5]] == ["deferred", "ok"]
    assert tape.payload(results[called[4].seq], "out") == {"order": "18", "refunded": 500}


def test_a_second_call_within_one_span_comes_after_the_first_and_the_approval(published, tmp_path):
    tape = tape_of(published, tmp_path)
    vote = next(one for one in tape.events if one.kind == "human_input")
    first = next(one for one in tape.events if one.kind == "tool_result" and one.st == "deferred")
    decided = next(one for one in tape.events if one.kind == "decision" and one.seq > vote.seq)
    assert vote.cause == (first.cause[0],)
    assert decided.cause == (first.seq,)
    needs = Named(id="a", assertion=factories.requires_before("issue_refund", approval=True))
    (found,) = conclude.asserted([needs], tape, 0)
    refunds = [one for one in tape.events if one.kind == "tool_call" and one.name == "issue_refund"]
    assert (found.finding.status, found.finding.seq) == ("fail", refunds[0].seq)


def test_with_capture_off_only_digests_stand_and_they_still_compare(published, tmp_path):
    off = tape_of(published, tmp_path / "off", capture="off")
    said = imported(published, tmp_path / "told", capture="off").stderr
    assert "keeps no content" in said and "give --config" in said
    kept = tape_of(published, tmp_path / "on")
    assert off.header.fidelity == "L1"
    for one in off.events:
        assert off.payload(one, "in") is MISSING and off.payload(one, "out") is MISSING
    same = [(one.in_, one.st) for one in off.events if one.kind == "tool_call"]
    assert same == [(one.in_, one.st) for one in kept.events if one.kind == "tool_call"]


def test_a_tape_holds_no_more_than_its_project_keeps(published, tmp_path):
    found = imported(published, tmp_path, "--capture", "full")
    assert "a tape cannot hold more" in str(found.exception)


def test_calls_of_no_run_are_counted_with_a_reason_and_others_are_not_asked_for(written, tmp_path):
    found = imported(written, tmp_path, query="store:since=1h")
    assert found.return_value == 0, found.output
    said = json.loads(found.stdout)
    assert [one["tape"].rsplit("/")[-1] for one in said["tapes"]] == [f"{TRACE}.tape"]
    assert said["left_out"] == {"no_trace": 1}
    assert "1 calls belong to no run and were left out: no_trace" in found.stderr
    none = imported(written, tmp_path / "b", query="store:since=1h,outcome=contradicted")
    assert (none.return_value, json.loads(none.stdout)["tapes"]) == (0, [])


def test_a_trace_that_the_project_does_not_have_is_said(written, tmp_path):
    found = imported(written, tmp_path, query=f"store:trace={'cd' * 16}")
    assert found.return_value == 1 and "error: there is no such trace" in found.stderr
    assert "keeps no content" not in found.stderr


def test_a_store_that_is_not_there_is_no_querys_fault(written, tmp_path):
    found = imported(written, tmp_path, "--store", f"sqlite:///{tmp_path / 'none'}")
    assert isinstance(found.exception, StoreUnavailable) and found.stdout == ""


def test_the_same_store_gives_the_same_tape_byte_for_byte(published, tmp_path):
    tape_of(published, tmp_path / "a")
    tape_of(published, tmp_path / "b")
    first, second = (tmp_path / each / "tapes" / f"{TRACE}.tape" for each in "ab")
    assert first.read_bytes() == second.read_bytes()


def test_receipts_are_read_a_page_at_a_time_in_order(written, tmp_path):
    loaded = load_config(str(config(tmp_path)), written.url)
    shutil.copy(written.folder.parent / "data.seal-key", tmp_path / "seal-key")
    with open_ledger(loaded) as ledger:
        query = TrafficQuery(project="default", trace_id=TRACE)
        whole = ledger.facts_of(query)
        first = ledger.facts_of(replace(query, limit=3))
        rest = ledger.facts_of(replace(query, after=first[-1].seq))
        assert [*first, *rest] == whole and len(whole) > 10
        assert ledger.facts_of(replace(query, project="nobody")) == []
        assert ledger.answers_of("other", TRACE) == []
        assert ledger.trace_ids_of("default", 0, 1 << 62, 9) == [TRACE]
        assert ledger.trace_ids_of("default", 0, 1, 9) == []
