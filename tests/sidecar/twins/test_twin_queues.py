"""Queues, sensors that err, latency that is spread, and people who take their time."""

import pytest
from fault_rig import declared

from sidecar.twins.episode import Call, Setting
from sidecar.twins.group import Beginning, GroupEpisode, TwinGroup, void

S = 10**9
PLANT = declared("""\
twin: plant
clock: {start: "2026-01-06T09:00:00Z", step: 1s}
entities:
  orders: {key: id}
  meters: {key: id, rows: [{id: m1, level: 100.0}]}
queues:
  made:
    delay: 5s
    handle:
      effects: [{op: set, entity: orders, key: message.id, values: {made: true}}]
  broken:
    delay: 2s
    handle:
      effects:
        - {op: set, entity: orders, key: message.id, values: {made: true}}
        - {op: set, entity: orders, key: '"nobody"', values: {made: true}}
tools:
  - name: order
    match: {method: POST, path: "/{queue}"}
    class: write
    let: {id: 'next_id("O")'}
    effects:
      - {op: insert, entity: orders, values: {id: id, made: false}}
      - {op: enqueue, queue: made, message: {id: id}, when: 'arguments.queue == "made"'}
      - {op: enqueue, queue: broken, message: {id: id}, when: 'arguments.queue == "broken"'}
    response: {status: 201, body: {id: id, waiting: 'size(waiting("made"))'}}
  - name: read_meter
    match: {method: GET, path: "/meters/{id}"}
    class: read
    latency: {median: 200ms, sigma: 0.5}
    noise: [{field: level, sigma: 2, places: 3}]
    response: {body: 'row("meters", arguments.id)'}
  - name: valve
    match: {method: POST, path: /valve}
    class: irreversible
    person: 30s
    effects: [{op: set, entity: meters, key: '"m1"', values: {level: 0.0}}]
""")


def opened(seed=1):
    group = TwinGroup([PLANT])
    run = GroupEpisode(group, group.open(), Setting(agent="a", seed=seed))
    run.begin(Beginning())
    return run


def order(run, queue, key="k"):
    return run.call(Call(tool="order", arguments={"queue": queue}, key=key))


def made(run):
    return [row["made"] for row in run.view().functions["rows"]("orders")]


def digest(run):
    (one,) = run.episodes.values()
    return one.world.digest()


def read(run):
    return run.call(Call(tool="read_meter", arguments={"id": "m1"}))


@pytest.mark.requirement("TWN-01")
def test_what_is_queued_is_done_at_its_time_and_told_as_an_event():
    run = opened()
    order(run, "made")
    run.fast_forward(3 * S)
    assert made(run) == [False]
    run.fast_forward(2 * S)
    assert made(run) == [True]
    assert [one.kind for one in run.events].count("handled") == 1


@pytest.mark.requirement("TWN-01")
def test_a_message_that_cannot_be_done_whole_is_not_done_at_all_and_voids():
    run = opened()
    order(run, "broken")
    run.fast_forward(5 * S)
    assert made(run) == [False]
    assert void(run.events)


@pytest.mark.requirement("TWN-03")
def test_queues_and_their_timers_are_taken_back():
    run = opened()
    before, place = digest(run), run.position()
    order(run, "made")
    order(run, "made", "again")
    run.rewind(place)
    assert digest(run) == before
    run.fast_forward(60 * S)
    assert made(run) == [] and not void(run.events)


@pytest.mark.requirement("TWN-07")
def test_a_sensor_errs_by_the_seed_and_the_world_does_not():
    def levels(seed):
        run = opened(seed)
        found = [(read(run).value["level"], run.now_ns) for _ in range(5)]
        assert run.view().functions["row"]("meters", "m1")["level"] == 100.0
        return found

    assert levels(1) == levels(1) != levels(2)
    assert len({level for level, _ in levels(1)}) == 5


@pytest.mark.requirement("TWN-07")
def test_a_person_who_is_asked_takes_time_of_the_twins():
    run = opened()
    (one,) = run.episodes.values()
    started = run.now_ns
    assert one.wait_for_person("valve") == 30 * S == run.now_ns - started
    assert one.wait_for_person("read_meter") == 0
