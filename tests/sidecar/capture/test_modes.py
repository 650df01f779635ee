"""The modes beside strict: what is answered from the tape, what goes live, what stops."""

import itertools
from pathlib import Path
from typing import get_args

import pytest
from capture_rig import Echo, recorded, replayed, run, tick
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.capture.modes import player_of
from sidecar.capture.plan import Exhausted, Mode, Plan, What, plan_of
from sidecar.capture.play import Drifted, StrictPlayer
from sidecar.capture.record import Circumstances, header_of, redactor_of
from sidecar.capture.seams.session import Session, current
from sidecar.capture.seams.sites import Sites
from sidecar.replay.diff import compare
from sidecar.tape.codec import DEFAULT, Codecs
from sidecar.tape.files import TapeWriter, read_tape
from sidecar.tape.model import Seam

pytestmark = pytest.mark.requirement("REP-01")
HERE = Path(__file__).parent


class World(Echo):
    """A tool, a model and a clock; ``calls`` counts what really happened, by seam."""

    def __init__(self, model="m-1", more=""):
        super().__init__()
        self.model, self.more = model, more
        self.done = []
        self.ticks = itertools.count(100)

    def real(self, given):
        self.done.append(given)
        return super().real(given)

    def ask(self, text):
        request = {"model": self.model, "messages": [text + self.more]}
        return self.cross("llm_call", "provider", self.model, request)

    def tool(self, name, **given):
        return self.cross("tool_call", "tool", name, given)

    def policy(self, name):
        return self.cross("decision", None, name)["echo"]

    def tick(self):
        return tick(lambda: next(self.ticks))

    def cross(self, kind, seam, name, given=None):
        more = {} if given is None else {"given": given}
        label = "" if kind == "llm_call" else name
        x = current().enter(kind=kind, seam=seam, name=name, label=label, **more)
        if x.played:
            if x.error is not None:
                raise LookupError(x.error[1])
            return x.out
        with x.inside():
            got = self.real([kind, name, given])
        x.done(got)
        return got


def shop(world, orders=(1, 2), again=0, ticks=1, extra=()):
    """Reads orders, asks a model, refunds what the policy allows."""

    def agent():
        most = world.policy("most")
        for order in orders:
            world.tool("read", order=order)
        for _ in range(ticks):
            world.tick()
        answer = world.ask("refund?")
        for name in extra:
            world.tool(name)
        for _ in range(1 + again):
            world.tool("refund", most=most, said=answer["echo"][2])

    return agent


@pytest.fixture
def tape(tmp_path):
    return recorded(tmp_path / "a.tape", shop(World()))


def rerun(tape, agent, tmp_path, name="b.tape", **plan):
    """Run an agent under a plan; the session, its player and the new tape."""
    made = plan_of(plan)
    header = header_of(Circumstances(tape_id="new", now_ns=0), "full", taint=made.taint)
    writer = TapeWriter(tmp_path / name, header, redactor=redactor_of("full"))
    player = player_of(made, tape, redactor_of("full"), Codecs(DEFAULT))
    session = Session(Sites([HERE]), writer=writer, player=player)
    try:
        run(session, agent)
    except (Drifted, LookupError):
        pass
    writer.seal()
    return session, player, read_tape(tmp_path / name)


def seqs(tape):
    return {(event.kind, event.name): event.seq for event in reversed(tape.events)}


def compared(tape, new):
    return compare(tape, new, Codecs(DEFAULT))


def test_in_tools_mode_models_are_live_and_tools_are_not(tape, tmp_path):
    world = World()
    session, player, new = rerun(tape, shop(world), tmp_path, mode="tools")
    assert session.drift is None and world.done == [["llm_call", "m-1", world_request()]]
    assert player.told.live == {"provider": 1}
    assert compared(tape, new).outcome == "identical" and not new.header.taint


def world_request(more=""):
    return {"model": "m-1", "messages": ["refund?" + more]}


def test_in_tools_mode_a_tool_that_is_asked_otherwise_is_a_drift_and_never_called(tape, tmp_path):
    world = World()
    session, _, _ = rerun(tape, shop(world, orders=(1, 3)), tmp_path, mode="tools")
    assert (session.drift.kind, session.drift.seq) == ("ARGS", seqs(tape)["tool_call", "read"] + 2)
    assert world.done == []
    session, _, _ = rerun(tape, shop(World(), again=1), tmp_path, "c.tape", mode="tools")
    assert session.drift.kind == "EXTRA_CALL"
    session, _, _ = rerun(tape, shop(World(), orders=(1,)), tmp_path, "d.tape", mode="tools")
    assert session.drift.kind == "MISSING_CALL"


