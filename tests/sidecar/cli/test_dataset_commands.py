"""``sidecar dataset`` as a person or a script runs it: versions, what is left out, and suites that
are run as they were exported."""

import json
import resource
import signal
import sqlite3
import sys

import postgres_rig
import pytest
import yaml
from dataset_rig import Datasets, publish, run, tape_of
from msgspec.inspect import type_info
from msgspec.structs import replace

from sidecar.errors import ExitCode, SidecarError
from sidecar.replay import dataset_items
from sidecar.store.sqlite.connection import migrate, open_database
from sidecar.store.sqlite.scripts import TRACES, scripts
from sidecar.twins.files import load_suite

pytestmark = pytest.mark.requirement("SDK-01", "DAT-01")

AGENT = """\
import json, os, sys, urllib.request
json.loads(sys.stdin.readline())
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def call(path, body=None):
    return opener.open(urllib.request.Request(
        os.environ["SIDECAR_GATEWAY_URL"] + "/shop/orders/A-7" + path,
        data=None if body is None else json.dumps(body).encode(),
        headers={"Authorization": "Bearer " + os.environ["SIDECAR_AGENT_KEY"],
                 "Content-Type": "application/json", "Idempotency-Key": "k1"},
    )).read()


total = json.loads(call(""))["total"]
print(json.dumps({"output": f"It is {total}."}))
"""


@pytest.fixture
def dataset(tmp_path):
    return Datasets(tmp_path)


def told(done):
    assert done.exception is None, done.exception
    return json.loads(done.stdout)


def lines(done):
    assert done.exception is None, done.exception
    return [json.loads(line) for line in done.stdout.splitlines()]


def refused(done, *words):
    assert isinstance(done.exception, SidecarError), done
    for word in words:
        assert word in done.exception.text()


def test_a_dataset_grows_version_by_version_and_says_what_it_is_made_of(dataset):
    publish(dataset.folder, run(1), run(2, asked="Refund A-7, please"))
    assert dataset("create", "refunds").stdout == "refunds version 0: 0 items\n"
    first = told(dataset("add", "refunds", "--query", "service=refunder", "--output", "json"))
    assert (first["version"], first["items"], len(first["added"])) == (1, 2, 2)
    again = told(dataset("add", "refunds", "--query", "service=refunder", "--output", "json"))
    assert (again["version"], again["digest"]) == (1, first["digest"])
    assert again["duplicates"] == first["added"]
    line = {"input": "Where is A-1?", "expect": [{"type": "outputContains", "text": "A-1"}]}
    written = dataset("add", "refunds", "--jsonl", "-", given=json.dumps(line))
    assert written.stdout.startswith("refunds version 2: 1 added, 3 items\n  sha256:")
    listed = told(dataset("list", "--output", "json"))
    assert [(one["name"], one["version"], one["items"]) for one in listed] == [("refunds", 2, 3)]
    versions = lines(dataset("list", "refunds", "--output", "jsonl"))
    assert [(one["version"], one["items"]) for one in versions] == [(0, 0), (1, 2), (2, 3)]
    assert versions[1]["digest"] == first["digest"]
    assert len(lines(dataset("export", "refunds", "--version", "1"))) == 2


@pytest.mark.row("R46")
def test_an_item_of_a_trace_has_an_id_of_its_own_and_a_link(dataset):
    publish(dataset.folder, run(1))
    dataset("create", "refunds")
    dataset("add", "refunds", "--trace", f"{1:032X}", "--twin", "twin.yaml", "--tag", "late")
    [item] = lines(dataset("export", "refunds"))
    assert run(1).trace_id not in item["item_id"]
    assert item["source"] == {
        "kind": "trace",
        "trace_id": f"{1:032x}",
        "revision": 1,
        "service": "refunder",
        "version": "1.2.4",
        "outcome": "verified_success",
        "drafted": True,
    }
    assert item["input"] == "Refund A-7" and item["tags"] == ["late"]
    assert item["expected"] == {"output": "Refunded.", "outcome": "verified_success"}
    assert item["scenario"]["state"] == {"shop.orders": [{"id": "A-7", "total": 20, "refunded": 0}]}
    assert [one["id"] for one in item["expect"]] == [
        "toolCalled:issue_refund",
        "noDuplicateSideEffect",
        "outcomeVerified",
    ]


