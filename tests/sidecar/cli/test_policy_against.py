"""``sidecar policy verify --against``: a decision log put to a real OPA again, and how it ends."""

import asyncio
import json
import sys

import pytest
from opa_rig import opa_server
from policy_release_rig import RULES_ALLOW, RULES_DENY, living

from processors.model.call import Action
from processors.model.principal import Principal
from processors.redact.masker import Masker
from sidecar.__main__ import main
from sidecar.gateway.decisions.again import Logged, difference, read_line
from sidecar.gateway.decisions.driver import compare
from sidecar.gateway.decisions.event import Decided, Hiding, event
from sidecar.gateway.policy import release as releases
from sidecar.gateway.policy.document import Situation, document
from sidecar.gateway.policy.result import denied, read_answer

pytest.importorskip("opa_client", reason="needs the extra opa (opa-python-client)")

WHO = Principal(id="key:1", kind="agent", project="shop")
ACTION = Action(
    tenant="shop", agent="key:1", tool="pay", upstream="u", class_="irreversible", method="POST",
    path="/pay", arguments={"note": "hush"},
)  # fmt: skip


def logged(decision, made, capture="full"):
    """A line of the log."""
    hiding = Hiding(rules=(), captures=lambda _: capture, secret=b"s")
    said = Decided(
        decision=decision, document=made, project="shop", principal="key:1", tool="pay",
        call_id="c", trace_id=None, at_ns=1, took_ns=1,
    )  # fmt: skip
    return json.dumps(event(said, hiding, {}, Masker()))


def lines(count=3):
    """What the embedded engine decided, as it is logged."""

    async def scenario(policy):
        found = []
        for number in range(count):
            made = document(ACTION, WHO, Situation(time_ns=number, request_id="r"))
            answer = await policy.decide(made)
            found.append(logged(answer.decision(f"d{number}"), made))
        hidden = document(ACTION, WHO, Situation(time_ns=9, request_id="r"))
        found.append(logged(answer.decision("dh"), hidden, capture="off"))
        return found

    return living(scenario, RULES_ALLOW)


@pytest.fixture
def verify(tmp_path, monkeypatch, capfd):
    def run(*arguments):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "argv", ["sidecar", "policy", "verify", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        return int(ended.value.code), *capfd.readouterr()

    return run


@pytest.mark.requirement("GW-03")
def test_the_same_bundle_on_opa_decides_as_the_log_says_and_another_is_shown(tmp_path, verify):
    (tmp_path / "log.jsonl").write_text("\n".join([*lines(), "{", '{"result": {}}']) + "\n")
    asked = ("--log", "log.jsonl", "--allow-cidr", "127.0.0.1/32")
    archive = releases.make({"decide.rego": RULES_ALLOW.encode()})
    with opa_server(archive, tmp_path) as (port, process):
        at = f"http://127.0.0.1:{port}"
        code, out, _ = verify("--against", at, *asked)
        assert code == 0
        assert out == "3 compared, 0 differ, 0 not answered, 1 hidden, 1 malformed, 1 other_path\n"
        code, out, _ = verify("--against", at, *asked, "--limit", 2, "--output", "json")
        assert json.loads(out)["compared"] == 2
        process.kill()
        process.wait()
        code, _, err = verify("--against", at, *asked)
        assert code == 3 and "cannot decide" in err
    other = releases.make({"decide.rego": RULES_DENY.encode()})
    with opa_server(other, tmp_path) as (port, _):
        code, out, _ = verify("--against", f"http://127.0.0.1:{port}", *asked)
    assert code == 1
    assert out.startswith("d0  pay\n  effect: allow is deny there\n")
    assert "3 compared, 3 differ" in out and "several revisions: sha256:" in out


def test_nothing_to_compare_is_no_success(tmp_path, verify):
    (tmp_path / "log.jsonl").write_text(lines(1)[-1] + "\n")
    archive = releases.make({"decide.rego": RULES_ALLOW.encode()})
    with opa_server(archive, tmp_path) as (port, _):
        code, out, _ = verify(
            *("--against", f"http://127.0.0.1:{port}", "--log", "log.jsonl"),
            *("--allow-cidr", "127.0.0.1/32"),
        )
    assert (code, out) == (2, "0 compared, 0 differ, 0 not answered, 1 hidden\n")


@pytest.mark.parametrize(
    "arguments",
    [
        (), ("--against", "http://127.0.0.1:1"), ("--log", "x.jsonl"), ("x.jsonl",),
        ("x.jsonl", "--against", "http://127.0.0.1:1", "--log", "x.jsonl"),
        ("--against", "http://10.0.0.1:1", "--log", "x.jsonl"),
    ],
)  # fmt: skip
def test_what_is_no_question_is_a_usage_error(tmp_path, verify, arguments):
    (tmp_path / "x.jsonl").write_text("")
    assert verify(*arguments)[0] == 3


ALLOWED = read_answer({"effect": "allow", "reasons": [{"code": "x", "message": "m"}]})


def test_messages_are_words_and_everything_else_counts():
    made = document(ACTION, WHO, Situation(time_ns=1, request_id="r"))
    line = read_line(logged(ALLOWED.decision("d"), made))
    assert isinstance(line, Logged) and line.document["arguments"] == {"note": "hush"}
    other_words = {"effect": "allow", "reasons": [{"code": "x", "message": "other"}]}
    assert difference(line, read_answer(other_words)) is None
    limited = {**other_words, "effect": "allow_with_limits", "limits": {"count": 1}}
    assert set(difference(line, read_answer(limited)).logged) == {"effect", "limits"}
    failed = read_line(logged(denied("late").decision("d"), made))
    assert failed.result is None and difference(failed, denied("gone")) is None
    assert difference(failed, ALLOWED).logged["effect"] == "policy_error"


def test_what_is_not_answered_is_neither_the_same_nor_another():
    async def ask(_document):
        return denied("late")

    made = document(ACTION, WHO, Situation(time_ns=1, request_id="r"))
    text = [logged(ALLOWED.decision("d"), made), logged(denied("late").decision("d"), made)]
    found = asyncio.run(compare(text, ask))
    assert (found.compared, found.differing, found.unanswered) == (1, 0, 1)