@pytest.mark.row("R4")
def test_a_tool_may_go_on_answering_as_at_last_where_the_plan_says_so(tape, tmp_path):
    exhausted = {"refund": "repeat_last"}
    world = World()
    agent = shop(world, again=2)
    session, player, new = rerun(tape, agent, tmp_path, mode="tools", exhausted=exhausted)
    assert session.drift is None and player.told.repeated == {"refund": 2}
    assert [one[0] for one in world.done] == ["llm_call"]
    results = [new.payload(one, "out") for one in new.events if one.kind == "tool_result"]
    assert results[-1] == results[-2] == results[-3]


def test_what_the_clock_says_beyond_the_tape_is_real_and_counted(tape, tmp_path):
    session, player, new = rerun(tape, shop(World(), ticks=3), tmp_path, mode="tools")
    assert session.drift is None and player.told.beyond == {"clock": 2} and not new.header.taint


def test_a_seam_that_is_not_the_modes_taints_what_comes_of_it(tape, tmp_path):
    world = World()
    plan = {"mode": "tools", "live": ["tool"]}
    session, _, new = rerun(tape, shop(world, orders=(5, 6)), tmp_path, **plan)
    assert session.drift is None and len(world.done) == 4
    assert new.header.taint == ("live:tool",)
    assert compared(tape, new).outcome == "incomparable"


def test_in_shadow_mode_no_tool_is_ever_called(tape, tmp_path):
    world = World(more=" (v2)")
    agent = shop(world, orders=(1, 9), extra=["delete"])
    session, player, new = rerun(tape, agent, tmp_path, mode="shadow")
    assert session.drift is None
    assert [one[0] for one in world.done] == ["llm_call"]
    assert player.told.stubbed == {"read": 1, "delete": 1, "refund": 1}
    stubs = [one for one in new.events if one.st == "requested_only"]
    assert [one.name for one in stubs] == ["read", "delete", "refund"]
    assert not any(player.goes_live(seam) for seam in ("tool", "http", "fs"))
    assert player.goes_live("provider")


def test_a_fork_plays_its_prefix_and_lives_from_there(tape, tmp_path):
    at = seqs(tape)["llm_call", "m-1"]
    world = World()
    agent = shop(world, extra=["delete"])
    session, player, new = rerun(tape, agent, tmp_path, mode="fork", fork=at)
    assert session.drift is None and not new.header.taint
    assert [one[1] for one in world.done] == ["m-1", "delete", "refund"]
    assert new.events[at - 1].out == tape.events[at - 1].out
    assert player.told.live == {"provider": 1, "tool": 2}


def test_a_fork_between_a_call_and_its_answer_makes_the_call(tape, tmp_path):
    read = seqs(tape)["tool_call", "read"]
    for at, calls in ((read, 5), (read + 1, 5), (read + 2, 4)):
        world = World()
        session, player, new = rerun(
            tape, shop(world), tmp_path, f"{at}.tape", mode="fork", fork=at
        )
        assert session.drift is None and sum(player.told.live.values()) == calls
        assert compared(tape, new).outcome == "identical"


def test_a_fork_whose_prefix_is_another_does_not_go_live(tape, tmp_path):
    at = seqs(tape)["llm_call", "m-1"]
    for number, agent in enumerate(({"orders": (1, 3)}, {"orders": (1, 2, 2)}, {"orders": (1,)})):
        world = World()
        plan = {"mode": "fork", "fork": at}
        session, _, _ = rerun(tape, shop(world, **agent), tmp_path, f"{number}.tape", **plan)
        assert session.drift.kind == ("ARGS", "EXTRA_CALL", "MISSING_CALL")[number]
        assert world.done == []


@pytest.mark.requirement("REP-03")
def test_one_policy_key_changes_what_comes_behind_it(tape, tmp_path):
    patch = {"what": "policy", "name": "most", "value": {"echo": ["decision", "most", 7]}}
    world = World()
    _, player, new = rerun(tape, shop(world), tmp_path, mode="counterfactual", patches=[patch])
    # The refund asks for more than the tape knows: the tape has no answer, and nothing goes live.
    assert player.told.parted == seqs(tape)["decision", "most"]
    assert "no answer" in player.told.stopped and world.done == []
    first = compared(tape, new).first_divergence
    assert first.seq_l == seqs(tape)["decision", "most"]
    names = [one.name for one in new.events if one.kind == "tool_call"]
    assert names == ["read", "read"]