@pytest.mark.row("R46")
def test_a_suite_of_a_dataset_is_run_and_leaves_the_traces_it_came_from_as_they_were(dataset):
    publish(dataset.folder, run(1))
    dataset("create", "refunds")
    dataset("add", "refunds", "--query", "limit=9", "--twin", "twin.yaml", "--split", "test")
    more = {"input": "Total of A-7?", "expect": [{"type": "outputContains", "text": "20"}],
            "scenario": {"state": {"shop.orders": [{"id": "A-7", "total": 20, "refunded": 0}]}},
            "title": "asks", "severity": "minor"}  # fmt: skip
    dataset("add", "refunds", "--jsonl", "-", given=json.dumps(more))
    traces = dataset("list", "--output", "json", at=("trace",)).stdout
    wanted = ("--output", "suite", "--twin", "twin.yaml", "--to", "suites.yaml")
    assert dataset("export", "refunds", *wanted).exception is None
    loaded = load_suite(dataset.folder / "suites.yaml")
    items = lines(dataset("export", "refunds"))
    assert [one.id for one in loaded.suite.scenarios] == [one["item_id"] for one in items]
    assert (loaded.suite.suite, loaded.suite.version) == ("refunds", "2")
    assert loaded.suite.scenarios[0].tags == ("split:test",)
    (dataset.folder / "agent.py").write_text(AGENT)
    agent = f"cmd:{sys.executable} agent.py"
    done = dataset(*("run", "suites.yaml", "--agent", agent, "--output", "json"), at=("scenario",))
    ended = json.loads(done.stdout)["scenarios"]
    assert done.return_value == ExitCode.FAILED
    assert [(one["scenario"], one["outcome"]) for one in ended] == [
        (items[0]["item_id"], "failed"),
        (items[1]["item_id"], "passed"),
    ]
    assert dataset("list", "--output", "json", at=("trace",)).stdout == traces


@pytest.mark.row("R47")
def test_a_run_whose_parts_were_joined_later_is_one_item_with_all_of_it(dataset):
    publish(dataset.folder, run(1), run(2, asked="Only a part"))
    whole = replace(run(1, asked="Refund A-7, all of it"), trace_ids=(f"{1:032x}", f"{2:032x}"))
    publish(dataset.folder, whole)
    dataset("create", "refunds")
    found = told(dataset("add", "refunds", "--trace", f"{2:032x}", "--output", "json"))
    assert (found["items"], len(found["added"])) == (1, 1)
    [item] = lines(dataset("export", "refunds"))
    assert item["source"]["trace_id"] == f"{1:032x}" and item["source"]["revision"] == 2
    assert item["input"] == "Refund A-7, all of it"
    again = told(dataset("add", "refunds", "--query", "limit=9", "--output", "json"))
    assert (again["items"], again["duplicates"]) == (1, found["added"])


def test_lines_that_are_exported_can_be_edited_and_removed(dataset):
    dataset("create", "refunds")
    given = "\n".join(
        json.dumps({"input": f"Where is A-{n}?", "expected": f"here {n}"}) for n in range(3)
    )
    dataset("add", "refunds", "--jsonl", "-", given=given)
    items = lines(dataset("export", "refunds"))
    assert items[0]["expect"] == [{"type": "outputEquals", "id": "outputEquals", "value": "here 0"}]
    edited = {**items[1], "expected": {"output": "there"}, "tags": ["hard"]}
    again = "\n".join(map(json.dumps, (items[0], edited)))
    removing = ("--remove", items[2]["item_id"])
    found = told(
        dataset("add", "refunds", "--jsonl", "-", *removing, "--output", "json", given=again)
    )
    assert (found["version"], found["items"]) == (2, 2)
    assert (found["added"], found["edited"], found["removed"]) == (
        [],
        [items[1]["item_id"]],
        [items[2]["item_id"]],
    )
    now = lines(dataset("export", "refunds"))
    assert now == [items[0], edited]
    assert lines(dataset("export", "refunds", "--version", "1")) == items
    assert lines(dataset("export", "refunds", "--tag", "hard")) == [edited]
    dataset("create", "copy")
    copied = told(
        dataset(
            "add", "copy", "--jsonl", "-", "--output", "json", given="\n".join(map(json.dumps, now))
        )
    )
    assert copied["digest"] == found["digest"], "the same items are the same version anywhere"
    refused(dataset("add", "refunds", "--remove", "nobody"), "no item 'nobody'")


