"""``sidecar scenario lint`` and ``run`` as a user types them: every remark with its line, and what
one agent comes to.
"""

import json
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from model_rig import ModelServer, Reply

from sidecar.cli.scenario import command
from sidecar.errors import SidecarError
from sidecar.twins.files import load_suite

ALLOW_ALL = Path(__file__).parents[3] / "policies" / "examples" / "allow_all"
TWIN = """\
twin: shop
entities:
  orders:
    key: id
    rows: [{id: A-1, open: true}, {id: A-2, open: true}]
tools:
  - name: get_order
    match: {method: GET, path: "/orders/{order_id}"}
    class: read
    response: {body: 'row("orders", arguments.order_id)'}
  - name: close_order
    match: {method: POST, path: "/orders/{order_id}/close"}
    class: write
    effects: [{op: set, entity: orders, key: arguments.order_id, values: {open: false}}]
"""
HEAD = "suite: orders\ntwins: [twin.yaml]\ndeadline: 30s\nscenarios:\n"
GOOD = """\
  - id: reads
    input: A-1
    reference: {calls: [{tool: get_order, arguments: {order_id: A-1}}], output: It is open.}
    expect: [{type: toolCalled, tool: get_order}, {type: outputContains, text: open}]
"""
IDLE = """\
  - id: idle
    input: A-1
    reference: {output: No.}
    expect: [{type: toolNotCalled, tool: close_order}, {type: stateUnchanged}]
"""
IMPOSSIBLE = """\
  - id: impossible
    input: A-1
    reference: {calls: [{tool: close_order, arguments: {order_id: A-1}}], output: Closed.}
    expect:
      - {type: toolCalled, tool: close_order}
      - {type: state, entity: orders, key: A-1, equals: {open: true}}
"""
CONTRADICTION = """\
  - id: torn
    input: A-1
    expect:
      - {type: toolCalled, tool: get_order}
      - {type: toolNotCalled, tool: get_order}
      - {type: maxToolCalls, max: 0}
      - {type: outputContains, text: "It is open"}
      - {type: outputNotContains, text: open}
      - {type: state, entity: orders, key: A-1, equals: {open: true}}
      - {type: state, entity: orders, key: A-1, equals: {open: false}}
"""
STRAY = """\
  - id: stray
    input: A-1
    reference: {calls: [{tool: close_order, arguments: {order_id: A-9}}], output: Closed.}
    expect: [{type: outputContains, text: Closed}]
"""
TALK = """\
  - id: talk
    input: Close it.
    user:
      persona: forgetful
      lines: [{when: which, say: [A-1, A-1]}]
    reference: {calls: [{tool: close_order, arguments: {order_id: A-1}}], output: A-1 is closed.}
    expect:
      - {type: state, entity: orders, key: A-1, equals: {open: false}}
      - {type: outputContains, text: A-1 is closed}
"""
COMPANY = """\
  - id: both
    agents: [{name: reader, input: A-1}, {name: closer, input: A-1}]
    reference:
      calls:
        - {agent: closer, tool: close_order, arguments: {order_id: A-1}}
        - {agent: reader, tool: get_order, arguments: {order_id: A-1}}
      output: It is closed.
    expect:
      - {type: state, entity: orders, key: A-1, equals: {open: false, by: closer}}
      - {type: toolCalled, tool: get_order}
"""
FAIR = """\
fairness:
  - {id: equal, scenarios: [reads, talk], tool: close_order}
"""
AGENT = """\
import json, os, sys, urllib.request

request = json.loads(sys.stdin.readline())
text = request["input"]


def call(method, path):
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    headers = {"Authorization": "Bearer " + os.environ["SIDECAR_AGENT_KEY"], "Idempotency-Key": "k"}
    url = os.environ["SIDECAR_GATEWAY_URL"] + path
    opener.open(urllib.request.Request(url, headers=headers, method=method)).read()


if text == "Close it.":
    said = "Of which order?"
elif request["messages"]:
    first = {"role": "user", "content": "Close it."}
    assert request["turn"] == 2 and request["messages"][0] == first
    call("POST", "/shop/orders/" + text + "/close")
    said = text + " is closed."
elif sys.argv[1] == "good":
    call("GET", "/shop/orders/" + text)
    said = "It is open."
else:
    said = "It is shut."
print(json.dumps({"output": said}))
"""


