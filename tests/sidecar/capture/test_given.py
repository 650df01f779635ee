"""The model and the tools that an agent is given: what crosses, what is behind it, what fails."""

import pytest
from capture_rig import recorded, replayed

from sidecar.capture.plan import Patch
from sidecar.capture.seams.callee import tools_of
from sidecar.capture.seams.given import Failed, Llm, NotGiven, Tools, called
from sidecar.capture.seams.session import active
from sidecar.evaluate.assertions import factories as that
from sidecar.evaluate.assertions.judge import judge

pytestmark = pytest.mark.requirement("REP-01")
STOCK = {"lamps": 3}


class Broken(Exception):
    pass


def real(calls):
    def read(order):
        calls.append(("read", order))
        if order == 0:
            raise ValueError("no such order")
        if order == -1:
            raise Broken("it broke")
        return {"total": order}

    def person(name, request):
        calls.append((name, request))
        return {"decision": "approve"}

    def model(request):
        calls.append(("model", request))
        return {"text": "yes"}

    return Llm(model), Tools({"read": read, "human": person, "decide": lambda: "a tool"})


def agent(llm, tools):
    said = [tools.read(order=1), tools["read"](order=2), tools["decide"]()]
    said.append(llm({"model": "m"}, messages=["hi"]))
    said.append(tools.decide("most", 50))
    said.append(tools.human("read", {"order": 2}))
    tools.state("stock", [{"op": "replace", "path": "/lamps", "value": 2}], STOCK, {"lamps": 2})
    for order in (0, -1):
        try:
            tools.read(order=order)
        except Exception as error:
            said.append(f"{type(error).__name__}: {error}")
    return said


def ran(given, into):
    def run():
        called(lambda *both: into.append(agent(*both)) or {"output": "done"}, active(), *given)

    return run


def test_every_call_is_a_crossing_and_a_replay_needs_nothing_real(tmp_path):
    calls, first, again = [], [], []
    tape = recorded(tmp_path / "a.tape", ran(real(calls), first))
    assert len(calls) == 6  # four reads, a model and a person; a tool that tells nothing beside
    kinds = [(one.kind, one.name) for one in tape.events if one.kind != "tool_result"]
    assert kinds == [
        ("decision", "start"),
        *[("tool_call", name) for name in ("read", "read", "decide")],
        ("llm_call", "m"),
        ("decision", "most"),
        ("human_input", "read"),
        ("state_patch", "stock"),
        *[("tool_call", "read")] * 2,
        ("terminal", ""),
    ]
    assert tape.payload(tape.events[-1], "out")["output"] == "done"
    assert judge(that.state_invariant("state.lamps >= 0", start=STOCK), tape).status == "pass"
    assert judge(that.requires_before("read", read="mail"), tape).status == "fail"
    session = replayed(tape, ran((Llm(), Tools()), again))
    assert session.drift is None and again == first and len(calls) == 6
    assert session.tally.digest() == tape.seal.exact_digest
    assert first[0][-2:] == ["ValueError: no such order", "Broken: it broke"]


@pytest.mark.requirement("REP-02")
@pytest.mark.parametrize(("left", "seq"), [((2,), None), ((1,), 3), ((2, 1), 5), ((), 3)])
def test_the_world_must_change_as_it_did(tmp_path, left, seq):
    def ships(*counts):
        def run():
            tools = Tools({"ship": lambda: None})
            tools.ship()
            for count in counts:
                patch = [{"op": "replace", "path": "/lamps", "value": count}]
                tools.state("stock", patch, STOCK, {"lamps": count})

        return run

    tape = recorded(tmp_path / "a.tape", ships(2))
    session = replayed(tape, ships(*left))
    if seq is None:
        assert session.drift is None and session.tally.digest() == tape.seal.exact_digest
    else:
        assert (session.drift.kind, session.drift.seq) == ("STATE", seq)


def test_what_nobody_gave_cannot_go_live_and_says_so(tmp_path):
    def asks():
        for call in (
            lambda: Llm()(messages=[]),
            lambda: Tools().read(),
            lambda: Tools().human("x", 1),
        ):
            with pytest.raises(NotGiven, match="there is no real"):
                call()

    tape = recorded(tmp_path / "a.tape", asks)
    assert [one.st for one in tape.events if one.kind != "tool_call"][1:-1] == ["error"] * 3
    # Outside of a session they are what is behind them.
    assert Tools({"add": lambda a, b: a + b}).add(a=1, b=2) == 3
    with pytest.raises(AttributeError):
        _ = Tools()._secret


def test_a_class_that_is_not_loaded_fails_as_one_of_ours(tmp_path):
    def fails():
        raise type("Gone", (Exception,), {"__module__": "not.loaded"})("it is gone")

    def asks(tools, kind):
        def run():
            with pytest.raises(kind, match="it is gone"):
                tools.read()

        return run

    tape = recorded(tmp_path / "a.tape", asks(Tools({"read": fails}), Exception))
    assert replayed(tape, asks(Tools(), Failed)).drift is None


def test_a_request_is_changed_before_it_is_sent():
    sent = []
    changes = (
        Patch(what="model", value="m-2"),
        Patch(what="toolset", value=[]),
        Patch(what="prompt", patch=({"op": "add", "path": "/messages/-", "value": "please"},)),
    )
    Llm(sent.append, changes)(model="m-1", messages=["hi"], functions=[1])
    assert sent == [{"model": "m-2", "messages": ["hi", "please"], "functions": []}]


def test_tools_are_a_mapping_a_module_or_an_object():
    class Kit:
        name = "kit"

        def read(self):
            return 1

        def _hidden(self):
            return 2

    assert set(tools_of(Kit())) == {"read"} and tools_of({"a": len}) == {"a": len}
