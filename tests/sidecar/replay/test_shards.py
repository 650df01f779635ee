"""A replay in shards: whoever runs them, in whatever order and however often, it is one verdict."""

import os
import random
import sys
from concurrent.futures import Future

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.app.agreeing import agreed
from sidecar.app.episodes import executor_of, work
from sidecar.app.loading import load_config
from sidecar.app.running import begin, conduct, drawn, of_book, of_parts, result_of, resume
from sidecar.errors import SidecarError
from sidecar.gate.conclude import conclude
from sidecar.replay.record import is_slim
from sidecar.replay.shards.driver import Coordinator, check_again
from sidecar.replay.shards.layout import (
    Layout,
    count_of,
    lease_ns,
    run_again,
    shard_at,
    size_of,
)
from sidecar.replay.shards.model import Asked, Lost, refuse_other_plan
from sidecar.store.sqlite.backend import SqliteBackend

AGENT = """\
import os


def good(request, call):
    order = call("get_order", {"order_id": request["input"]["order"]}).value
    call("issue_refund", {"order_id": order["id"], "amount": order["total"]}, key="k")
    return f"I have issued the refund for {order['id']}, {request['seed']}."


def blind(request, call):
    call("issue_refund", {"order_id": request["input"]["order"], "amount": 49}, key="k")
    return {"output": "I have issued the refund for A-1."}


def dice(request, call):
    call("get_order", {"order_id": str(os.urandom(4))})
    return "There is no such order."


def wordy(request, call):
    call("get_order", {"order_id": "A-1"})
    return good(request, call)


TRIED = []


def moody(request, call):
    TRIED.append(1)
    for _ in range(len(TRIED) % 3):
        call("get_order", {"order_id": "A-1"})
    return good(request, call)


def hosted(request, call):
    call("get_order", {"order_id": str(os.getpid())})
    return "There is no such order."


def raises(request, call):
    print("thinking")
    raise KeyError("order")


def no_json(request, call):
    return {"output": object()}


def slow(request, call):
    while True:
        try:
            sum(range(1000))
        except Exception:
            pass


def calls_home(request, call):
    import socket

    try:
        socket.create_connection(("127.0.0.1", 9))
    except OSError:
        pass
    return "All is well."


def starts(request, call):
    import subprocess

    try:
        subprocess.run(["true"])
    except OSError:
        pass
    return "All is well."


def stray(request, call):
    call("delete_customer", {})
    return "All is well."


def alone(request):
    return {"output": "ok"}
"""
SCENARIO = """\
- id: c{}
  input: {{order: A-1}}
  expect:
    - {{type: order, tools: [get_order, issue_refund]}}
    - {{type: state, entity: orders, key: A-1, equals: {{refunded: 49}}}}
    - {{type: finalOutcome, claim: success}}
"""


SEED = next(
    seed
    for seed in range(100)
    if Layout(cases=12, sides=("baseline", "candidate"), runs=2).at(run_again(48, seed)[0]).side
    == "candidate"
)


class Sharded:
    """Runs of a suite of callables in the folder of a test."""

    def __init__(self, replayed, cases=12, deterministic=True, deadline="30s"):
        self.folder = replayed.folder
        (self.folder / "shop_calls.py").write_text(AGENT)
        scenarios = "".join(SCENARIO.format(n) for n in range(cases))
        replayed.suite(scenarios, deterministic=deterministic, deadline=deadline)
        self.book = SqliteBackend(self.folder).episodes(write=True)
        self.loaded = load_config(None, f"sqlite:///{self.folder}")

    def asked(self, candidate="good", **more):
        return Asked(
            suite=str(self.folder / "suite.yaml"),
            baseline="py:shop_calls:good",
            candidate=f"py:shop_calls:{candidate}",
            folder=str(self.folder),
            now_ns=1,
            **more,
        )

    def begun(self, candidate="good", **more):
        return begin(self.book, drawn(self.asked(candidate, **more), self.loaded))

    def run(self, candidate="good", executor="inline", **more):
        begun = self.begun(candidate, **more)
        if executor == "inline":  # without what is run again in processes
            coordinate(self.book, begun, executor_of(executor, begun.order, 0))
        else:
            conduct(self.book, begun, executor, 0, lambda _: None)
        return self.result(begun)

    def result(self, begun):
        return result_of(begun, of_book(self.book, begun))


def coordinate(book, begun, executor, told=lambda _: None):
    Coordinator(book, begun.run.run_id, begun.order, told).run(executor)


def importable(folder, monkeypatch):
    kept = os.environ.get("PYTHONPATH")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, (str(folder), kept))))


def document(result):
    return msgspec.json.encode(conclude(result, verdict_id="v", now_ns=1))