@dataclass
class Done:
    returncode: int
    stdout: str
    stderr: str


class Shell:
    """The command in this process, in a folder of the test's."""

    def __init__(self, folder, capsys):
        self.folder = folder
        self._capsys = capsys
        (folder / "twin.yaml").write_text(TWIN)
        (folder / "agent.py").write_text(AGENT)
        self.configure("")

    def configure(self, text):
        """A policy that allows all is evaluated sooner than the one that ships."""
        (self.folder / "sidecar.yaml").write_text(f"policy: {{bundle: '{ALLOW_ALL}'}}\n{text}")

    def suite(self, *scenarios, name="suite.yaml", head=HEAD):
        (self.folder / name).write_text(head + "".join(scenarios))

    def run(self, *words):
        self._capsys.readouterr()
        try:
            code, said = command.main([*words], prog_name="scenario", standalone_mode=False), ""
        except SidecarError as error:
            code, said = int(error.code), error.text()
        out, err = self._capsys.readouterr()
        return Done(code, out, err + said)

    def agent(self, mode):
        return f"cmd:{sys.executable} -I agent.py {mode}"


@pytest.fixture
def shell(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    return Shell(tmp_path, capsys)


@pytest.mark.requirement("SCN-01")
@pytest.mark.row("R34")
def test_lint_names_file_and_line_of_every_problem(shell):
    shell.suite(GOOD, IDLE, IMPOSSIBLE, CONTRADICTION, STRAY)
    done = shell.run("lint", "suite.yaml")
    assert done.returncode == 1, done.stderr
    lines = done.stdout.splitlines()
    assert lines[-1].startswith("5 scenarios: ")
    for start, text in (
        ("suite.yaml:12: problem: idle:", "'OK.' fails nothing"),
        ("suite.yaml:18: problem: impossible:", "does not pass state:orders"),
        ("suite.yaml:19: problem: torn:", "no reference"),
        ("suite.yaml:22: problem: torn:", "must be called, and must not"),
        ("suite.yaml:22: problem: torn:", "at most 0 calls"),
        ("suite.yaml:25: problem: torn:", "stands in"),
        ("suite.yaml:27: problem: torn:", "open must be True and False"),
        ("suite.yaml:31: problem: stray:", "leaves the twin: close_order"),
    ):
        assert any(one.startswith(start) and text in one for one in lines), (start, text, lines)
    assert not any("reads" in one for one in lines)


@pytest.mark.requirement("SCN-01")
def test_lint_is_content_with_what_can_be_passed_and_not_by_doing_nothing(shell):
    shell.suite(GOOD, TALK)
    done = shell.run("lint", "suite.yaml", "--output", "json")
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(done.stdout)
    assert (told["outcome"], told["suites"][0]["remarks"]) == ("ok", [])
    assert told["suites"][0]["scenarios"] == 2


@pytest.mark.requirement("SCN-01")
def test_lint_plays_the_reference_of_several_agents_each_call_by_its_own(shell):
    twin = TWIN.replace("values: {open: false}", "values: {open: false, by: caller.agent}")
    (shell.folder / "twin.yaml").write_text(twin)
    shell.suite(COMPANY)
    done = shell.run("lint", "suite.yaml")
    assert (done.returncode, done.stdout) == (0, "1 scenarios: 0 problems, 0 notes\n"), done

    idle = "    expect: [{type: stateUnchanged}]\n"
    shell.suite(COMPANY.split("    reference:")[0] + "    reference: {output: No.}\n" + idle)
    assert "agents that call nothing" in shell.run("lint", "suite.yaml").stdout

    for old, new, said in (
        ("agent: closer, tool", "tool", "agent says no agent; known: reader, closer"),
        ("agent: closer, tool", "agent: other, tool", "there is no agent 'other'"),
        ("{name: reader, input: A-1}, {name: closer, input: A-1}", "", "of several agents"),
    ):
        shell.suite(COMPANY.replace(old, new))
        done = shell.run("lint", "suite.yaml")
        assert done.returncode == 3 and said in done.stderr, done
        assert "suite.yaml:" in done.stderr


def test_a_changed_scenario_needs_a_new_version(shell):
    shell.suite(GOOD, name="old.yaml")
    shell.suite(GOOD.replace("input: A-1", "input: A-2"))
    done = shell.run("lint", "suite.yaml", "--since", "old.yaml")
    assert done.returncode == 1 and "still version '1'" in done.stdout, done.stdout
    shell.suite(GOOD.replace("input: A-1", 'input: A-2\n    version: "2"'))
    assert shell.run("lint", "suite.yaml", "--since", "old.yaml").returncode == 0


@pytest.mark.parametrize(
    ("part", "text"),
    [
        ("    user: {lines: []}\n", "a user who never answers"),
        ('    user: {lines: [{say: "", times: 0}]}\n', "says nothing"),
        ('    user: {lines: [{say: x, when: "("}]}\n', "is no pattern"),
        ("    user: {lines: [{say: x}], turnsMax: 1}\n", "must be from 2"),
        ("    reference: {calls: [{tool: fly}], output: x}\n", "no tool 'fly'"),
        ("fairness: [{id: f, scenarios: [reads, gone]}]\n", "no scenario 'gone'"),
    ],
)
def test_what_no_suite_can_mean_is_told_with_its_line(shell, part, text):
    body = GOOD.replace(GOOD.splitlines()[2] + "\n", "") if "reference" in part else GOOD
    shell.suite(body, part)
    with pytest.raises(SidecarError) as refused:
        load_suite(shell.folder / "suite.yaml")
    assert text in refused.value.text() and "suite.yaml:" in refused.value.text()


@pytest.mark.requirement("FUZ-03", "SCN-01")
def test_run_shows_each_scenario_with_the_user_answering(shell):
    shell.suite(GOOD, TALK, FAIR)
    done = shell.run("run", "suite.yaml", "--agent", shell.agent("good"), "--output", "json")
    told = json.loads(done.stdout)
    reads, talk = told["scenarios"]
    assert (reads["outcome"], talk["outcome"]) == ("passed", "passed"), told
    assert [(one["user"], one["agent"]) for one in talk["turns"]] == [
        ("Close it.", "Of which order?"),
        ("A-1", "A-1 is closed."),
    ]
    assert {one["evaluator"] for one in talk["scores"]} >= {"state/1", "outputContains/1"}
    # One run each of a sampled suite: chance may explain the difference, so nothing is decided.
    assert (done.returncode, told["fairness"][0]["status"]) == (2, "skip"), done.stderr


def test_run_tells_what_failed_and_exits_so(shell):
    shell.suite(GOOD, TALK)
    done = shell.run("run", "suite.yaml", "--agent", shell.agent("bad"), "--scenario", "reads")
    assert done.returncode == 1, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "failed      reads (major)"
    assert "  fail toolCalled:get_order: get_order was called 0 times, expected at least 1" in lines
    assert lines[-1] == "1 scenarios: 1 failed"
    unknown = shell.run("run", "suite.yaml", "--agent", shell.agent("bad"), "--scenario", "x")
    assert unknown.returncode == 3 and "Known: reads, talk" in unknown.stderr


def test_run_tells_what_an_agent_said_that_gave_no_answer(shell):
    shell.suite(GOOD)
    (shell.folder / "broken.py").write_text(
        "def agent(request):\n    return request['no such key']\n"
    )
    done = shell.run("run", "suite.yaml", "--agent", "py:broken:agent")
    lines = done.stdout.splitlines()
    at = lines.index("  fail agent_completed: the agent failed: exit status 1")
    assert lines[at + 1].startswith("    ") and "    KeyError: 'no such key'" in lines[at:], lines
    absent = shell.run("run", "suite.yaml", "--agent", "cmd:./no-such-agent")
    assert "the agent was not started: " in absent.stdout and absent.returncode == 2


LABELS = """\
criteria:
  - criterion: The answer is polite.
    mentions: [thank you]
    labels:
"""
CONFIG = "judge: {calibration: calibration.json}\n"
JUDGED = """\
  - id: polite
    input: A-1
    reference: {calls: [{tool: get_order, arguments: {order_id: A-1}}], output: It is open.}
    expect:
      - {type: toolCalled, tool: get_order}
      - {type: semantic, criterion: The answer is polite., mentions: [thank you]}
"""


def labelled(*pairs):
    return "".join(
        f"      - {{label: {label}, material: {{answer: {text}}}}}\n" for label, text in pairs
    )


@pytest.mark.requirement("JDG-01")
def test_labels_make_a_judge_s_word_count(shell):
    shell.suite(JUDGED)
    words = ("run", "suite.yaml", "--agent", shell.agent("good"))
    done = shell.run(*words)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "fail semantic (decides nothing): fake/1" in done.stdout
    good = labelled(*[("pass", "thank you")] * 12, *[("fail", "no")] * 12)
    (shell.folder / "labels.yaml").write_text(LABELS + good)
    shell.configure(CONFIG)
    done = shell.run("calibrate", "labels.yaml", "--to", "calibration.json")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith(
        "may decide   The answer is polite. (n 24, agreement 1.00, kappa 1.00"
    )
    done = shell.run(*words)
    assert done.returncode == 1 and "  fail semantic: fake/1" in done.stdout, done.stdout


@pytest.mark.requirement("JDG-01")
def test_too_few_labels_back_nothing(shell):
    (shell.folder / "labels.yaml").write_text(
        LABELS + labelled(("pass", "thank you"), ("fail", "no"))
    )
    done = shell.run("calibrate", "labels.yaml", "--to", "c.json", "--output", "json")
    told = json.loads(done.stdout)
    assert (done.returncode, told["criteria"][0]["decides"]) == (1, False)
    assert told["criteria"][0]["lacking"] == ["2 labels, at least 20 needed"]
    assert (shell.folder / "c.json").is_file()
    (shell.folder / "labels.yaml").write_text("criteria: [{criterion: x, labels: []}]\n")
    assert shell.run("calibrate", "labels.yaml", "--to", "c.json").returncode == 3


PLAYED = """\
  - id: played
    input: Close it.
    user: {type: model, persona: forgetful, goal: Order A-1 is to be closed.}
    reference: {calls: [{tool: close_order, arguments: {order_id: A-1}}], output: A-1 is closed.}
    expect:
      - {type: state, entity: orders, key: A-1, equals: {open: false}}
      - {type: outputContains, text: A-1 is closed}
"""


def says(asked):
    """What a model says as the user: the number, and then it is done."""
    text = asked.json["messages"][1]["content"]
    value = {"text": "", "done": True} if "is closed" in text else {"text": "A-1", "done": False}
    function = {"name": "say", "arguments": json.dumps(value)}
    call = {"id": "t", "type": "function", "function": function}
    return Reply({"choices": [{"message": {"role": "assistant", "tool_calls": [call]}}]})


@pytest.mark.requirement("FUZ-03")
def test_a_model_plays_the_user_and_both_runs_meet_the_same_one(shell):
    shell.suite(PLAYED, head=HEAD.replace("deadline", "deterministic: true\ndeadline"))
    words = ("run", "suite.yaml", "--agent", shell.agent("good"), "--output", "json")
    told = json.loads(shell.run(*words).stdout)
    assert "no model plays users" in told["scenarios"][0]["reason"]
    assert told["scenarios"][0]["outcome"] == "void"
    with ModelServer() as server:
        server.on("POST", "/v1/chat/completions", says)
        shell.configure(
            f"synthetic_users: {{type: openai, url: '{server.openai}', model: m,"
            " allow_cidrs: [127.0.0.1/32]}\n"
        )
        done = shell.run(*words)
        assert done.returncode == 0, done.stdout + done.stderr
        (one,) = json.loads(done.stdout)["scenarios"]
        assert [turn["user"] for turn in one["turns"]] == ["Close it.", "A-1"]
        assert (one["runs"], len(server.asked)) == (2, 2)
        assert {type(each.json["seed"]) for each in server.asked} == {int}