def test_a_run_without_content_is_told_and_nothing_is_made_up(dataset):
    publish(dataset.folder, run(1, content=False), run(2))
    dataset("create", "refunds")
    done = dataset("add", "refunds", "--trace", f"{1:032x}")
    assert done.return_value == ExitCode.UNDECIDED
    assert f"left out: {1:032x}: its content was not kept" in done.stderr
    both = dataset("add", "refunds", "--query", "limit=9", "--output", "json")
    assert both.return_value == ExitCode.GOOD
    assert [one["run"] for one in told(both)["left_out"]] == [f"{1:032x}"]


def test_a_project_that_keeps_no_content_keeps_none_in_a_dataset(tmp_path):
    dataset = Datasets(tmp_path, capture="off")
    publish(tmp_path, run(1))
    dataset("create", "refunds")
    done = dataset("add", "refunds", "--query", "limit=9")
    assert done.return_value == ExitCode.UNDECIDED
    assert "projects[].content.capture is off" in done.stderr
    captured = {"input": "Refund A-7", "source": {"kind": "trace", "trace_id": "1" * 32}}
    again = dataset("add", "refunds", "--jsonl", "-", given=json.dumps(captured))
    assert again.return_value == ExitCode.UNDECIDED
    written = {"input": "Refund A-7 of jane@example.com"}
    dataset("add", "refunds", "--jsonl", "-", given=json.dumps(written))
    [item] = lines(dataset("export", "refunds"))
    assert item["input"].startswith("Refund A-7 of ") and "jane" not in item["input"]


def test_what_the_project_masks_is_masked_in_an_item(dataset):
    publish(dataset.folder, run(1, asked="Refund A-7 of jane@example.com"))
    dataset("create", "refunds")
    dataset("add", "refunds", "--query", "limit=9")
    [item] = lines(dataset("export", "refunds"))
    assert "jane@example.com" not in json.dumps(item) and "Refund A-7" in item["input"]


@pytest.mark.requirement("SEC-01")
def test_projects_do_not_see_each_other(dataset):
    publish(dataset.folder, run(1), run(2, project="other"))
    dataset("create", "refunds")
    dataset("create", "refunds", "--project", "other")
    refused(dataset("add", "refunds", "--trace", f"{2:032x}"), "has no such trace")
    dataset("add", "refunds", "--query", "limit=9", "--project", "other")
    assert lines(dataset("export", "refunds")) == []
    [item] = lines(dataset("export", "refunds", "--project", "other"))
    assert item["source"]["trace_id"] == f"{2:032x}"
    only = told(dataset("list", "--project", "other", "--output", "json"))
    assert [(one["project"], one["items"]) for one in only] == [("other", 1)]


def test_what_cannot_be_right_is_told_with_its_place(dataset):
    refused(dataset("list"), "there is no store")
    refused(dataset("create", "no name"), "cannot be a dataset's name")
    dataset("create", "refunds")
    refused(dataset("create", "refunds"), "has a dataset 'refunds'")
    refused(dataset("add", "nowhere", "--query", "limit=1"), "no dataset 'nowhere'")
    refused(dataset("add", "refunds", "--query", "limit=1"), "no stored trace matches")
    refused(dataset("export", "refunds", "--version", "7"), "has no version 7")
    refused(dataset("add", "refunds", "--tag", "late"), "nothing to add")
    for line, *words in (
        ("{", "-:1", "no JSON"),
        ("[]", "no JSON object"),
        ('{"input": "x", "surprise": 1}', "surprise"),
        ('{"input": ""}', "input: is empty"),
        ('{"input": "x", "expect": [{"type": "outputMatches", "pattern": "("}]}', "pattern"),
        ('{"input": "x", "scenario": {"title": "y"}}', "stands in the item itself"),
        ('{"input": "x", "scenario": {"faults": 3}}', "scenario.faults"),
        ('{"input": "x", "tags": ["a b"]}', "tags.0"),
        ('{"input": 12345678901234567890}', "cannot be kept"),
        (json.dumps({"input": "x" * 2**20}), "bytes, more than"),
    ):
        refused(dataset("add", "refunds", "--jsonl", "-", given=line), *words)
    dataset("add", "refunds", "--jsonl", "-", given='{"input": "x"}')
    as_suite = ("export", "refunds", "--output", "suite")
    refused(dataset(*as_suite), "--twin")
    refused(dataset(*as_suite, "--twin", "twin.yaml"), "expect nothing")
    [item] = lines(dataset("export", "refunds"))
    item["expect"] = [{"type": "toolCalled", "tool": "fly"}]
    dataset("add", "refunds", "--jsonl", "-", given=json.dumps(item))
    refused(dataset(*as_suite, "--twin", "twin.yaml"), "names the tool 'fly'")
    refused(dataset("export", "refunds", "--twin", "twin.yaml"), "only a suite")
    assert told(dataset("list", "--output", "json"))[0]["version"] == 2