@pytest.mark.requirement("REP-03")
@pytest.mark.parametrize(
    "patch",
    [
        {"what": "result", "value": {"echo": "else"}},
        {"what": "result", "patch": [{"op": "replace", "path": "/echo/1", "value": "else"}]},
        {"what": "fault", "error": "TimeoutError", "message": "too late"},
        {"what": "state", "name": "read", "patch": [{"op": "add", "path": "/sold", "value": True}]},
    ],
)
def test_a_result_a_state_or_a_fault_is_answered_instead(tape, tmp_path, patch):
    read = seqs(tape)["tool_call", "read"]
    where = {} if "name" in patch else {"seq": read + 1}
    plan = {"mode": "counterfactual", "patches": [{**patch, **where}]}
    _, player, new = rerun(tape, shop(World()), tmp_path, **plan)
    assert (player.parted, player.told.parted) == (read, read + 1)
    first = compared(tape, new).first_divergence
    assert (first.seq_l, first.seq_r) == (read + 1, read + 1)
    assert first.drift == (("ERROR_KIND", "RESULT") if patch["what"] == "fault" else ("RESULT",))
    assert new.events[read + 1].st == ("error" if patch["what"] == "fault" else "ok")


@pytest.mark.requirement("REP-03")
@pytest.mark.parametrize(
    ("what", "world"),
    [("prompt", {"more": " please"}), ("model", {"model": "m-2"})],
)
def test_a_declared_change_of_requests_goes_live_where_the_plan_says_so(
    tape, tmp_path, what, world
):
    plan = {"mode": "counterfactual", "patches": [{"what": what}]}
    live = World(**world)
    session, player, new = rerun(tape, shop(live), tmp_path, live=["provider"], **plan)
    assert player.told.parted == seqs(tape)["llm_call", "m-1"]
    assert [one[0] for one in live.done] == ["llm_call"]
    assert not new.header.taint
    dead = World(**world)
    _, player, _ = rerun(tape, shop(dead), tmp_path, "c.tape", **plan)
    assert dead.done == [] and player.told.stopped
    other = {"mode": "counterfactual", "patches": [{"what": "toolset"}], "live": ["provider"]}
    session, player, _ = rerun(tape, shop(World(**world)), tmp_path, "d.tape", **other)
    assert session.drift.kind == "INCOMPARABLE" and session.drift.reason.startswith("PREFIX")


@pytest.mark.requirement("REP-03")
@pytest.mark.parametrize(
    "patch",
    [
        {"what": "prompt", "patch": [{"op": "add", "path": "/messages/-", "value": "please"}]},
        {"what": "policy", "name": "most", "value": {"echo": [0, 0, 7]}},
    ],
)
def test_a_control_changes_nothing_and_is_live_from_the_same_event_on(tape, tmp_path, patch):
    plan = {"mode": "counterfactual", "patches": [patch], "live": ["provider"]}
    world = World()
    _, player, new = rerun(tape, shop(world), tmp_path, control=True, **plan)
    changed = seqs(tape)["llm_call", "m-1"] if patch["what"] == "prompt" else 1
    assert player.told.parted == changed and player.told.live == {"provider": 1}
    assert [one[0] for one in world.done] == ["llm_call"]
    assert compared(tape, new).outcome == "identical" and player.told.stopped is None
    assert player.plan.requests == ()
    with pytest.raises(ValueError, match="something live"):
        plan_of({**plan, "live": [], "control": True})


@pytest.mark.requirement("REP-03")
def test_a_prefix_that_is_another_means_that_nothing_can_be_compared(tape, tmp_path):
    refund = seqs(tape)["tool_call", "refund"]
    plan = {
        "mode": "counterfactual",
        "patches": [{"what": "result", "seq": refund, "value": 0}],
        "live": ["tool"],
    }
    cases = [
        shop(World(), orders=(1, 3)),
        shop(World(), orders=(1,)),
        shop(World(), extra=["x"]),
        shop(World(more="!")),
    ]
    for number, agent in enumerate(cases):
        session, player, _ = rerun(tape, agent, tmp_path, f"{number}.tape", **plan)
        assert session.drift.kind == "INCOMPARABLE", number
        assert session.drift.reason.startswith("PREFIX"), number
        assert player.told.live == {}


