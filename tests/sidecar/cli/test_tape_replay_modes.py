"""``sidecar tape replay`` of an agent that is called, in every mode; how each ends."""

import json

import msgspec
import pytest
from agent_rig import AgentFolder

from sidecar.gate.report.model import Report
from sidecar.tape.files import examine, read_tape

pytestmark = pytest.mark.requirement("REP-01")

AGENT = """
import logging, os, signal, sys, time
POLICY = {"most": 50}
# A library's file: what the agent itself writes is on the tape, and in a replay nowhere else.
logging.basicConfig(filename="called.txt", format="%(message)s", level=logging.INFO)


def agent(llm, tools):
    most = tools.decide("most", POLICY["most"])
    order = tools.read(order=12)
    answer = llm(model="m-1", messages=[f"refund {order['total']}?"])
    if answer["yes"] and order["total"] <= most:
        tools.refund(order=12, amount=order["total"])
        return {"output": "refunded", "claimed": "success"}
    return "no"


def model(request):
    logging.info("model")
    return {"yes": "49" in request["messages"][0]}


class tools:
    def read(order):
        logging.info("read")
        return {"total": 49}

    def refund(order, amount):
        logging.info("refund")
        return {"refunded": amount}
"""
LLM = ("--llm", "py:shop:model")
TOOLS = ("--tools", "py:shop:tools")
KEYS = {
    *(field.name for field in msgspec.structs.fields(Report)),
    *("mode", "tape", "outcome", "profile", "exit_code", "events", "recorded_events"),
    *(
        "exact_digest",
        "recorded_digest",
        "refused",
        "reordered",
        "noise",
        "unconsumed",
        "unconsumed_n",
        "drift",
        "broken",
        "crashed",
        "sealed",
    ),
    *("done", "taint", "target_exit", "target_signal", "to"),
}

NEW = {"behavior_digest", "diff", "fingerprint", "latency"}


class Shop(AgentFolder):
    def run(self, *words, output="json", options=()):
        given = ["--agent", "py:shop:agent", *options, "--output", output]
        ran = self.sidecar("tape", "replay", "run.tape", *words, *given)
        place = self.folder / "called.txt"
        self.called = place.read_text().split() if place.exists() else []
        place.unlink(missing_ok=True)
        return ran

    def patch(self, *patches, **more):
        (self.folder / "patch.json").write_text(json.dumps({"patches": patches, **more}))
        return ("--patch", "patch.json")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shop")
    shop = Shop(folder, script="shop.py")
    shop.write(AGENT)
    given = ("--capture", "full", "--agent", "py:shop:agent", *LLM, *TOOLS)
    ran = shop.sidecar("tape", "record", "-o", "run.tape", *given)
    assert (ran.code, ran.err) == (0, "run.tape: 8 events, L3\n")
    (folder / "called.txt").unlink()
    return folder / "run.tape"


@pytest.fixture
def shop(recorded, tmp_path):
    (tmp_path / "run.tape").write_bytes(recorded.read_bytes())
    shop = Shop(tmp_path, script="shop.py")
    shop.write(AGENT)
    return shop


@pytest.mark.requirement("REP-03")
def test_a_changed_policy_is_shown_and_exits_0(shop, tmp_path):
    patch = shop.patch({"what": "policy", "name": "most", "value": 10})
    ran = shop.run(*patch, "-o", "new.tape")
    told = ran.json
    assert (ran.code, told["outcome"], told["done"]["parted"]) == (0, "shown", 1)
    assert told.keys() == {*KEYS, *NEW} and shop.called == []
    assert "the first change is at seq 1; 6 events instead of 8" in ran.err
    first = told["diff"]["first_divergence"]
    assert (first["seq_l"], first["seq_r"], first["drift"]) == (1, 1, ["OUTPUT"])
    new, old = read_tape(tmp_path / "new.tape"), read_tape(tmp_path / "run.tape")
    assert examine(tmp_path / "new.tape").holds
    assert new.payload(new.events[-1], "out")["output"] == "no"
    for origin in (new.header.replayed_from, new.header.anchor):
        assert origin.tape_id == old.header.tape_id
        assert origin.exact_digest == old.seal.exact_digest