@pytest.fixture
def sharded(replayed, monkeypatch):
    importable(replayed.folder, monkeypatch)
    monkeypatch.setattr(sys, "path", [*sys.path])
    made = Sharded(replayed)
    yield made
    made.book.close()
    sys.modules.pop("shop_calls", None)


class Shuffled:
    """Two places that finish in an order of their own, lose some, and deliver others twice."""

    alone = True
    places = 3

    def __init__(self, order, seed):
        self.order = order
        self.dice = random.Random(seed)
        self.waiting = []

    def submit(self, shard):
        told = Future()
        self.waiting.append((told, shard))
        if len(self.waiting) == self.places or self.dice.random() < 0.3:
            self.finish()
        return told

    def finish(self):
        self.dice.shuffle(self.waiting)
        while self.waiting:
            told, shard = self.waiting.pop()
            if self.dice.random() < 0.2:
                told.set_exception(Lost("its worker died"))
            else:
                told.set_result(work(self.order, shard, alone=False))

    def close(self):
        """Nothing is held."""


class Lasting(Shuffled):
    """Never keeps anybody waiting."""

    def submit(self, shard):
        told = super().submit(shard)
        self.finish()
        return told


@given(st.integers(1, 400), st.integers(1, 2), st.integers(1, 9))
def test_every_episode_has_one_place_and_every_place_one_shard(cases, sides, runs):
    layout = Layout(cases=cases, sides=("baseline", "candidate")[:sides], runs=runs)
    found = [layout.at(place) for place in range(len(layout))]
    assert found == sorted(found, key=lambda one: (one.case, one.side, one.run))
    assert len({(one.case, one.side, one.run) for one in found}) == cases * sides * runs
    size = size_of(len(layout), "twins")
    shards = [shard_at(n, len(layout), size) for n in range(count_of(len(layout), size))]
    assert [place for one in shards for place in one.places] == list(range(len(layout)))
    assert all(one.places for one in shards)


@pytest.mark.row("R60")
@pytest.mark.parametrize("machines", [1, 16, 1000])
def test_an_indexed_job_has_an_index_a_machine_and_not_one_an_episode(sharded, machines):
    million = msgspec.structs.replace(
        sharded.begun().order, episodes=1_000_000, size=200, machines=machines
    )
    parts = [msgspec.structs.replace(million, index=index) for index in range(machines)]
    assert sum(part.shards for part in parts) == 5_000
    assert max(part.shards for part in parts) - min(part.shards for part in parts) <= 1
    ends = {
        (shard.places[0], shard.places[-1])
        for part in parts[:3]
        for shard in (part.shard(0), part.shard(part.shards - 1))
    }
    assert all(0 <= first <= last < 1_000_000 for first, last in ends)
    assert all(part.pins() == million.pins() for part in parts), "they are one run"


@given(st.integers(0, 500), st.integers(0, 2**32))
def test_what_is_run_again_is_drawn_by_the_seed_alone(episodes, seed):
    drawn_places = run_again(episodes, seed)
    assert drawn_places == run_again(episodes, seed)
    assert bool(drawn_places) == bool(episodes)
    assert all(0 <= place < episodes for place in drawn_places)


def test_about_five_of_a_thousand_are_run_again():
    assert 70 < len(run_again(20_000, 7)) < 130


@pytest.mark.row("R59")
def test_a_lease_is_twice_what_the_slowest_took():
    assert lease_ns([10**9] * 99 + [10**12]) == 2 * 10**12
    assert lease_ns([1]) == 30 * 10**9


@pytest.mark.requirement("CRV-01")
@pytest.mark.requirement("CMP-01")
def test_shards_lost_and_in_any_order_come_to_the_same_document(sharded):
    plain = document(sharded.run("blind"))
    verdict = msgspec.json.decode(plain)
    assert (verdict["status"], verdict["counts"]["new_critical"]) == ("BLOCK", 12)
    for seed in range(3):
        begun = sharded.begun("blind")
        executor = Lasting(begun.order, seed)
        coordinate(sharded.book, begun, executor)
        assert document(sharded.result(begun)) == plain


@pytest.mark.requirement("CRV-01")
@pytest.mark.row("R44")
def test_a_run_that_was_interrupted_goes_on_where_it_was(sharded):
    plain = document(sharded.run())
    begun = sharded.begun()
    seen = []

    def stop(count):
        seen.append(count)
        if len(seen) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        coordinate(sharded.book, begun, executor_of("inline", begun.order, 0), stop)
    assert 0 < sharded.book.run_progress(begun.run.run_id).episodes_done < begun.order.episodes
    again = resume(sharded.book, begun.run.run_id, sharded.loaded)
    counted = []
    coordinate(sharded.book, again, executor_of("inline", again.order, 0), counted.append)
    assert sum(seen) + sum(counted) == begun.order.episodes
    assert document(sharded.result(again)) == plain
    sharded.book.end_run(begun.run.run_id, "verdict")
    with pytest.raises(SidecarError, match="ended with verdict"):
        resume(sharded.book, begun.run.run_id, sharded.loaded)
    with pytest.raises(SidecarError, match="no such run"):
        resume(sharded.book, "other", sharded.loaded)


