"""tau-bench runs become tapes: what was said, asked, called and verified."""

import gzip
import json
from pathlib import Path

import msgspec
import pytest

from processors.redact.terms import Terms
from sidecar.replay.import_tape import MaskingRedactor, Unimportable, redactor_of
from sidecar.replay.import_tau import tau_runs
from sidecar.tape.compose import Composer

RUNS = Path(__file__).parents[4] / "shared" / "corpora" / "tau-airline" / "runs.jsonl.gz"


def call(name, arguments, id_="c1"):
    return {
        "id": id_,
        "type": "function",
        "function": {"name": name, "arguments": json.dumps(arguments)},
    }


RUN = {
    "task_id": 7,
    "trial": 2,
    "reward": 1.0,
    "messages": [
        {"role": "system", "content": "policy"},
        {"role": "user", "content": "cancel both"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [call("cancel", {"id": "A"}), call("cancel", {"id": "B"})],
        },
        {"role": "tool", "tool_call_id": "c1", "name": "cancel", "content": '{"ok": true}'},
        {"role": "tool", "tool_call_id": "c1", "name": "cancel", "content": "Error: no"},
        {"role": "assistant", "content": "done"},
    ],
}


def one(run, capture="redacted"):
    (found,) = tau_runs(json.dumps([run]).encode(), capture)
    return found


@pytest.mark.requirement("TAP-03")
def test_a_run_is_told_event_by_event_and_paired_by_position():
    found = one(RUN)
    kinds = [(fact.kind, fact.name, fact.cause) for fact in found.facts]
    assert kinds == [
        ("human_input", "user", ()),
        ("llm_call", "model", ()),
        ("tool_call", "cancel", (1,)),
        ("tool_call", "cancel", (1,)),
        ("tool_result", "cancel", (2,)),
        ("tool_result", "cancel", (3,)),
        ("llm_call", "model", ()),
        ("terminal", "", ()),
    ]
    assert [fact.input for fact in found.facts[2:4]] == [{"id": "A"}, {"id": "B"}]
    assert found.facts[5].status == "error" and found.facts[5].error == ("ToolError", "Error: no")
    assert len(found.facts[6].input["messages"]) == 5
    assert found.facts[-1].output["verified"] == "verified_success"
    assert found.header.fidelity == "L2" and found.header.labels == {"task": "7", "trial": "2"}
    assert found.name == "tau-7-2"


@pytest.mark.parametrize(
    ("change", "verified"),
    [
        ({"reward": 0.0}, "verified_failure"),
        ({"reward": 0.0, "reward_computed": False}, "unverified"),
        ({"reward": None}, "unverified"),
    ],
)
def test_the_reward_is_what_was_verified(change, verified):
    assert one({**RUN, **change}).facts[-1].output["verified"] == verified


def test_the_benchmarks_own_result_files_are_read_too():
    run = {key: item for key, item in RUN.items() if key != "messages"}
    assert len(one({**run, "traj": RUN["messages"], "info": {}}).facts) == 8


def test_the_same_run_gives_the_same_tape_and_capture_off_is_l1():
    assert msgspec.to_builtins(one(RUN).header) == msgspec.to_builtins(one(RUN).header)
    assert one(RUN, "off").header.fidelity == "L1"


def test_a_redactor_of_other_actions_is_another():
    one, same = MaskingRedactor(Terms()), MaskingRedactor(Terms(capture="full"))
    other = MaskingRedactor(Terms(actions={"email": "drop"}))
    assert one.identity == same.identity != other.identity
    assert redactor_of("full").identity.id == "none"


@pytest.mark.parametrize(
    "text",
    [
        b"nonsense",
        b"[1]",
        b'[{"messages": []}]',
        b'[{"messages": [{"role": "tool", "content": "x"}]}]',
        b'[{"messages": [{"role": "nobody"}]}]',
        b'[{"messages": [3]}]',
        b"[" * 100_000,
    ],
)
def test_what_is_no_run_is_refused(text):
    with pytest.raises(Unimportable):
        list(tau_runs(text, "full"))


@pytest.mark.requirement("TAP-03")
def test_recorded_airline_runs_are_imported_whole():
    if not RUNS.exists():
        pytest.skip("needs ../shared (corpora/tau-airline), which is absent here")
    with gzip.open(RUNS) as file:
        text = b"".join(file.readline() for _ in range(3))
    runs = [json.loads(line) for line in text.splitlines()]
    for run, found in zip(runs, tau_runs(text, "redacted"), strict=True):
        composer = Composer(found.header, lambda *_: None, redactor=redactor_of("redacted"))
        events = [composer.event(fact) for fact in found.facts]
        said = [call for one in run["messages"] for call in one.get("tool_calls") or ()]
        assert sum(event.kind == "tool_call" for event in events) == len(said)
        assert composer.seal().counters.truncated == 0