@pytest.mark.requirement("REP-03")
def test_a_change_that_changes_nothing_and_one_that_the_tape_has_no_answer_to_say_so(shop):
    same = shop.patch({"what": "policy", "name": "most", "value": 50})
    ran = shop.run(*same, output="text")
    assert (ran.code, ran.out) == (0, "")
    said = "run.tape: the first change is at seq 1, and changes nothing: as recorded, 8 events\n"
    assert ran.err == said
    ran = shop.run(*shop.patch({"what": "result", "name": "read", "value": {"total": 7}}))
    head, place, further = ran.err.splitlines()
    assert (ran.code, ran.json["done"]["parted"]) == (0, 3)
    assert "it ends where the tape has no answer" in head
    assert place == "  asked from shop.py:11 in agent"
    assert further == "  to go on from there with the real model: --live provider --controls 0"


def test_strict_calls_nothing_and_a_prompt_that_is_another_is_told(shop):
    ran = shop.run()
    assert (ran.code, ran.json["outcome"], shop.called) == (0, "ok", [])
    assert ran.json.keys() == KEYS
    assert ran.json["exact_digest"] == ran.json["recorded_digest"]
    shop.change("refund {", "please refund {")
    ran = shop.run()
    drift = ran.json["drift"]
    assert (ran.code, drift["kind"], drift["seq"], shop.called) == (2, "PROMPT", 4, [])
    assert drift["candidates"][0] == {
        "seq": 4,
        "why": "here",
        "name": "m-1",
        "used": False,
        "places": ["/messages/0"],
    }
    assert "/messages/0" in ran.err and "please" not in ran.err


@pytest.mark.full
def test_a_strict_replay_as_a_new_tape_is_the_same_tape(shop, tmp_path):
    ran = shop.run("-o", "new.tape")
    assert (ran.code, ran.json["diff"]["outcome"]) == (0, "identical")
    new, old = read_tape(tmp_path / "new.tape"), read_tape(tmp_path / "run.tape")
    assert new.seal.exact_digest == old.seal.exact_digest == ran.json["exact_digest"]
    ran = shop.run("-o", "new.tape")
    assert ran.code == 3 and "there is a file already" in ran.err


@pytest.mark.full
def test_each_mode_calls_what_it_says(shop, tmp_path):
    assert shop.run("--mode", "tools", *LLM).code == 0
    assert shop.called == ["model"]
    ran = shop.run("--mode", "shadow", *LLM)
    assert (ran.code, shop.called) == (0, ["model"])
    ran = shop.run("--fork", "4", *LLM, *TOOLS)
    assert (ran.code, shop.called) == (0, ["model", "refund"])
    assert ran.json["done"]["live"] == {"provider": 1, "tool": 1}
    ran = shop.run("--mode", "tools", "--live", "tool", *LLM, *TOOLS, "-o", "tainted.tape")
    assert (
        ran.json["taint"] == ["live:tool"]
        and "tainted"
        in shop.run("--mode", "tools", "--live", "tool", *LLM, *TOOLS, output="text").out
    )
    shop.run("--mode", "tools", "--live", "tool", *LLM, *TOOLS)
    assert shop.called == ["read", "model", "refund"]
    # What comes of it is refused as evidence.
    ran = shop.sidecar("tape", "replay", "tainted.tape", "--agent", "py:shop:agent")
    assert ran.code == 2 and "TAINTED" in ran.err


@pytest.mark.full
@pytest.mark.requirement("REP-03")
def test_a_fault_and_a_prefix_that_is_another(shop):
    fault = {"what": "fault", "seq": 2, "error": "TimeoutError", "message": "too late"}
    ran = shop.run(*shop.patch(fault))
    assert (ran.code, ran.json["outcome"], ran.json["target_exit"]) == (0, "shown", 1)
    shop.change("order=12)", "order=13)")
    ran = shop.run(*shop.patch({**fault, "seq": 4}))
    assert (ran.code, ran.json["outcome"]) == (2, "incomparable")
    assert "PREFIX" in ran.err and shop.called == []