@pytest.mark.requirement("REP-03")
def test_a_change_that_is_never_met_shows_nothing(tape, tmp_path):
    refund = seqs(tape)["tool_call", "refund"]
    plan = {"mode": "counterfactual", "patches": [{"what": "result", "seq": refund, "value": 0}]}
    world = World()

    def agent():
        world.policy("most")

    session, _, _ = rerun(tape, agent, tmp_path, **plan)
    assert session.drift.kind == "INCOMPARABLE" and "before anything" in session.drift.reason


@pytest.mark.requirement("REP-03")
@settings(max_examples=20)
@given(data=st.data(), orders=st.lists(st.integers(0, 3), max_size=4), ticks=st.integers(0, 2))
def test_a_patch_that_changes_nothing_makes_no_divergence(tmp_path_factory, data, orders, ticks):
    folder = tmp_path_factory.mktemp("noop")
    tape = recorded(folder / "a.tape", shop(World(), orders, ticks=ticks))
    results = [one for one in tape.events if one.kind == "tool_result"]
    event = data.draw(st.sampled_from(results))
    said = tape.payload(event, "out")
    patch = data.draw(
        st.sampled_from(
            [
                {"what": "result", "seq": event.seq, "value": said},
                {"what": "result", "seq": event.seq, "patch": []},
                {"what": "state", "name": event.name, "patch": []},
            ]
        )
    )
    world = World()
    plan = {"mode": "counterfactual", "patches": [patch]}
    session, player, new = rerun(tape, shop(world, orders, ticks=ticks), folder, **plan)
    assert session.drift is None and world.done == [] and player.told.stopped is None
    found = compared(tape, new)
    assert found.outcome == "identical" and found.noise == 0
    assert new.seal.exact_digest == tape.seal.exact_digest
    assert new.seal.behavior_digest == tape.seal.behavior_digest


def performed(world, steps):
    """An agent of steps: what each does, its name, and what it says."""

    def agent():
        for what, name, text in steps:
            if what == "ask":
                world.ask(text)
            elif what == "tool":
                world.tool(name, text=text)
            else:
                world.policy(name)

    return agent


STEPS = st.lists(
    st.tuples(st.sampled_from(["ask", "tool", "tool", "policy"]), st.sampled_from("ab")),
    min_size=1,
    max_size=7,
)


def strictly(tape, agent):
    session = replayed(tape, agent)
    return session.drift


@pytest.mark.requirement("REP-02")
@settings(max_examples=30)
@given(data=st.data(), kinds=STEPS)
def test_each_single_mutation_of_a_run_has_its_kind_of_drift(tmp_path_factory, data, kinds):
    steps = [(what, name, f"step {number}") for number, (what, name) in enumerate(kinds)]
    folder = tmp_path_factory.mktemp("t")
    tape = recorded(folder / "a.tape", performed(World(), steps))
    assert strictly(tape, performed(World(), steps)) is None
    # Where each step stands on the tape: behind the start, a tool with its result.
    seq_of, seq = [], 1
    for what, *_ in steps:
        seq_of.append(seq)
        seq += 2 if what == "tool" else 1
    at = data.draw(st.integers(0, len(steps) - 1))
    what, name, _ = steps[at]
    mutations = {"drop": "MISSING_CALL", "more": "EXTRA_CALL"}
    if what != "policy":
        mutations["text"] = "PROMPT" if what == "ask" else "ARGS"
    if what == "ask":
        mutations["model"] = "PARAMS"
    later = [n for n in range(at + 1, len(steps)) if steps[n][0] != "policy"]
    if what != "policy" and later:
        mutations["swap"] = "ORDER"
    how = data.draw(st.sampled_from(sorted(mutations)))
    world, other = World(), list(steps)
    if how == "drop":
        # Nothing of its site may come later: it would stand in its place.
        if any((w, n) == (what, name) or w == what == "ask" for w, n, _ in steps[at + 1 :]):
            return
        del other[at]
    elif how == "more":
        other.append(("tool", "c", "more"))
    elif how == "text":
        other[at] = (what, name, "another text")
    elif how == "model":
        world.model = "m-2"
        at = next(n for n, one in enumerate(steps) if one[0] == "ask")
    else:
        to = later[0]
        other[at], other[to] = other[to], other[at]
    drift = strictly(tape, performed(world, other))
    assert drift.kind == mutations[how]
    if how in ("text", "model", "drop"):
        assert drift.seq == seq_of[at]
    assert world.done == []


