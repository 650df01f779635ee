"""``sidecar tape diff``: what it prints in each form and how it exits."""

import json
import os
import pty
import re
import subprocess
import sys

import msgspec
import pytest
from click.testing import CliRunner

from sidecar.cli.tape import command
from sidecar.errors import SidecarError
from sidecar.gate.report.model import Report
from sidecar.tape.compose import Fact
from sidecar.tape.files import TapeWriter
from sidecar.tape.model import Header

EVIL = "www.e.example <script>alert(1)</script>\x1b[2J|`*[x](http://e.example)\" onload='x'"


def write(path, to, *, amount=1, name="pay"):
    with TapeWriter(path, Header(tape_id=path.stem)) as writer:
        for number in range(6):
            value = {"n": number, "to": to if number == 4 else "A", "amount": amount}
            writer.event(Fact(kind="tool_call", seam="tool", agent=to, name=name, input=value))
        writer.event(Fact(kind="terminal", output={"status": "ok"}, status="ok"))
        writer.seal()
    return path


@pytest.fixture
def tapes(tmp_path):
    return write(tmp_path / "a.tape", "a"), write(tmp_path / "b.tape", "a", amount=2)


@pytest.fixture
def evil(tmp_path):
    one, other = tmp_path / "e.tape", tmp_path / "f.tape"
    return write(one, EVIL, name=EVIL), write(other, EVIL, name=EVIL, amount=EVIL)


def run(*arguments):
    return CliRunner().invoke(command, ["diff", *map(str, arguments)], standalone_mode=False)


@pytest.mark.requirement("DIF-01")
def test_it_exits_by_what_it_found_and_json_says_so_too(tapes, tmp_path):
    one, other = tapes
    partial = tmp_path / "partial.tape"
    partial.write_bytes(one.read_bytes()[:-40])
    later = tmp_path / "later.tape"
    later.write_bytes(one.read_bytes().replace(b"tape/1.0.0", b"tape/2.0.0"))
    for pair, code, outcome in (
        ((one, one), 0, "identical"),
        ((one, other), 1, "differ"),
        ((one, partial), 2, "incomparable"),
    ):
        assert run(*pair).return_value == code
        value = json.loads(run(*pair, "--output", "json").stdout)
        assert (value["outcome"], value["exit_code"], value["profile"]) == (outcome, code, "ci")
    for path, code in ((later, 2), (tmp_path / "absent", 3)):
        found = run(one, path)
        assert isinstance(found.exception, SidecarError) and found.exception.code == code
        assert not found.stdout


@pytest.mark.requirement("DIF-01")
def test_the_keys_of_its_json_are_fixed(tapes):
    value = json.loads(run(*tapes, "--output", "json", "--limit", 2).stdout)
    report = {field.name for field in msgspec.structs.fields(Report)}
    assert value.keys() > report
    assert value.keys() - report == {
        *("left", "right", "incomparable", "compared", "agents", "drift", "changes", "left_out"),
        *("noise", "header", "latency_ns"),
    }
    assert value["left"].keys() == {
        *("tape", "tape_id", "state", "events", "fidelity", "exact_digest", "behavior_digest")
    }
    first = value["first_divergence"]
    assert first.keys() == {
        *("agent", "seq_l", "seq_r", "kind", "drift", "changed", "places", "more_places"),
        *("suspects_l", "suspects_r", "context"),
    }
    assert first["places"] == [
        {
            "side": "in",
            "pointer": "/amount",
            "left": 1,
            "right": 2,
            "has_left": True,
            "has_right": True,
        }
    ]
    assert first["context"][0].keys() == {"seq_l", "seq_r", "kind", "left", "right"}
    assert value["changes"][1] == {
        "agent": "a",
        "seq_l": 1,
        "seq_r": 1,
        "kind": "input_changed",
        "consequence": True,
        "noise": False,
    }
    assert value["left_out"] == 4 and value["drift"] == {"ARGS": 1}
    assert value["agents"][1].keys() == {"agent", "common", "left", "right", "first_divergence"}


@pytest.mark.requirement("DIF-01")
def test_text_names_the_place_and_both_values(tapes):
    text = run(*tapes, "--limit", 2).stdout
    assert "agent a: 0 events in common, then input_changed (ARGS) at seq 0 and 0" in text
    assert "/amount: 1 and 2" in text and "… 4 more changes; see --limit" in text
    assert "are identical in conduct" in run(tapes[0], tapes[0]).stdout


@pytest.mark.requirement("DIF-01")
def test_html_is_one_page_in_which_nothing_of_a_tape_is_markup(evil):
    text = run(*evil, "--output", "html").stdout
    assert text.startswith("<!doctype html>") and text.count("<script") == 2
    assert "\x1b" not in text and "url(" not in text
    data = json.loads(text.partition('id="data">')[2].partition("</script>")[0])
    assert [len(one["events"]) for one in data["tapes"]] == [7, 7]
    assert len(data["beside"]["agents"]) == 2


@pytest.mark.requirement("DIF-01")
@pytest.mark.parametrize(("form", "start"), [("junit", "<?xml"), ("sarif", "{")])
def test_it_is_told_in_the_forms_that_ci_systems_read(tapes, form, start):
    text = run(*tapes, "--output", form).stdout
    assert text.startswith(start) and "input_changed" in text


@pytest.mark.requirement("DIF-01")
def test_markdown_and_text_hold_no_markup_and_no_control_of_a_tape(evil):
    text = run(*evil, "--output", "markdown").stdout
    assert not re.search(r"<|\x1b|\[x\]|`|://|www\.", text)
    table = [line for line in text.splitlines() if line.startswith("|")]
    assert len(table) == 8 and all(line.count("|") == 6 for line in table)
    assert "\x1b" not in run(*evil).stdout


@pytest.mark.requirement("DIF-01")
def test_on_a_terminal_both_stand_side_by_side_and_elsewhere_not(evil):
    assert "┃" not in run(*evil).stdout
    main, end = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "sidecar", "tape", "diff", *map(str, evil)],
        stdout=end,
        stderr=subprocess.PIPE,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "160"},
    )
    os.close(end)
    said = b""
    try:
        while piece := os.read(main, 65536):
            said += piece
    except OSError:  # the other end is closed
        pass
    os.close(main)
    with process:
        errors = process.stderr.read()
    assert process.returncode == 1 and errors == b""
    assert "┃".encode() in said and b"e.tape" in said and b"\x1b[2J" not in said