@pytest.mark.full
@pytest.mark.requirement("REP-03")
def test_where_a_model_is_live_the_change_is_measured_against_unchanged_runs(shop, tmp_path):
    patch = [{"op": "replace", "path": "/messages/0", "value": "refund 1?"}]
    change = shop.patch({"what": "prompt", "patch": patch}, live=["provider"])
    (tmp_path / "good.yaml").write_text(
        "assertions:\n  - {spec: never_calls, args: {tools: [refund]}}\n"
    )
    words = ("--controls", "3", "--assertions", "good.yaml", *LLM)
    ran = shop.run(*change, *words)
    told = ran.json["effect"]
    assert (ran.code, ran.json["outcome"], shop.called) == (0, "shown", ["model"] * 6)
    assert (told["candidates_good"], told["controls_good"], told["effect"]) == (3, 0, 1.0)
    assert told["candidates"] == told["controls"] == 3 and 0 < told["low"] < told["high"] <= 1
    assert (
        "3 of 3 changed runs and 0 of 3 unchanged ones"
        in shop.run(*change, *words, output="text").out
    )
    # The agent's own change has nothing to be measured against, and that is said.
    shop.change("refund {", "please refund {")
    ran = shop.run(*shop.patch({"what": "prompt"}, live=["provider"]), *words)
    assert ran.code == 0 and "in the agent itself" in ran.json["effect"]["reason"]


ENDS = {
    "raise ValueError('sk-not-to-be-shown')": (1, 125, "target_crash"),
    "sys.exit(2)": (1, 125, "target_crash"),
    "os._exit(2)": (1, 125, "target_crash"),
    "os._exit(127)": (3, 125, "internal"),
    "os._exit(137)": (3, 125, "internal"),
    "os._exit(0)": (3, 125, "internal"),
    "os.kill(os.getpid(), signal.SIGKILL)": (3, 125, "internal"),
    "os.kill(os.getpid(), signal.SIGSEGV)": (3, 125, "internal"),
    "import resource; resource.setrlimit(resource.RLIMIT_AS, (2**29,) * 2); bytearray(2**33)": (
        *(1, 125),
        "target_crash",
    ),
    "while True: pass": (3, 125, "timeout"),
    "return None": (2, 2, "miss"),
}


@pytest.mark.full
@pytest.mark.requirement("XIT-01")
@pytest.mark.parametrize("end", ENDS)
def test_how_a_replayed_agent_ends_has_its_code_in_each_profile(shop, end):
    ci, git, outcome = ENDS[end]
    shop.change("    most =", f"    {end}\n    most =")
    seconds = "3" if outcome == "timeout" else "60"
    for options, code in (((), ci), (("--profile", "git"), git), (("--profile", "gate-s0"), 3)):
        ran = shop.run("--timeout", seconds, options=options)
        assert (ran.code, ran.json["outcome"], ran.json["exit_code"]) == (code, outcome, code)
    ran = shop.run("--timeout", seconds, "--profile", "git", "--bisect")
    assert ran.code == (0 if outcome == "miss" else 125)


@pytest.mark.full
@pytest.mark.requirement("XIT-01")
def test_a_crash_in_which_the_tape_ends_too_is_the_same_run(shop, tmp_path):
    shop.change("    tools.refund", '    raise KeyError("x")\n        tools.refund')
    given = ("--capture", "full", "--agent", "py:shop:agent", *LLM, *TOOLS)
    (tmp_path / "run.tape").unlink()
    assert shop.sidecar("tape", "record", "-o", "run.tape", *given).code == 1
    assert shop.run().code == 0
    assert shop.run("--profile", "git", "--bisect").code == 2
    shop.change("KeyError", "ValueError")
    ran = shop.run("--profile", "git", "--bisect")
    assert (ran.code, ran.json["outcome"]) == (125, "target_crash")


