"""Datasets and judgements from code: what the commands do, with the same results."""

import json
import re
import sys
from pathlib import Path

import pytest
from dataset_rig import Datasets, publish, run, tape_of

from processors.redact.rules import redact
from sidecar.errors import SidecarError
from sidecar.evaluate.datasets.item import Item
from sidecar.evaluate.expectations import ToolCalled
from sidecar.testing import datasets
from sidecar.twins.files import load_suite

pytestmark = pytest.mark.requirement("SDK-01")

PAYS = {"type": "toolCalled", "tool": "issue_refund", "arguments": {"amount": 20}}


@pytest.fixture
def command(tmp_path, monkeypatch):
    made = Datasets(tmp_path)
    monkeypatch.chdir(tmp_path)
    return made


def test_a_dataset_from_code_is_that_of_the_command(command):
    publish(command.folder, run(1), run(2, content=False))
    made = datasets.Dataset.create("refunds")
    found = made.add(query="limit=9", twins=["twin.yaml"], tags=["late"])
    assert (found.version, len(found.added)) == (1, 1)
    assert [one.run for one in found.left_out] == [f"{2:032x}"]
    again = made.add({"input": "Where is A-1?", "expected": "open"}, Item(input="x"), split="test")
    assert (again.version, again.items) == (2, 3)
    listed = json.loads(command("list", "refunds", "--output", "json").stdout)
    assert [one["digest"] for one in listed] == [one.digest for one in made.versions]
    exported = [json.loads(line) for line in command("export", "refunds").stdout.splitlines()]
    assert [one["item_id"] for one in exported] == [one.item_id for one in made.items()]
    assert len(made.items(version=1)) == 1
    made.export("lines.jsonl")
    assert Path("lines.jsonl").read_text() == command("export", "refunds").stdout
    with pytest.raises(SidecarError, match="expect nothing"):
        made.export("suite.yaml", twins=["twin.yaml"])
    made.add(remove=[made.items()[-1].item_id])
    made.export("suite.yaml", twins=["twin.yaml"], agent="refunder")
    suite = load_suite(command.folder / "suite.yaml").suite
    assert [one.id for one in suite.scenarios] == [one.item_id for one in made.items()]
    assert made.erase(traces=[f"{1:032x}"]) == 1
    assert [one.input for one in datasets.Dataset.open("refunds").items()] == ["Where is A-1?"]


def test_what_is_wrong_says_so(command):
    with pytest.raises(SidecarError, match="there is no store"):
        datasets.Dataset.open("refunds")
    made = datasets.Dataset.create("refunds")
    with pytest.raises(SidecarError, match="has a dataset"):
        datasets.Dataset.create("refunds")
    with pytest.raises(SidecarError, match=r"surprise.*item 2"):
        made.add({"input": "x"}, {"input": "y", "surprise": 1})
    with pytest.raises(SidecarError, match="no item"):
        made.add("x")
    with pytest.raises(SidecarError, match="no such trace"):
        datasets.trace("f" * 32)
    with pytest.raises(SidecarError, match="nothing is expected"):
        datasets.evaluate(run(1))
    with pytest.raises(SidecarError, match=r"toolCalled|tool"):
        datasets.evaluate(run(1), {"type": "toolCalled", "tol": "x"})
    assert [one.version for one in made.versions] == [0], "nothing was half added"


def test_a_stored_trace_is_judged_as_the_replay_judges_what_was_recorded(command):
    publish(command.folder, run(1))
    words = ("store:limit=9", "--twin", "twin.yaml", "--candidate", f"cmd:{sys.executable} -c ''")
    done = command(*words, "--evidence", "proof", "--output", "json", at=("replay",))
    assert done.exception is None, done.exception
    [case] = (command.folder / "proof").glob("*/cases/*/baseline-1.json")
    recorded = json.loads(case.read_text())
    made = datasets.Dataset.create("refunds")
    made.add(query="limit=9", twins=["twin.yaml"])
    [item] = made.items()
    stored = datasets.trace(f"{1:032X}")
    judged = datasets.evaluate(stored, *item.expect, twins=["twin.yaml"])
    said = [(one.expectation, one.status, one.detail) for one in judged.scores]
    assert said == [
        (one["expectation"], one["status"], one["detail"]) for one in recorded["scores"]
    ]
    assert judged.conclusion == recorded["conclusion"] == "passed"
    judged.must_hold()


def test_a_tape_and_the_trace_it_is_of_are_judged_alike(command):
    tape = tape_of(command.folder / "one.tape", run(1))
    (command.folder / "expect.yaml").write_text(
        "- {type: order, tools: [get_order, issue_refund]}\n- {type: maxSteps, max: 9}\n"
    )
    wanted = (PAYS, ToolCalled(tool="get_order"), "expect.yaml")
    tools = {"issue_refund": "irreversible", "get_order": "read"}
    both = [datasets.evaluate(one, *wanted, tools=tools) for one in (run(1), tape)]
    for one in both:
        assert [score.status for score in one.scores] == ["pass"] * 4
        assert one.conclusion == "passed" and one.name == f"{1:032x}"
    with pytest.raises(AssertionError, match=r"toolNotCalled:issue_refund fail \[0+1:4\]"):
        datasets.evaluate(tape, {"type": "toolNotCalled", "tool": "issue_refund"}).must_hold()


def test_the_examples_of_the_manual_run(command, monkeypatch):
    publish(command.folder, run(1))
    page = Path(__file__).parents[3] / "docs" / "specs" / "sdk.md"
    examples = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    [example] = [one for one in examples if "import datasets" in one]
    told = {}
    exec(compile(example, str(page), "exec"), told)
    assert told["judged"].conclusion == "passed" and len(told["refunds"].items()) == 2
    loaded = load_suite(command.folder / "suite.yaml").suite
    assert [one.tags for one in loaded.scenarios] == [("open",), ("split:test",)]


def test_without_content_what_cannot_be_asked_is_no_pass(command):
    off = redact(run(1), "off")
    wanted = {"type": "toolArgs", "tool": "issue_refund", "arguments": {"amount": 20}}
    assert [one.status for one in datasets.evaluate(off, wanted).scores] == ["skip"]
    bare = datasets.evaluate(run(1, content=False), {"type": "toolArgs", "tool": "issue_refund",
                             "arguments": {"amount": 20}})  # fmt: skip
    assert [one.status for one in bare.scores] == ["skip"]
    with pytest.raises(datasets.Undecided, match="incomplete"):
        bare.must_hold()