@pytest.mark.requirement("CRV-01")
def test_parts_that_shared_nothing_are_merged_and_none_may_be_missing(sharded, tmp_path):
    plain = document(sharded.run())
    wanted = drawn(sharded.asked(), sharded.loaded)
    for index in (2, 0, 1):
        book = SqliteBackend(tmp_path / "parts" / str(index))
        (tmp_path / "parts" / str(index)).mkdir(parents=True)
        part = book.episodes(write=True)
        begun = drawn(sharded.asked(), sharded.loaded, name="part", share=(3, index))
        coordinate(part, begin(part, begun), executor_of("inline", begun.order, 0))
        part.close()
        if index != 1:
            with pytest.raises(SidecarError, match="is missing: shard"):
                result_of(wanted, of_parts(tmp_path / "parts", wanted))
    assert document(result_of(wanted, of_parts(tmp_path / "parts", wanted))) == plain
    other = drawn(sharded.asked("blind"), sharded.loaded)
    with pytest.raises(SidecarError, match="part of another plan"):
        of_parts(tmp_path / "parts", other)


@pytest.mark.requirement("ISO-01")
def test_worker_processes_come_to_the_same_document_and_reach_nothing(sharded):
    plain = document(sharded.run())
    assert document(sharded.run(executor="process")) == plain
    result = sharded.run("calls_home", executor="process")
    assert {one.case_class for one in result.results} == {"void"}
    assert "egress_denied: socket." in result.results[0].reasons[0]


@pytest.mark.requirement("ISO-01")
def test_a_worker_that_would_run_another_plan_runs_nothing(sharded):
    order = sharded.begun().order
    refuse_other_plan(order, order.plan_digest, order.tools)
    with pytest.raises(SidecarError, match="'issue_refund' was pinned as irreversible, here it is"):
        refuse_other_plan(order, order.plan_digest, {**order.tools, "issue_refund": "read"})
    with pytest.raises(SidecarError, match="not the one that was pinned"):
        refuse_other_plan(order, "sha256:other", order.tools)


@pytest.mark.requirement("ISO-01")
@pytest.mark.parametrize(
    ("agent", "reason"),
    [
        ("calls_home", "egress_denied: socket"),
        ("starts", "egress_denied: subprocess.Popen"),
        ("stray", "twin_gap: delete_customer"),
    ],
)
def test_what_leaves_the_twins_voids_its_case(sharded, agent, reason):
    result = sharded.run(agent)
    assert {one.case_class for one in result.results} == {"void"}
    assert reason in result.results[0].reasons[0]


@pytest.mark.parametrize(
    ("agent", "ending", "detail"),
    [
        ("raises", "failed", "KeyError: 'order'"),
        ("no_json", "failed", "it answered what is no JSON"),
        ("slow", "timed_out", "stopped at its deadline"),
    ],
)
def test_whatever_a_callable_does_is_a_record(sharded, capsys, agent, ending, detail):
    made = sharded.begun(agent, deadline="50ms", runs=1)
    coordinate(sharded.book, made, executor_of("inline", made.order, 0))
    run = next(one for one in sharded.result(made).runs if one.side == "candidate")
    assert (run.agent.ending, run.conclusion) == (ending, "failed")
    assert run.agent.detail.startswith(detail)
    if agent == "raises":
        assert run.agent.stderr_tail.startswith("thinking\n")
        assert "shop_calls.py:" in run.agent.stderr_tail
    assert capsys.readouterr().out == ""


def test_samples_have_seeds_of_their_own_and_both_sides_the_same(replayed, monkeypatch):
    importable(replayed.folder, monkeypatch)
    sharded = Sharded(replayed, cases=2, deterministic=False)
    runs = list(sharded.run(runs=3).runs)
    sharded.book.close()
    said = {side: [r.agent.output for r in runs if r.side == side] for side in ("baseline",)}
    assert len(set(said["baseline"])) == 6
    assert said["baseline"] == [r.agent.output for r in runs if r.side == "candidate"]
    assert len({run.seed for run in runs}) == 2  # of the world