@pytest.mark.full
@pytest.mark.requirement("XIT-01")
def test_bisect_turns_the_answer_round(shop):
    git = ("--profile", "git", "--bisect")
    assert shop.run(*git).code == 2
    shop.change("refund {", "please refund {")
    assert shop.run(*git).code == 0
    assert shop.run("--profile", "git").code == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--mode", "fork"), "fork has a seq"),
        (("--mode", "tools"), "--llm"),
        (("--fork", "99", *LLM), "no event 99"),
        (("--bisect", "--profile", "git", "--fork", "1"), "of the mode strict"),
        (("--patch", "absent.json"), "cannot be read"),
        (("--", "python", "x.py"), "not both"),
        (("--llm", "model"), "py:module:name"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_anything_runs(
    shop, words, said, monkeypatch, capsys
):
    import sys

    from sidecar import __main__ as entry

    monkeypatch.chdir(shop.folder)
    line = ["tape", "replay", "run.tape", "--agent", "py:shop:agent", *words]
    monkeypatch.setattr(sys, "argv", ["sidecar", *line])
    exits = entry.exits_of(line)
    assert entry._run(exits) == (125 if exits.profile == "git" else 3)
    assert said in capsys.readouterr().err


@pytest.mark.requirement("REP-03")
def test_allow_real_is_an_error_and_a_patch_must_fit(shop, monkeypatch, capsys):
    import sys

    from sidecar import __main__ as entry

    monkeypatch.chdir(shop.folder)
    said = []
    for patches, more in (
        ([{"what": "policy", "name": "most", "value": 1}], {"allow_real": True}),
        ([{"what": "policy", "name": "nope", "value": 1}], {}),
        ([{"what": "result", "seq": 99, "value": 1}], {}),
        ([{"what": "result", "seq": 2}], {}),
    ):
        line = ["sidecar", "tape", "replay", "run.tape", *shop.patch(*patches, **more)]
        monkeypatch.setattr(sys, "argv", [*line, "--agent", "py:shop:agent"])
        assert entry._run(entry.exits_of([])) == 3
        said.append(capsys.readouterr().err)
    assert "never calls the real thing" in said[0] and "nope" in said[1] and "99" in said[2]
    assert "one of value and patch" in said[3]
    (shop.folder / "deep.json").write_text("[" * 100_000)
    (shop.folder / "odd.yaml").write_text("patches: [sekret\n")
    for name in ("deep.json", "odd.yaml"):
        line = ["sidecar", "tape", "replay", "run.tape", "--patch", name]
        monkeypatch.setattr(sys, "argv", [*line, "--agent", "py:shop:agent"])
        assert entry._run(entry.exits_of([])) == 3
        told = capsys.readouterr().err
        assert "is no YAML or JSON" in told and "sekret" not in told


PLAIN = """
import asyncio, random, time


def plain():
    return {"at": time.time(), "dice": random.random()}


async def waits(llm):
    await asyncio.sleep(0)
    return llm(messages=["x"], model="m")


def model(request):
    return {"said": request["messages"][0], "dice": random.random()}
"""


@pytest.mark.full
@pytest.mark.parametrize(("name", "more"), [("plain", ()), ("waits", ("--llm", "py:own:model"))])
def test_a_callable_may_take_nothing_or_be_awaited(tmp_path, name, more):
    agent = AgentFolder(tmp_path, script="own.py")
    agent.write(PLAIN)
    named = ("--agent", f"py:own:{name}")
    ran = agent.sidecar("tape", "record", "-o", "a.tape", "--capture", "full", *named, *more)
    assert ran.code == 0, ran.err
    ran = agent.sidecar("tape", "replay", "a.tape", *named, "--output", "json")
    assert (ran.code, ran.json["exact_digest"]) == (0, ran.json["recorded_digest"]), ran.err


@pytest.mark.full
@pytest.mark.requirement("XIT-01")
def test_an_agent_that_is_not_there_is_no_crash_of_the_agents(shop):
    for name in ("py:shop:nope", "py:nope:agent", "py:shop.nope:agent"):
        for profile, code in (("ci", 3), ("git", 125)):
            words = ("--agent", name, "--profile", profile, "--output", "json")
            ran = shop.sidecar("tape", "replay", "run.tape", *words)
            assert (ran.code, ran.json["outcome"]) == (code, "internal"), ran.err
            assert "nope" in ran.err and "Traceback" not in ran.err
    ran = shop.sidecar("tape", "record", "-o", "b.tape", "--agent", "py:shop:nope")
    assert ran.code == 3 and "shop has no nope" in ran.err


@pytest.mark.full
@pytest.mark.requirement("XIT-01")
@pytest.mark.parametrize(
    ("name", "said"),
    [("model", "shop:model takes request, and is"), ("POLICY", "shop:POLICY is nothing to call")],
)
def test_what_cannot_be_called_as_an_agent_is_told_before_it_is(shop, name, said):
    ran = shop.sidecar("tape", "replay", "run.tape", "--agent", f"py:shop:{name}")
    assert (ran.code, said in ran.err, "Traceback" in ran.err) == (3, True, False), ran.err
