"""The airline corpus on the airline twin: outcomes, results and drift as published.

Rewards are taken out before anything is imported; the twin is given calls and world alone.
"""

import gzip
import json
import re
from pathlib import Path

import pytest
from msgspec.structs import replace

from sidecar.cli.tape_import import write
from sidecar.gate.statistics.reliability import mean_pass_hat
from sidecar.replay.fidelity import fidelity
from sidecar.replay.import_tape import redactor_of
from sidecar.replay.import_tau import tau_runs
from sidecar.replay.onto_twin import OntoTwin, taped_run
from sidecar.tape.files import read_tape
from sidecar.twins import examples
from sidecar.twins.files import load_twins
from sidecar.twins.state.files import with_state

CORPUS = Path(__file__).parents[4] / "shared" / "corpora" / "tau-airline"
RUNS = [
    json.loads(line)
    for line in gzip.decompress((CORPUS / "runs.jsonl.gz").read_bytes()).splitlines()
]
SECRET = ("reward", "reward_computed")


def group():
    twins = load_twins([Path(examples.__path__[0]) / "airline" / "twin.yaml"])
    return with_state(twins.group, CORPUS)


@pytest.fixture(scope="module")
def onto():
    return OntoTwin(group())


def taped(runs, folder):
    text = json.dumps([{k: v for k, v in run.items() if k not in SECRET} for run in runs])
    for number, one in enumerate(tau_runs(text.encode(), "full")):
        path = folder / f"{number:03}.tape"
        write(one, path, "packed", redactor_of("full"), content=True)
        yield taped_run(path.stem, read_tape(path))


@pytest.fixture(scope="module")
def done(onto, tmp_path_factory):
    return [onto.replay(run) for run in taped(RUNS, tmp_path_factory.mktemp("tapes"))]


@pytest.mark.requirement("OUT-05")
def test_the_verified_outcome_is_the_published_reward(done):
    assert {run.run.verified for run in done} == {"unverified"}  # nothing of it was imported
    pairs = [(run, one) for run, one in zip(RUNS, done, strict=True)]
    scored = [(run, one) for run, one in pairs if run["reward_computed"]]
    assert len(scored) == 98
    for run, one in scored:
        expected = "verified_success" if run["reward"] == 1 else "verified_failure"
        assert one.verified == expected, one.run.name
    assert [one.verified for run, one in pairs if not run["reward_computed"]] == [
        "verified_failure"
    ] * 2
    assert not any(one.void for one in done)


@pytest.mark.requirement("OUT-05")
def test_pass_hat_is_as_published(done):
    tasks = {}
    for run, one in zip(RUNS, done, strict=True):
        tasks.setdefault(run["task_id"], []).append(one.verified == "verified_success")
    counts = [(sum(runs), len(runs)) for runs in tasks.values()]
    assert [f"{mean_pass_hat(counts, k):.4f}" for k in (1, 2, 3, 4)] == [
        "0.4900",
        "0.3867",
        "0.3400",
        "0.3200",
    ]


@pytest.mark.requirement("TWN-05", "TWN-07")
def test_all_results_are_as_recorded_but_for_one_path_that_changes_no_verdict(done):
    found = fidelity(done)
    assert found.uncompared == 0 and sum(tool.results for tool in found.tools) == 577
    off = [tool for tool in found.tools if tool.matches["exact"] != tool.results]
    (tool,) = off
    assert (tool.tool, tool.results, tool.policy) == ("get_user_details", 61, "ticket")
    (drift,) = tool.drift
    assert (drift.recorded, drift.twin) == ("/address/province", "/address/state")
    assert (drift.results, drift.verdict) == (61, "neutral")
    assert all(tool.errors_recorded == tool.errors_twin for tool in found.tools)


def changed(run, tool):
    """The run with the first call of the tool on another reservation."""
    run = json.loads(json.dumps(run))
    for message in run["messages"]:
        for call in message.get("tool_calls") or ():
            function = call["function"]
            if function["name"] == tool:
                arguments = json.loads(function["arguments"])
                arguments["reservation_id"] = "4WQ150"
                function["arguments"] = json.dumps(arguments)
                return run
    raise AssertionError(tool)


def test_another_argument_changes_the_verdict(onto, done, tmp_path):
    made = {
        run["task_id"]: run
        for run, one in zip(RUNS, done, strict=True)
        if one.verified == "verified_success"
        and any(call.tool == "cancel_reservation" for call in one.run.calls)
    }
    assert made
    for one in taped([changed(run, "cancel_reservation") for run in made.values()], tmp_path):
        assert onto.replay(one).verified == "verified_failure"


def test_runs_are_judged_the_same_in_another_order(onto, done, tmp_path):
    some = [*RUNS[::9]][::-1]
    expected = [one.verified for one in done[::9]][::-1]
    assert [onto.replay(one).verified for one in taped(some, tmp_path)] == expected


def renamed(value, names):
    """The same with every name of the world exchanged, wherever it stands alone."""
    if isinstance(value, dict):
        return {names.get(key, key): renamed(one, names) for key, one in value.items()}
    if isinstance(value, list):
        return [renamed(one, names) for one in value]
    return names.get(value, value) if isinstance(value, str) else value


@pytest.mark.requirement("OUT-05")
def test_names_mean_nothing_to_the_twin(onto, done, tmp_path):
    """Another world with the same shape: people, bookings, flights and cards have other names."""
    world = {
        name: json.loads(gzip.decompress((CORPUS / f"{name}.json.gz").read_bytes()))
        for name in ("users", "flights", "reservations")
    }
    cards = [name for user in world["users"].values() for name in user["payment_methods"]]
    known = [*(key for rows in world.values() for key in rows), *cards]
    names = {name: f"x{number}" for number, name in enumerate(dict.fromkeys(known))}
    for name, rows in world.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(renamed(rows, names)))
    twins = load_twins([Path(examples.__path__[0]) / "airline" / "twin.yaml"])
    other = OntoTwin(with_state(twins.group, tmp_path))
    for one in done[::4]:
        calls = tuple(
            replace(call, arguments=renamed(call.arguments, names)) for call in one.run.calls
        )
        actions = one.run.actions and tuple(
            (tool, renamed(arguments, names)) for tool, arguments in one.run.actions
        )
        again = other.replay(replace(one.run, calls=calls, actions=actions))
        assert again.verified == one.verified
        told = [(a.status, _spelt(a.value, names)) for a in one.answers]
        assert [(a.status, a.value) for a in again.answers] == told


def _spelt(value, names):
    """A refusal names what it refuses in the midst of a text."""
    if isinstance(value, str) and value not in names:
        for name, other in names.items():
            value = re.sub(rf"\b{name}\b", other, value) if name in value else value
        return value
    return renamed(value, names)
