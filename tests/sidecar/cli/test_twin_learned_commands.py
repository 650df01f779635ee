"""``sidecar twin draft`` and ``sidecar twin fidelity`` as a user runs them."""

import json

import jsonschema_rs
import pytest
from click.testing import CliRunner

from sidecar.__main__ import main
from sidecar.analyse.fidelity.report import schema
from sidecar.cli.root import root

pytestmark = pytest.mark.requirement("TWN-05", "TWN-06")

ORDERS = {"A-1": "49.00", "A-2": "12.50"}


def call(number, name, arguments):
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": str(number), "function": function}],
    }


def told(name, answer):
    text = answer if isinstance(answer, str) else json.dumps(answer)
    return {"role": "tool", "name": name, "content": text}


def run(number, *calls):
    messages = [{"role": "user", "content": "hello"}]
    for place, (name, arguments, answer) in enumerate(calls):
        messages += [call(place, name, arguments), told(name, answer)]
    messages.append({"role": "assistant", "content": "done"})
    return {"task_id": number, "trial": 0, "reward": 1.0, "messages": messages}


def order(name, status="paid"):
    return {"order_id": name, "total": ORDERS[name], "status": status}


def cancelling(number, name):
    asked = {"order_id": name}
    return run(
        number,
        ("get_order", asked, order(name)),
        ("cancel_order", asked, {"ok": True}),
        ("get_order", asked, order(name, "cancelled")),
    )


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    runs = [cancelling(n, name) for n, name in enumerate([*ORDERS] * 6)]
    (tmp_path / "runs.jsonl").write_text("\n".join(map(json.dumps, runs)))
    return tmp_path


def sidecar(*words):
    ended = CliRunner().invoke(root, words, standalone_mode=False)
    code = ended.return_value if ended.exception is None else None
    return code, ended.stdout, ended.exception


def test_a_drafted_twin_passes_its_check_says_what_it_rests_on_and_is_true_to_its_runs(folder):
    code, out, _ = sidecar("twin", "draft", "runs.jsonl", "-o", "made")
    assert code == 0 and "2 tools from 12 runs, 36 calls" in out
    assert "3 runs, 9 calls, on a draft of the other 9: 9 answered, 9 as recorded, 0 gaps" in out
    text = (folder / "made" / "twin.yaml").read_text()
    assert 'status becomes "cancelled": 12 for, 0 against' in text
    code, out, _ = sidecar("twin", "check", "made/twin.yaml")
    assert code == 0 and "0 problems" in out
    told = json.loads((folder / "made" / "draft.json").read_text())
    assert told["held_out"]["equal"] == 9 and told["exit_code"] == 0
    assert all(one["support"]["n"] >= 3 for one in told["rules"] if "." not in one["part"])
    code, out, _ = sidecar("twin", "fidelity", "made", "runs.jsonl", "--output", "json")
    found = json.loads(out)
    assert code == 0 and (found["results"], found["equal"]) == (36, 36)
    assert found["reads_after_effects"] == {"n": 12, "equal": 12}
    shape = {
        key: value for key, value in found.items() if key not in ("outcome", "profile", "exit_code")
    }
    jsonschema_rs.validator_for(schema()).validate(shape)


def test_the_same_runs_give_the_same_files(folder):
    sidecar("twin", "draft", "runs.jsonl", "-o", "one")
    lines = (folder / "runs.jsonl").read_text().splitlines()
    (folder / "again.jsonl").write_text("\n".join(lines[::-1]))
    sidecar("twin", "draft", "again.jsonl", "-o", "two")
    assert (folder / "one/twin.yaml").read_bytes() == (folder / "two/twin.yaml").read_bytes()


def test_a_secret_in_the_traffic_is_in_no_file(folder):
    secret = "sk-ant-api03-" + "Zk4" * 30
    runs = [
        run(n, ("get_key", {"name": f"k{n % 3}"}, {"name": f"k{n % 3}", "api_key": secret}))
        for n in range(9)
    ]
    (folder / "keys.jsonl").write_text("\n".join(map(json.dumps, runs)))
    code, _, _ = sidecar("twin", "draft", "keys.jsonl", "-o", "keys")
    assert code == 0
    for file in (folder / "keys").iterdir():
        assert secret not in file.read_text() and "Zk4Zk4" not in file.read_text()


def test_a_tool_that_only_reads_is_told_by_name(folder):
    runs = [run(n, ("think", {"thought": f"t{n}"}, "noted")) for n in range(8)]
    (folder / "thoughts.jsonl").write_text("\n".join(map(json.dumps, runs)))
    sidecar("twin", "draft", "thoughts.jsonl", "-o", "writes")
    sidecar("twin", "draft", "thoughts.jsonl", "-o", "reads", "--read", "think")
    classes = [
        line.split()[-1]
        for name in ("writes", "reads")
        for line in (folder / name / "twin.yaml").read_text().splitlines()
        if line.strip().startswith("class:")
    ]
    assert classes == ['"irreversible"', '"read"']
    code, out, _ = sidecar("twin", "fidelity", "reads", "thoughts.jsonl", "--observed")
    assert code == 0 and "8 of 8 results equal" in out


def test_drift_that_changes_a_verdict_exits_as_asked(folder):
    sidecar("twin", "draft", "runs.jsonl", "-o", "made")
    renamed = (folder / "runs.jsonl").read_text().replace("total", "sum")
    (folder / "later.jsonl").write_text(renamed)
    words = ("twin", "fidelity", "made", "later.jsonl")
    code, out, _ = sidecar(*words)
    assert code == 0 and "ticket: get_order: 24 of 24 results differ" in out
    assert "/total against recorded /sum  in 24, verdict-neutral" in out
    code, out, _ = sidecar(*words, "--output", "markdown")
    assert code == 0 and out.startswith("# Twin fidelity\n")
    other = [run(n, *[("cancel_order", {"order_id": "A-1"}, {"ok": True})] * 1) for n in range(9)]
    (folder / "twin-runs.jsonl").write_text("\n".join(map(json.dumps, other)))
    code, out, _ = sidecar(*words, "--ran", "twin-runs.jsonl", "--warn-exit", "7")
    assert code == 7 and "warn: behaviour" in out


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("draft", "none.jsonl", "-o", "x"), 3, "no such file or folder"),
        (("draft", "empty", "-o", "x"), 3, "no OTLP request"),
        (("draft", "talk.jsonl", "-o", "x"), 2, "no call that reached a service"),
        (("draft", "bad.jsonl", "-o", "x"), 3, "cannot be imported as tau"),
        (("draft", "runs.jsonl", "-o", "there"), 3, "there is a twin already"),
        (("draft", "runs.jsonl", "-o", "runs.jsonl/x"), 3, "cannot be written"),
        (("fidelity", "nowhere.yaml", "runs.jsonl"), 3, "cannot be read"),
        (("fidelity", "there/twin.yaml", "talk.jsonl"), 2, ""),
    ],
)
def test_what_cannot_be_done_is_said(folder, capsys, monkeypatch, words, code, says):
    (folder / "empty").mkdir()
    (folder / "bad.jsonl").write_text('{"messages": [{"role": "tool", "content": "x"}]}')
    (folder / "talk.jsonl").write_text(json.dumps(run(1)))
    (folder / "there").mkdir()
    twin = "twin: t\ntools: [{name: a, match: {method: GET, path: /a}, class: read}]\n"
    (folder / "there" / "twin.yaml").write_text(twin)
    monkeypatch.setattr("sys.argv", ["sidecar", "twin", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    shown = capsys.readouterr()
    assert ended.value.code == code and says in shown.err and "Traceback" not in shown.err
