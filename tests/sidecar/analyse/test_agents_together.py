"""Agents over one world: who moves when is the scheduler's choice, and runs can be made again."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.analyse.fuzz.judged import Bench
from sidecar.analyse.together.driver import CallableAgent
from sidecar.analyse.together.moves import Asked, GeneratorAgent
from sidecar.analyse.together.run import Limits
from sidecar.analyse.together.schedule import at_random, by_priority, reversals, switching
from sidecar.twins.company import AgentTask, Switch

pytestmark = pytest.mark.requirement("FUZ-02")


def together(loaded, **more):
    """Both errands of the hall in one scenario."""
    one, other = loaded.suite.scenarios
    tasks = tuple(AgentTask(name=each.id, input=each.input) for each in (one, other))
    from msgspec import structs

    return structs.replace(one, agents=tasks, expect=(*one.expect, *other.expect), **more)


def bench(loaded):
    return Bench(loaded.suite, loaded.group, Limits())


def run(loaded, agent, choose=None):
    return bench(loaded).run(together(loaded), lambda: GeneratorAgent(agent), choose)


def modes(ran):
    return ran.failed.signature.mode if ran.failed is not None else None


def stocker(request):
    left = (yield Asked(tool="get_stock", arguments={"item": "X"})).value["left"]
    yield Asked(tool="put_stock", arguments={"item": "X", "left": left - 1})
    return request["input"]["guest"]


def booker(request):
    seat = yield Asked(tool="get_seat", arguments={"seat": "S-1"})
    if not seat.value["guest"]:
        guest = request["input"]["guest"]
        yield Asked(tool="book", arguments={"seat": "S-1", "guest": guest})
    return request["input"]["guest"]


def sitter(request):
    guest, places = request["input"]["guest"], ["S-1", "S-2"]
    for seat in places if guest == "anna" else reversed(places):
        while True:
            taken = yield Asked(tool="take", arguments={"seat": seat, "guest": guest})
            if taken.status == 200:
                break
    for seat in places:
        yield Asked(tool="leave", arguments={"seat": seat})
    return guest


def after_first_read(at):
    """Each reads before either writes."""
    return at.agents[len(at.moves)] if len(at.moves) < 2 else at.able[0]


def test_an_update_over_one_that_was_not_seen_is_lost(hall):
    assert run(hall, stocker).failed is None
    ran = run(hall, stocker, after_first_read)
    assert ran.failed.signature.rule == "lost_update:anna+bert:stock/X"


def test_two_effects_under_one_declared_key_are_a_double_booking(hall):
    assert run(hall, booker).failed is None
    ran = run(hall, booker, after_first_read)
    assert ran.failed.signature.rule == 'double_booking:anna+bert:book "S-1"'


def test_a_circle_of_waiting_is_a_deadlock_named_by_who_and_over_what(hall):
    assert run(hall, sitter).failed is None
    ran = run(hall, sitter, after_first_read)
    assert ran.failed.signature.rule == "deadlock:anna+bert:seats/S-1+seats/S-2"
    assert ran.history.stuck


def test_an_agent_that_is_refused_while_another_goes_on_starves(hall):
    def greedy(request):
        for _ in range(30):
            yield Asked(tool="take", arguments={"seat": "S-1", "guest": request["input"]["guest"]})
            if request["input"]["guest"] == "anna":
                yield Asked(tool="leave", arguments={"seat": "S-1"})
        return request["input"]["guest"]

    def anna_first(at):
        """Bert moves only while anna sits."""
        sits = at.moves and at.moves[-1].agent == "anna" and at.moves[-1].asked.tool == "take"
        return "bert" if sits and "bert" in at.able else at.able[0]

    assert modes(run(hall, greedy, anna_first)) == "starvation"


def test_a_world_that_no_order_one_after_another_leaves_is_not_serialisable(hall):
    def doubling(request):
        other = "S-2" if request["input"]["guest"] == "anna" else "S-1"
        own = "S-1" if request["input"]["guest"] == "anna" else "S-2"
        there = (yield Asked(tool="get_seat", arguments={"seat": other})).value["guest"]
        yield Asked(tool="take", arguments={"seat": own, "guest": f"{there}+1"})
        return request["input"]["guest"]

    assert run(hall, doubling).failed is None
    assert modes(run(hall, doubling, after_first_read)) == "not_serialisable"


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32), pct=st.booleans())
def test_a_run_is_made_again_by_its_switches_alone(seed, pct, tmp_path_factory):
    loaded = hall_once(tmp_path_factory)
    choose = by_priority(seed, depth=3, length=12) if pct else at_random(seed)
    first = run(loaded, sitter, choose).history
    again = run(loaded, sitter, switching(first.switches)).history
    assert (again.moves, again.switches, again.stuck) == (first.moves, first.switches, first.stuck)


def test_conflicts_are_tried_in_the_other_order(hall):
    plain = run(hall, stocker).history
    found = {modes(run(hall, stocker, switching(one))) for one in reversals(plain)}
    assert found == {"lost_update"}


def test_a_plain_callable_moves_only_when_told_and_ends_when_stopped(hall):
    def waiting(request, call):
        while call("take", {"seat": "S-1", "guest": request["agent"]}).status != 200:
            pass
        return request["agent"]

    ran = bench(hall).run(together(hall), lambda: CallableAgent(waiting), at_random(1))
    assert [move.agent for move in ran.history.moves].count("anna") >= 1
    assert modes(ran) == "abandoned_resource"


def unspeakable(request, call):
    call("take", {"seat": object()})


def raising(request, call):
    raise ValueError("no seat")


def leaving(request, call):
    raise SystemExit(2)


@pytest.mark.parametrize(
    ("agent", "kind"),
    [(raising, "ValueError"), (leaving, "SystemExit"), (unspeakable, "NotJson")],
)
def test_an_agent_that_misbehaves_is_a_crash_of_the_run(hall, agent, kind):
    ran = bench(hall).run(hall.suite.scenarios[0], lambda: CallableAgent(agent))
    assert ran.failed.signature.rule == f"crash:{kind}"


def test_an_answer_that_no_json_can_say_is_told_as_its_text(hall):
    ran = bench(hall).run(hall.suite.scenarios[0], lambda: CallableAgent(lambda _, call: {"anna"}))
    assert ran.failed is None


def test_a_schedule_names_agents_that_are_there(hall):
    from sidecar.twins.company import company_problems

    tasks = [AgentTask(name="a"), AgentTask(name="a")]
    schedule = [Switch(after=2, run="b"), Switch(after=1, run="a")]
    told = [one.path for one in company_problems("scenarios.0", tasks, schedule)]
    assert told == [
        "scenarios.0.agents.1.name",
        "scenarios.0.schedule.0.run",
        "scenarios.0.schedule.1.after",
    ]


_loaded = {}


def hall_once(tmp_path_factory):
    from hall_rig import SUITE, TWIN

    from sidecar.twins.files import load_suite

    if not _loaded:
        folder = tmp_path_factory.mktemp("hall")
        (folder / "twin.yaml").write_text(TWIN)
        (folder / "suite.yaml").write_text(SUITE)
        _loaded["hall"] = load_suite(folder / "suite.yaml")
    return _loaded["hall"]
