"""What is drawn depends on what it is drawn for: nothing that happens beside it shifts it."""

import pytest
from fault_rig import declared

from sidecar.errors import SidecarError
from sidecar.twins.episode import Call, Setting
from sidecar.twins.group import Beginning, GroupEpisode, TwinGroup, void
from sidecar.twins.rules import Fault, When

S = 10**9
CLOCK = 'clock: {start: "2026-01-06T09:00:00Z", step: 1s}'
POST = f"""\
twin: post
{CLOCK}
entities: {{letters: {{key: id}}, meters: {{key: id, rows: [{{id: m, level: 20}}]}}}}
queues:
  out:
    delay: {{median: 60s, sigma: 1.5}}
    handle:
      effects:
        - {{op: insert, entity: letters, values: {{id: message.id, at: now}}}}
        - {{op: enqueue, queue: back, message: message, when: message.answer}}
  back:
    delay: {{median: 60s, sigma: 1.5}}
    handle:
      effects:
        - {{op: insert, entity: letters, values: {{id: '"re:" + message.id', at: now}}}}
tools:
  - name: send
    match: {{method: POST, path: /letters}}
    effects:
      - {{op: enqueue, queue: out, message: {{id: arguments.id, answer: arguments.answer}}}}
  - name: remind
    match: {{method: POST, path: /reminders}}
    effects: [{{op: enqueue, queue: out, message: {{id: arguments.id, answer: false}}}}]
  - name: set_valve
    match: {{method: POST, path: /valve}}
    effects_after: 10s
    idempotency: false
    effects:
      - {{op: set, entity: meters, key: '"m"', values: {{level: 0}}}}
      - {{op: insert, entity: letters, values: {{id: 'next_id("valve")', at: now}}}}
    response: {{status: 202}}
  - name: weigh
    match: {{method: POST, path: /weigh}}
    class: write
    noise: [{{field: kilos, sigma: 3, places: 2}}]
    response: {{body: {{kilos: 70}}}}
  - name: look
    match: {{method: GET, path: /meters}}
    class: read
    noise:
      - {{field: level, sigma: 5}}
      - {{field: level, sigma: 5}}
    response: {{body: 'row("meters", "m")'}}
  - name: whole
    match: {{method: GET, path: /whole}}
    class: read
    noise: [{{field: level, sigma: 5, places: 0}}]
    response: {{body: 'row("meters", "m")'}}
"""


def opened(*faults, seed=1, twins=(POST,), group=None):
    group = group or TwinGroup([declared(text) for text in twins])
    run = GroupEpisode(group, group.open(), Setting(agent="a", seed=seed, faults=tuple(faults)))
    run.begin(Beginning())
    return run


def send(run, name, *, tool="send", answer=False, key=""):
    return run.call(Call(tool=tool, arguments={"id": name, "answer": answer}, key=key or name))


def letters(run):
    return {row["id"]: row["at"] for row in run.view().functions["rows"]("letters")}


@pytest.mark.requirement("TWN-07")
def test_no_other_message_shifts_the_delay_of_one():
    """Beside it: a message of another tool, one of another queue, and a fault that takes one."""
    alone = opened()
    send(alone, "x", answer=True)
    alone.fast_forward(86_400 * S)
    assert {*letters(alone)} == {"x", "re:x"}

    among = opened(Fault(fault="lie_success", tool="remind", when=When(call_number=2)))
    send(among, "r1", tool="remind")
    send(among, "r2", tool="remind")
    send(among, "x", answer=True)
    among.fast_forward(86_400 * S)
    assert {*letters(among)} == {"r1", "x", "re:x"}

    def took(run):
        sent = next(one.at_ns for one in run.events if one.tool == "send")
        done = [one.at_ns for one in run.events if one.kind == "handled"]
        x = [one for one in run.events if one.kind == "handled" and "'x'" in str(one.arguments)]
        assert len(x) == 2 and {*done} >= {one.at_ns for one in x}
        return [one.at_ns - sent for one in x]

    assert took(alone) == took(among)
    other = opened(seed=2)
    send(other, "x", answer=True)
    other.fast_forward(86_400 * S)
    assert took(other) != took(alone)


def test_messages_of_one_queue_have_delays_of_their_own():
    run = opened()
    for name in "abcde":
        send(run, name)
    sent = [one.at_ns for one in run.events if one.tool == "send"]
    run.fast_forward(86_400 * S)
    done = {
        one.arguments["message"]["id"]: one.at_ns for one in run.events if one.kind == "handled"
    }
    assert len({done[name] - at for name, at in zip("abcde", sent, strict=True)}) == 5


