"""Virtual time of an episode of two twins: paused, stepped, moved on and taken back; ties, turns
and episodes in any order.
"""

import asyncio

import pytest
from fault_rig import SHOP, declared, rule
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.gateway.upstream import UpstreamRequest
from sidecar.twins.driver import TwinUpstreams
from sidecar.twins.episode import Call, Setting
from sidecar.twins.group import Beginning, GroupEpisode, TwinGroup, void
from sidecar.twins.journal import Journal
from sidecar.twins.registry import registry
from sidecar.twins.timeline import Timeline, Timer

S = 10**9
BANK = declared("""\
twin: bank
clock: {start: "2026-01-06T09:00:00Z", step: 1s}
entities:
  payments: {key: id}
  valves: {key: id, rows: [{id: v1, open: false, by: nobody}]}
queues:
  settlements:
    delay: 5s
    handle:
      effects: [{op: set, entity: payments, key: message.id, values: {settled: now}}]
tools:
  - name: pay
    match: {method: POST, path: /payments}
    class: write
    let: {id: 'next_id("P")'}
    effects:
      - {op: insert, entity: payments, values: {id: id, settled: '""'}}
      - {op: enqueue, queue: settlements, message: {id: id}}
    response: {status: 201, body: {id: id, chance: 'rand("pay")'}}
  - name: turn
    match: {method: POST, path: "/valves/{id}"}
    class: write
    latency: 0s
    effects_after: 10s
    effects: [{op: set, entity: valves, key: arguments.id, values: {by: caller.agent}}]
    response: {body: {ok: true}}
""")
GROUP = TwinGroup([SHOP, BANK])


def opened(*faults, seed=1, worlds=None):
    run = GroupEpisode(GROUP, worlds or GROUP.open(), Setting(agent="a", faults=faults, seed=seed))
    run.begin(Beginning())
    return run


def digests(run):
    return [one.world.digest() for one in run.episodes.values()]


def pay(run, key="p"):
    return run.call(Call(tool="pay", arguments={}, key=key))


def refund(run, key="r"):
    arguments = {"order_id": "o1", "amount": 1}
    return run.call(Call(tool="refund", arguments=arguments, key=key, call_id=key))


def turn(run, agent, key):
    return run.call(Call(tool="turn", arguments={"id": "v1"}, agent=agent, key=key))


def settled(run):
    return [row["settled"] for row in run.view().functions["rows"]("payments")]


@pytest.mark.requirement("TWN-04")
def test_the_twins_of_an_episode_have_one_clock_that_starts_at_the_latest_start():
    run = opened()
    started = run.now_ns
    worlds = [one.world for one in run.episodes.values()]
    assert started == max(BANK_START, SHOP_START) == BANK_START
    refund(run)
    assert {world.now_ns for world in worlds} == {started + S}
    assert worlds[0].journal is worlds[1].journal


BANK_START, SHOP_START = (TwinGroup([twin]).open()[twin.name].now_ns for twin in (BANK, SHOP))


@pytest.mark.requirement("TWN-04")
def test_rewind_restores_the_whole_world_and_what_follows_is_the_same_again():
    run = opened(rule("http_500_after", when={"probability": 0.5}), seed=3)
    pay(run)
    refund(run)
    place, before, told = run.position(), digests(run), list(run.events)

    def onward():
        replies = [pay(run, "p2"), refund(run, "r2"), pay(run, "p3"), refund(run, "r3")]
        turn(run, "a", "t")
        run.fast_forward(60 * S)
        return replies, list(run.events), digests(run), run.changes()

    first = onward()
    assert first[2] != before
    run.rewind(place)
    assert digests(run) == before and run.events == told
    assert onward() == first
    assert run.close()


@pytest.mark.requirement("TWN-04")
def test_calls_of_any_twin_are_taken_back_one_by_one():
    run = opened()
    seen = []
    for number in range(3):
        seen.append(digests(run))
        (pay if number % 2 else refund)(run, f"k{number}")
    assert run.before(0) == run.position()
    for expected in reversed(seen):
        run.rewind(run.before(1))
        assert digests(run) == expected
    run.rewind(run.before(9))  # no further than the start
    assert run.events == [] and run.changes() == () and digests(run) == seen[0]
    refund(run)
    run.rewind(run.before(9))
    assert digests(run) == seen[0]


@pytest.mark.requirement("TWN-04")
def test_a_paused_episode_takes_no_time_and_holds_its_timers_until_they_are_stepped_to():
    run = opened()
    started = run.now_ns
    run.pause()
    for number in range(8):  # eight seconds, were time to run: past the delay of the first
        pay(run, f"p{number}")
    assert run.now_ns == started and settled(run) == [""] * 8
    for number in range(1, 9):
        assert run.step()
        assert sum(text != "" for text in settled(run)) == number
        assert run.now_ns == started + 5 * S
    assert not run.step() and run.now_ns == started + 5 * S
    run.resume()
    pay(run, "last")
    assert run.now_ns == started + 6 * S


