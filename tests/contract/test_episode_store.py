"""Shards are leased to one worker at a time, and an episode is kept once however often it comes."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import trace_stores

from sidecar.store.episodes import KeptEpisode, ReplayRun

pytestmark = pytest.mark.requirement("CRV-01")


def run(name="run", shards=3):
    return ReplayRun(
        run_id=name,
        project="default",
        plan_digest="sha256:0",
        shards=shards,
        content=b"{}",
        created_at_ns=1,
    )


def kept(place, content=b"x"):
    return KeptEpisode(place=place, worker="host:1", digest=f"sha256:{place}", content=content)


@pytest.fixture(params=trace_stores.BACKENDS)
def stores(request, tmp_path):
    made = trace_stores.made(request.param, tmp_path)
    yield made
    made.close()


@pytest.fixture
def book(stores):
    return stores.episodes()


def claim(book, owner="a", now=0, until=100):
    return book.claim_shard("run", owner, now_ns=now, until_ns=until)


def test_a_run_is_begun_once_and_found(book):
    assert book.find_run("run") is None
    assert book.begin_run(run()) == run()
    assert book.begin_run(run(shards=9)) == run()
    assert book.find_run("run") == run()
    assert book.find_run("\ud800") is None


@pytest.mark.row("R59")
def test_each_shard_goes_to_one_and_comes_back_when_its_lease_runs_out(book):
    book.begin_run(run())
    taken = [claim(book, owner) for owner in ("a", "b", "c", "d")]
    assert [one and one.shard for one in taken] == [0, 1, 2, None]
    assert claim(book, "d", now=99) is None
    again = claim(book, "d", now=100, until=200)
    assert (again.shard, again.attempt) == (0, 2)
    assert not book.extend_claim(taken[0], 300)
    assert book.extend_claim(again, 300)
    assert claim(book, "e", now=250).shard == 1


def test_a_lease_that_is_given_back_is_free_at_once(book):
    book.begin_run(run(shards=1))
    first = claim(book)
    assert book.extend_claim(first, 0)
    assert claim(book, "b").attempt == 2


@pytest.mark.row("R59")
def test_what_is_delivered_twice_is_kept_once_and_the_first_stays(book):
    book.begin_run(run(shards=1))
    slow = claim(book, "slow")
    fast = claim(book, "fast", now=100, until=200)
    assert book.finish_shard(fast, [kept(0), kept(1)], 7) == 2
    assert book.finish_shard(slow, [kept(0, b"other"), kept(1), kept(2)], 9) == 1
    assert [one.content for one in book.episodes_of("run")] == [b"x"] * 3
    progress = book.run_progress("run")
    assert (progress.shards_done, progress.episodes_done) == (1, 3)
    assert (progress.took_ns, progress.next_free_ns) == ((7,), None)
    assert claim(book, now=10**9) is None


def test_progress_says_when_something_is_free_again(book):
    book.begin_run(run(shards=2))
    assert book.run_progress("run").next_free_ns == 0
    claim(book, until=50), claim(book, until=70)
    assert book.run_progress("run").next_free_ns == 50


def test_episodes_come_in_order_of_their_places_over_pages(book):
    book.begin_run(run(shards=1))
    book.finish_shard(claim(book), [kept(place) for place in range(449, -1, -1)], 1)
    assert [one.place for one in book.episodes_of("run")] == list(range(450))
    assert [one.place for one in book.episodes_of("run", after=447)] == [448, 449]


def test_a_run_that_has_ended_keeps_its_verdict_and_nothing_else(book):
    book.begin_run(run())
    book.finish_shard(claim(book), [kept(0)], 1)
    book.end_run("run", "verdict")
    book.end_run("run", "other")
    assert book.find_run("run").verdict_id == "verdict"
    assert list(book.episodes_of("run")) == []
    assert book.begin_run(run()).verdict_id == "verdict"
    assert claim(book) is None


@pytest.mark.parametrize("stores", ["file", "postgres"], indirect=True)
def test_workers_that_come_at_the_same_moment_never_share_a_shard(stores):
    stores.episodes().begin_run(run(shards=40))

    def take(owner):
        book, taken = stores.episodes(), []
        while one := claim(book, owner):
            taken.append(one.shard)
        return taken

    with ThreadPoolExecutor(4) as pool:
        taken = [shard for some in pool.map(take, "abcd") for shard in some]
    assert sorted(taken) == list(range(40))