def test_a_tape_and_a_capture_are_items_too_and_the_same_run_is_one(dataset):
    publish(dataset.folder, run(1))
    tape = tape_of(dataset.folder / "one.tape", run(1))
    dataset("create", "refunds")
    first = told(dataset("add", "refunds", "--tape", tape, "--output", "json"))
    [item] = lines(dataset("export", "refunds"))
    assert (item["input"], item["expected"]["output"]) == ("Refund A-7", "Refunded.")
    source = item["source"]
    assert (source["kind"], source["trace_id"]) == ("tape", f"{1:032x}")
    assert source["tape"] in dataset("verify", tape, at=("tape",)).stdout
    again = told(dataset("add", "refunds", "--query", "limit=9", "--output", "json"))
    assert (again["version"], again["duplicates"]) == (1, first["added"])
    text = tape.read_text()
    tape.write_text(text.replace("Refunded.", "Refused!!"))
    refused(dataset("add", "refunds", "--tape", tape), "does not hold", "tape verify")


def test_a_capture_is_redacted_as_the_project_says(dataset, tmp_path):
    capture = {
        "resourceSpans": [{"scopeSpans": [{"spans": [{
            "traceId": "a" * 32, "spanId": "b" * 16, "name": "chat m", "kind": 3,
            "startTimeUnixNano": "1780000000000000000", "endTimeUnixNano": "1780000001000000000",
            "attributes": [
                {"key": "gen_ai.operation.name", "value": {"stringValue": "chat"}},
                {"key": "gen_ai.request.model", "value": {"stringValue": "m"}},
                {"key": "gen_ai.input.messages", "value": {"stringValue": json.dumps(
                    [{"role": "user", "parts": [
                        {"type": "text", "content": "Refund jane@example.com"}]}])}},
            ]}]}]}]
    }  # fmt: skip
    (tmp_path / "0001.traces.json").write_text(json.dumps(capture))
    dataset("create", "refunds")
    dataset("add", "refunds", "--capture", "0001.traces.json")
    [item] = lines(dataset("export", "refunds"))
    assert item["input"].startswith("Refund ") and "jane" not in item["input"]
    assert (item["source"]["kind"], item["source"]["trace_id"]) == ("capture", "a" * 32)
    refused(dataset("add", "refunds", "--capture", "nowhere"), "no such file")


@pytest.mark.requirement("OPS-01")
def test_what_items_say_is_erased_on_demand_and_by_age_and_what_outlives_a_trace_is_told(dataset):
    publish(dataset.folder, run(1), run(2, asked="Another"))
    dataset("create", "refunds")
    dataset("add", "refunds", "--query", "limit=9", "--jsonl", "-", given='{"input": "x"}')
    before = told(dataset("list", "--output", "json"))
    refused(dataset("erase"), "nothing to erase")
    erased = dataset("erase", "--trace", f"{1:032X}").stdout
    assert erased == "1 item says nothing any more\n"
    mistyped = dataset("erase", "--trace", f"{1:032x}0", "--item", "nobody")
    assert (mistyped.return_value, mistyped.stdout) == (2, "0 items say nothing any more\n")
    assert "is from nobody" in mistyped.stderr and f"is from {1:032x}0" in mistyped.stderr
    left = dataset("export", "refunds")
    assert [one["input"] for one in lines(left)] == ["Another", "x"]
    assert "1 items say nothing more" in left.stderr
    now = told(dataset("list", "--output", "json"))
    assert now == [{**before[0], "erased": 1}], "the version is what it was, its digest too"
    pruned = dataset("prune", "--output", "json", at=("store",))
    told_of = told(pruned)
    assert told_of["revisions"] == 2, "they were published in 1970"
    assert told_of["outliving"] == [{"project": "default", "name": "refunds", "items": 1}]
    assert b"Another" in stored(dataset)
    config = (dataset.folder / "sidecar.yaml").read_text()
    kept = config.replace("content:", "retention: {datasets: 1ms}\n  content:", 1)
    (dataset.folder / "sidecar.yaml").write_text(kept)
    text = dataset("prune", at=("store",)).stdout
    assert "what 1 items of datasets said is erased" in text and "outliv" not in text
    assert [one["input"] for one in lines(dataset("export", "refunds"))] == ["x"]