@pytest.mark.requirement("REP-03")
@pytest.mark.row("R15", "R19")
def test_behind_a_change_each_answer_is_given_once_wherever_it_is_asked_for(tmp_path):
    def there(world):
        world.policy("most")
        for number in range(60):
            world.tool("read", number=number % 3)

    def elsewhere(world):  # another site of the same tool
        world.policy("most")
        for number in range(60):
            world.tool("read", number=2 - number % 3)

    tape = recorded(tmp_path / "long.tape", lambda: there(World()))
    patch = {"what": "policy", "name": "most", "value": {"echo": 1}}
    plan = plan_of({"mode": "counterfactual", "patches": [patch]})
    player = player_of(plan, tape, redactor_of("full"), Codecs(DEFAULT))
    compared_with = []
    crossing = player.comparison.crossing
    player.comparison.crossing = lambda asked: compared_with.append(asked) or crossing(asked)
    session = Session(Sites([HERE]), player=player)
    with pytest.raises(Drifted):
        run(session, lambda: (elsewhere(World()), World().tool("read", number=0)))
    # Sixty are found by what they ask, with one look each; the next is on the tape no more.
    assert len(player.stopped) and len(compared_with) <= 63
    assert [event.seq for event in player.cursor.left] == []


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        ({"allow_real": True}, "allow_real"),
        ({"allow_real": False}, "allow_real"),
        ({"mode": "twin"}, "twin"),
        ({"mode": "fork"}, "fork has a seq"),
        ({"fork": 3}, "fork has a seq"),
        ({"mode": "counterfactual"}, "counterfactual has patches"),
        ({"patches": [{"what": "model"}]}, "counterfactual has patches"),
        ({"live": ["provider"]}, "strict"),
        ({"exhausted": {"a": "repeat_last"}}, "strict"),
        ({"mode": "tools", "exhausted": {"a": "repeat_first"}}, "repeat_first"),
        ({"mode": "shadow", "live": ["tool"]}, "no tool is ever called"),
        ({"mode": "counterfactual", "patches": [{"what": "result", "seq": 1}]}, "value and patch"),
        ({"mode": "counterfactual", "patches": [{"what": "fault", "seq": 1}]}, "has an error"),
        ({"mode": "counterfactual", "patches": [{"what": "policy", "value": 1}]}, "which event"),
        ({"mode": "counterfactual", "patches": [{"what": "model", "name": "x"}]}, "no name"),
        ({"mode": "counterfactual", "patches": [{"what": "model", "odd": 1}]}, "odd"),
    ],
)
def test_a_plan_that_says_too_much_or_too_little_is_refused(plan, said):
    with pytest.raises(ValueError, match=said):
        plan_of(plan)


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        ({"mode": "counterfactual", "patches": [{"what": "answer", "seq": 1}]}, What),
        ({"mode": "counterfactual", "patches": [{"what": 3, "seq": 1}]}, What),
        ({"mode": "counterfactual", "patches": [{"seq": 1}]}, What),
        ({"mode": "loose"}, Mode),
        ({"mode": "tools", "live": ["provider", "network"]}, Seam),
        ({"mode": "tools", "exhausted": {"find": "repeat_first"}}, Exhausted),
    ],
)
def test_a_word_that_a_plan_does_not_know_is_told_with_those_it_does(plan, words):
    with pytest.raises(ValueError, match=f"it is one of {', '.join(get_args(words))}$"):
        plan_of(plan)


@pytest.mark.requirement("REP-03")
def test_a_plan_fits_its_tape_or_says_what_does_not(tape):
    def told(**plan):
        return plan_of({"mode": "counterfactual", **plan}).fits(tape)

    end = len(tape.events) - 1
    assert told(patches=[{"what": "result", "seq": 3, "value": 1}]) == []
    assert told(patches=[{"what": "result", "seq": end, "value": 1}]) == [
        f"result: at seq {end} nothing is answered"
    ]
    assert told(patches=[{"what": "policy", "name": "nope", "value": 1}]) == [
        "policy: nothing of the name nope is on the tape"
    ]
    assert Plan(mode="fork", fork=99).fits(tape) == ["the tape has no event 99"]


def test_strict_is_the_player_of_strict(tape):
    assert type(player_of(Plan(), tape, redactor_of("full"), Codecs(DEFAULT))) is StrictPlayer