@pytest.mark.requirement("TWN-04")
def test_fast_forward_runs_what_is_due_at_its_time_and_no_more():
    run = opened()
    started = run.now_ns
    pay(run, "p1")  # due after 5 s
    pay(run, "p2")  # due after 6 s
    run.fast_forward(3 * S)
    assert run.now_ns == started + 5 * S
    assert settled(run) == ["2026-01-06T09:00:05.000Z", ""]
    run.fast_forward(60 * S)
    assert run.now_ns == started + 65 * S
    assert settled(run)[1] == "2026-01-06T09:00:06.000Z"


TIMERS = st.lists(
    st.tuples(st.integers(0, 2), st.sampled_from(["a", "b", ""])), min_size=1, max_size=8
)


@given(drawn=TIMERS, data=st.data())
@settings(max_examples=30, deadline=None)
@pytest.mark.requirement("TWN-04")
@pytest.mark.row("R29")
def test_timers_fire_in_one_order_whoever_set_them_first(drawn, data):
    timers = [
        Timer(at_ns=at_ns, agent=agent, seq=seq, twin="t", kind="effects", subject="s")
        for seq, (at_ns, agent) in enumerate(drawn)
    ]
    line = Timeline(Journal(), 0)
    for timer in data.draw(st.permutations(timers)):
        line.schedule(timer)
    expected = sorted(timers, key=lambda one: (one.at_ns, one.agent, one.seq))
    assert line.pending() == expected
    assert [line.take_due(2) for _ in timers] == expected
    assert line.take_due(2) is None


@pytest.mark.requirement("TWN-04")
@pytest.mark.row("R29")
@pytest.mark.parametrize("agents", [("a", "b"), ("b", "a")])
def test_of_two_agents_effects_at_one_time_the_same_one_is_last(agents):
    run = opened()
    for agent in agents:
        turn(run, agent, agent)
    run.fast_forward(10 * S)
    assert run.view().row("valves", "v1")["by"] == "b"


@pytest.mark.requirement("TWN-04")
def test_only_more_timers_than_the_limit_are_a_gap(monkeypatch):
    monkeypatch.setattr("sidecar.twins.episode.FIRINGS_MAX", 2)
    run = opened()
    for number in range(2):
        pay(run, f"p{number}")
    run.fast_forward(60 * S)
    assert refund(run).status == 201 and void(run.events) is None  # as many as may be
    pay(run, "p3")
    run.finish()
    assert void(run.events).startswith("twin_gap") and settled(run)[2] == ""


PLAYS = [
    (1, ("pay", "refund", "turn")),
    (2, ("refund", "refund", "pay")),
    (3, ("turn", "pay", "pay", "refund")),
    (4, ("refund", "turn")),
]


def play(worlds, seed, tools):
    run = opened(rule("timeout_after", when={"probability": 0.4}), seed=seed, worlds=worlds)
    arguments = {"order_id": "o1", "amount": 1, "id": "v1"}
    replies = [
        run.call(Call(tool=tool, arguments=arguments, key=f"{tool}{number}"))
        for number, tool in enumerate(tools)
    ]
    run.finish()
    told = replies, list(run.events), run.changes(), digests(run)
    assert run.close(), "something leaked"
    return told


ALONE = [play(GROUP.open(), *one) for one in PLAYS]


@given(order=st.permutations(range(len(PLAYS))))
@settings(max_examples=20, deadline=None)
@pytest.mark.requirement("TWN-03")
def test_episodes_in_any_order_have_the_same_results_and_leave_the_base_as_it_was(order):
    worlds = GROUP.open()
    base = [world.digest() for world in worlds.values()]
    for index in order:
        assert play(worlds, *PLAYS[index]) == ALONE[index]
        assert [world.digest() for world in worlds.values()] == base


@pytest.mark.requirement("TWN-03")
@pytest.mark.row("R17")
def test_calls_at_the_same_time_take_their_turns():
    run = opened()
    upstreams = TwinUpstreams(registry(GROUP), {"e": run})

    def asked(number, tool, path, arguments):
        return UpstreamRequest(
            tool=tool,
            class_=GROUP.tools[tool],
            upstream="bank" if tool == "pay" else "shop",
            method="POST",
            path=path,
            arguments=arguments,
            idempotency_key=f"k{number}",
            episode="e",
            timeout_ns=S,
            call_id=str(number),
        )

    async def race():
        one = {"order_id": "o1", "amount": 1}
        refunds = [asked(n, "refund", "/orders/o1/refunds", one) for n in range(20)]
        pays = [asked(n, "pay", "/payments", {}) for n in range(20)]
        both = [request for pair in zip(refunds, pays, strict=True) for request in pair]
        return await asyncio.gather(*(upstreams.send(request) for request in both))

    started = run.now_ns
    replies = asyncio.run(race())
    assert len({reply.body for reply in replies}) == 40  # none saw the state another saw
    assert run.view().row("orders", "o1")["refunded"] == 20
    assert run.now_ns == started + 40 * S
    answered = [event for event in run.events if event.kind == "answered"]
    times = [event.at_ns for event in answered]
    assert len(answered) == 40 and times == sorted(set(times))