def test_an_export_is_written_whole_or_what_stood_there_stays(dataset):
    dataset("create", "refunds")
    dataset("add", "refunds", "--jsonl", "-", given=json.dumps({"input": "x" * 120_000}))
    to = dataset.folder / "lines.jsonl"
    to.write_text("as before\n")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (65_536, before[1]))
    handled = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        refused(dataset("export", "refunds", "--to", str(to)), "it cannot be written")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handled)
    assert to.read_text() == "as before\n"
    assert not list(dataset.folder.glob(".lines*")), "and nothing else is left"
    dataset("export", "refunds", "--to", str(to))
    assert json.loads(to.read_text())["input"] == "x" * 120_000
    nowhere = ("--twin", "twin.yaml", "--to", str(dataset.folder / "no" / "suite.yaml"))
    refused(dataset("export", "refunds", "--output", "suite", *nowhere), "no such folder")


@pytest.mark.full
def test_a_dataset_on_postgres_is_the_same_to_the_byte_of_its_digest(dataset):
    line = {"item_id": "one", "input": "Where is A-1?", "expected": "open"}
    edited = {**line, "title": "edited"}
    digests = []
    with postgres_rig.database(migrated=False) as url:
        for store in ("sqlite:///data", url):
            at = ("--store", store)
            refused(dataset("list", *at), "there is no store")
            dataset("create", "refunds", *at)
            for given in (line, edited):
                done = dataset("add", "refunds", "--jsonl", "-", *at, given=json.dumps(given))
                assert done.exception is None, done.exception
            versions = told(dataset("list", "refunds", "--output", "json", *at))
            digests.append([(one["version"], one["digest"], one["items"]) for one in versions])
            assert lines(dataset("export", "refunds", *at))[0]["title"] == "edited"
            assert "title" not in lines(dataset("export", "refunds", "--version", "1", *at))[0]
            assert dataset("erase", "--item", "one", *at).stdout == (
                "2 items say nothing any more\n"
            ), "in both of its versions"
            assert dataset("prune", *at, at=("store",)).exception is None
    assert digests[0] == digests[1] and len(digests[0]) == 3


def test_many_lines_are_read_without_finding_out_anew_what_an_item_is(dataset, monkeypatch):
    asked = []
    monkeypatch.setattr(
        dataset_items, "type_info", lambda kind: asked.append(kind) or type_info(kind)
    )
    dataset("create", "refunds")
    given = "\n".join(json.dumps({"input": f"Where is A-{number}?"}) for number in range(40))
    assert told(dataset("add", "refunds", "--jsonl", "-", "--output", "json", given=given))
    assert len(asked) <= 2


def stored(dataset):
    return b"".join(
        row[0]
        for row in sqlite3.connect(dataset.folder / "sidecar-data/traces.db").execute(
            "SELECT content FROM dataset_item WHERE content IS NOT NULL"
        )
    )


def test_a_store_of_an_earlier_release_says_what_to_do_and_is_taken_up(dataset):
    path = dataset.folder / "sidecar-data" / "traces.db"
    connection = open_database(path)
    migrate(connection, scripts(TRACES[: TRACES.index("datasets")]), path)
    connection.close()
    refused(dataset("list"), "datasets", "sidecar store migrate")
    assert dataset("migrate", at=("store",)).exception is None
    assert dataset("list").stdout == "no datasets\n"


def test_expectations_for_all_items_come_from_a_file(dataset):
    (dataset.folder / "expect.yaml").write_text(yaml.safe_dump([{"type": "maxSteps", "max": 9}]))
    dataset("create", "refunds")
    dataset("add", "refunds", "--expect", "expect.yaml", "--jsonl", "-", given='{"input": "x"}')
    [item] = lines(dataset("export", "refunds"))
    assert item["expect"] == [{"type": "maxSteps", "id": "maxSteps", "max": 9}]
    (dataset.folder / "expect.yaml").write_text("- {type: maxSteps, least: 9}\n")
    bad = dataset(
        "add", "refunds", "--expect", "expect.yaml", "--jsonl", "-", given='{"input":"y"}'
    )
    refused(bad, "expect.yaml:1", "least")