@pytest.mark.requirement("CRV-01")
def test_coordinators_of_one_run_come_to_one_verdict_and_who_fails_leaves_it_to_another(sharded):
    begun = sharded.begun()
    coordinate(sharded.book, begun, executor_of("inline", begun.order, 0))
    made = []

    def verdict():
        made.append(conclude(sharded.result(begun), verdict_id=f"v{len(made)}", now_ns=1))
        return made[-1]

    def full():
        raise SidecarError("the disk is full")

    def never(name):
        raise AssertionError(name)

    with pytest.raises(SidecarError, match="the disk is full"):
        agreed(sharded.book, begun, full, never)
    first = agreed(sharded.book, begun, verdict, never)
    assert sharded.book.find_run(begun.run.run_id).verdict_id == first.verdict_id == "v0"
    late = agreed(sharded.book, begun, verdict, {"v0": first}.__getitem__)
    assert late == first and len(made) == 1


@pytest.mark.requirement("CRV-01")
def test_what_is_delivered_twice_is_kept_once_and_the_first_stays(sharded):
    begun = sharded.begun()
    claim = sharded.book.claim_shard(begun.run.run_id, "one", now_ns=1, until_ns=2)
    done = work(begun.order, begun.order.shard(claim.shard), alone=False)
    late = sharded.book.claim_shard(begun.run.run_id, "two", now_ns=3, until_ns=4)
    assert late.shard == claim.shard and late.attempt == 2  # its lease ran out
    other = [msgspec.structs.replace(one, worker="two", digest="x") for one in done.episodes]
    assert sharded.book.finish_shard(claim, done.episodes, 5) == len(done.episodes)
    assert sharded.book.finish_shard(late, other, 6) == 0
    kept = list(sharded.book.episodes_of(begun.run.run_id))
    assert [(one.place, one.digest) for one in kept] == [
        (one.place, one.digest) for one in done.episodes
    ]


def test_beside_an_agent_process_a_callable_goes_through_the_gateway_too(sharded):
    assert sharded.begun().order.way == "twins"
    assert sharded.begun("alone").order.way == "gateway"
    with pytest.raises(SidecarError, match="run straight on the twins"):
        sharded.begun("alone", through="twins")


@pytest.mark.requirement("CRV-01")
def test_a_run_that_depends_on_where_it_ran_is_found_out(sharded):
    begun = sharded.begun("dice")
    executor = executor_of("inline", begun.order, 0)
    coordinate(sharded.book, begun, executor)
    with pytest.raises(SidecarError, match="on another worker"):
        for seed in range(20):
            order = msgspec.structs.replace(begun.order, seed=seed)
            check_again(sharded.book, begun.run.run_id, order, executor)


@pytest.mark.requirement("CRV-01")
@pytest.mark.parametrize("executor", ["inline", "process"])
def test_every_executor_has_a_part_run_again_by_another_worker(sharded, executor):
    begun = sharded.begun("hosted")
    with pytest.raises(SidecarError, match="on another worker"):
        # One episode is drawn of so few: by this seed, one of the candidate.
        order = msgspec.structs.replace(begun.order, seed=SEED)
        conduct(
            sharded.book,
            msgspec.structs.replace(begun, order=order),
            executor,
            1,
            lambda _: None,
        )


def test_a_shard_that_kills_its_worker_is_named(sharded):
    begun = sharded.begun()

    class Deadly(Shuffled):
        places = 1

        def submit(self, shard):
            told = Future()
            told.set_exception(Lost("its worker died"))
            return told

    with pytest.raises(SidecarError, match="shard 0 killed its worker 3 times"):
        coordinate(sharded.book, begun, Deadly(begun.order, 0))


@pytest.mark.requirement("CRV-01")
@pytest.mark.parametrize(
    ("candidate", "deterministic", "runs"),
    [
        *(("good", True, 2), ("blind", True, 2), ("wordy", True, 2), ("moody", True, 3)),
        *(("moody", False, 7), ("wordy", False, 3)),
    ],
)
def test_slim_records_come_to_the_same_document_as_whole_ones(
    replayed, monkeypatch, candidate, deterministic, runs
):
    importable(replayed.folder, monkeypatch)
    sharded = Sharded(replayed, cases=4, deterministic=deterministic)
    found = {}
    for keep in ("all", "findings"):
        begun = sharded.begun(candidate, runs=runs)
        begun = msgspec.structs.replace(
            begun, order=msgspec.structs.replace(begun.order, keep=keep)
        )
        if "shop_calls" in sys.modules:
            sys.modules["shop_calls"].TRIED.clear()
        coordinate(sharded.book, begun, executor_of("inline", begun.order, 0))
        result = sharded.result(begun)
        found[keep] = document(result)
        slimmed = [one for one in result.runs if is_slim(one)]
        assert bool(slimmed) == (keep == "findings")
        assert not any(one.events or one.changes for one in slimmed)
    assert found["findings"] == found["all"]
    sharded.book.close()