@pytest.mark.parametrize("status", [500, 200])
def test_a_partial_write_of_a_slow_actuator_is_partial_when_it_arrives(status):
    fault = Fault(
        fault="partial_write", tool="set_valve", effects=1, status=status, when=When(call_number=1)
    )
    run = opened(fault)
    assert run.call(Call(tool="set_valve", arguments={})).status == (202 if status == 200 else 500)
    run.finish()
    assert run.view().functions["row"]("meters", "m")["level"] == 0
    assert letters(run) == {} and not void(run.events)
    (arrived,) = (one for one in run.events if one.kind == "delivered")
    assert arrived.effect_key is None and "1 of 2" in arrived.detail


def test_a_call_of_a_slow_actuator_that_is_delivered_twice_acts_twice():
    fault = Fault(fault="duplicate_delivery", tool="set_valve", when=When(call_number=1))
    run = opened(fault)
    run.call(Call(tool="set_valve", arguments={}))
    assert letters(run) == {}
    run.finish()
    made = [one for one in run.events if one.effect_key is not None]
    assert len(letters(run)) == 2 == len(made) and not void(run.events)


def test_a_slow_actuator_whose_call_is_held_back_takes_its_time_after_it():
    run = opened(Fault(fault="reorder", tool="set_valve", when=When(call_number=1)))
    run.call(Call(tool="set_valve", arguments={}))
    send(run, "x")
    assert run.view().functions["row"]("meters", "m")["level"] == 20
    run.fast_forward(10 * S)
    assert run.view().functions["row"]("meters", "m")["level"] == 0


@pytest.mark.requirement("TWN-07")
def test_a_repeated_key_gets_the_very_answer_it_got():
    run = opened()
    first, again = (run.call(Call(tool="weigh", arguments={}, key="k")) for _ in range(2))
    other = run.call(Call(tool="weigh", arguments={}, key="other"))
    assert first.value == again.value != other.value
    assert first.value["kilos"] != 70


def test_two_errors_of_one_field_are_two_draws():
    group = TwinGroup([declared(POST)])

    def level(seed):
        return (
            opened(seed=seed, group=group).call(Call(tool="look", arguments={})).value["level"] - 20
        )

    several = [level(seed) for seed in range(400)]
    spread = (sum(one**2 for one in several) / len(several)) ** 0.5
    assert 6 < spread < 8.2  # sqrt(2) of 5; one draw told twice would spread by 10


def test_a_measure_without_places_is_a_whole_number():
    found = opened().call(Call(tool="whole", arguments={})).value["level"]
    assert isinstance(found, int) and found != 20


@pytest.mark.parametrize("sigma", [".nan", ".inf", "-1", "1e300"])
def test_a_sensor_cannot_err_by_what_is_no_number(sigma):
    text = POST.replace("sigma: 3, places: 2", f"sigma: {sigma}, places: 2")
    with pytest.raises(SidecarError, match=r"sigma|finite"):
        declared(text)


def test_people_take_no_time_while_the_clock_stands():
    text = POST.replace("effects_after: 10s", "person: 30s")
    run = opened(twins=(text,))
    run.pause()
    started = run.now_ns
    assert run.wait_for_person("set_valve") == 0 and run.now_ns == started
    run.resume()
    assert run.wait_for_person("set_valve") == 30 * S == run.now_ns - started


def test_worlds_settle_together_for_the_longest_time_any_of_them_takes():
    def clockwork(name, settle, first):
        return f"""\
twin: {name}
clock: {{start: "2026-01-06T09:00:00Z", step: 1s, settle: {settle}}}
entities: {{ticks: {{key: id}}}}
queues:
  {name}_out:
    delay: {first}
    handle:
      effects:
        - {{op: insert, entity: ticks, values: {{id: 'next_id("T")'}}}}
        - {{op: enqueue, queue: {name}_out, message: 1}}
tools:
  - name: {name}_start
    match: {{method: POST, path: /{name}}}
    effects: [{{op: enqueue, queue: {name}_out, message: 1}}]
"""

    run = opened(twins=(clockwork("one", "10s", "4s"), clockwork("two", "20s", "6s")))
    run.call(Call(tool="one_start", arguments={}))
    run.call(Call(tool="two_start", arguments={}))
    ended = run.now_ns
    run.finish()
    ticks = [one.at_ns for one in run.events if one.kind == "handled"]
    assert ticks and max(ticks) <= ended + 20 * S
    assert sum(one.twin == "two" for one in run.events if one.kind == "handled") == 3
