"""``sidecar tape assert``: YAML with the line of each fault, what is told, and exit codes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from sidecar.cli.tape import command
from sidecar.errors import SidecarError
from sidecar.evaluate.assertions.files import read_assertions
from sidecar.evaluate.assertions.parse import assertions_of
from sidecar.evaluate.assertions.specs import SPECS
from sidecar.gate.report.model import Report
from sidecar.tape.compose import Fact
from sidecar.tape.files import TapeWriter
from sidecar.tape.model import Header

pytestmark = pytest.mark.requirement("ASR-01")

REPORT = {field.name for field in msgspec.structs.fields(Report)}
WHOLE = """
assertions:
  - {id: no-loop, spec: max_repeats, args: {max: 3, tool: shell}}
  - {spec: never_calls, args: {tools: [drop], arguments: {table: users}, status: executed}}
  - {spec: terminates_within, args: {events: 9}}
  - {spec: budget_within, args: {tokens: 100, seconds: 5, tool_calls: 3}}
  - {spec: call_order, args: {tools: [a, b]}}
  - {spec: output_schema, args: {schema: {type: string}}}
  - {spec: state_invariant, args: {that: "state.n > 0", start: {n: 1}}}
  - {spec: requires_before, args: {tool: pay, approval: true}}
  - spec: severity
    args:
      level: warning
      that: {spec: quarantine, args: {until: 2026-07-01T00:00:00Z, owner: me,
        that: {spec: claim_verified}}}
  - spec: all_of
    args:
      of:
        - {spec: not_, args: {that: {spec: never, args: {event: {kind: error}}}}}
        - spec: any_of
          args: {of: [{spec: eventually, args: {event: {name: x, arguments: {n: 1}}}}]}
  - spec: implies
    args:
      when: {spec: until, args: {hold: {agent: a}, event: {status: ok}}}
      then: {spec: per_agent, args: {that: {spec: max_repeats, args: {max: 1}}}}
  - spec: within
    args: {from_seq: 1, to_seq: 5, after: {seam: tool}, that: {spec: max_repeats, args: {max: 1}}}
"""
LOOP = """assertions:
  - {id: no-loop, spec: max_repeats, args: {max: 3}}
  - {id: honest, spec: claim_verified}
"""


def written(path, *names, seal=True, output=None):
    with TapeWriter(path, Header(tape_id="t-1", source="proxy")) as writer:
        for name in names:
            writer.event(Fact(kind="tool_call", seam="tool", agent="a", name=name, input={}))
        if seal:
            writer.event(Fact(kind="terminal", output=output or {}, status="ok"))
            writer.seal()
    return path


def run(tmp_path, text, *arguments):
    (tmp_path / "a.yaml").write_text(text)
    more = ["--assertions", str(tmp_path / "a.yaml")]
    return CliRunner().invoke(
        command, ["assert", *map(str, arguments), *more], standalone_mode=False
    )


def test_a_file_is_utf_8_whatever_the_machine_says_and_has_an_end(tmp_path):
    tape = written(tmp_path / "run.tape", "shell")
    (tmp_path / "a.yaml").write_text(f"# größer als nötig\n{LOOP}", "utf-8")
    ascii_only = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    words = ["tape", "assert", str(tape), "--assertions", str(tmp_path / "a.yaml")]
    ended = subprocess.run(
        [sys.executable, "-P", "-m", "sidecar", *words],
        env={**os.environ, **ascii_only},
        capture_output=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    with pytest.raises(SidecarError, match="larger than 64 MiB"):
        read_assertions(Path("/dev/zero"))


def test_every_spec_can_be_written_in_yaml():
    named = assertions_of(WHOLE, name="a.yaml")
    assert [one.id for one in named][:2] == ["no-loop", "never_calls-2"]
    assert len(named) == 12
    assert all(f"spec: {spec}" in WHOLE for spec in SPECS)


def test_every_fault_is_told_with_its_line():
    text = """assertions:
  - {spec: max_repeats, args: {max: three}}
  - {spec: max_repeat, args: {max: 3}}
  - {spec: never_calls, args: {tool: x}}
  - spec: all_of
    args:
      of:
        - spec: eventually
          args:
            event: {kind: noise}
  - {spec: claim_verified, arg: {}}
  - {args: {}}
  - {id: x, spec: claim_verified}
  - {id: x, spec: claim_verified}
"""
    with pytest.raises(SidecarError) as caught:
        assertions_of(text, name="a.yaml")
    told = caught.value.what.splitlines()
    wanted = [
        (2, "assertions.0.args.max must be a whole number"),
        (3, "'max_repeat' is unknown; known: max_repeats"),
        (4, "assertions.2.args.tool is unknown; known: tools"),
        (4, "assertions.2.args.tools is missing"),
        (10, "assertions.3.args.of.0.args.event.kind must be one of decision, error"),
        (11, "assertions.4.arg is unknown"),
        (12, "assertions.5.spec is missing"),
        (14, "assertions.7.id 'x' stands twice"),
    ]
    assert told[0] == f"a.yaml has {len(wanted)} problems:"
    for line, (number, words) in zip(told[1:], wanted, strict=True):
        assert line.strip().startswith(f"a.yaml:{number}: ") and words in line


def test_values_that_no_tape_could_meet_are_told_with_their_line():
    text = """assertions:
  - spec: any_of
    args:
      of:
        - {spec: max_repeats, args: {max: 1}}
        - spec: max_repeats
          args:
            max: -1
  - spec: output_schema
    args:
      schema: {type: nothing}
"""
    with pytest.raises(SidecarError) as caught:
        assertions_of(text, name="a.yaml")
    first, second = caught.value.what.splitlines()[1:]
    assert "a.yaml:8: assertions.0.args.of.1.args.max must not be negative" in first
    assert "a.yaml:11: assertions.1.args.schema is no JSON Schema" in second


@pytest.mark.parametrize(
    "text",
    ["", "assertions: []", "assertions: x", "- x", "assertions: [x]", "assertions: [{spec: [x]}]",
     "other: 1\nassertions: [{spec: claim_verified}]",
     "assertions: [{spec: not_, args: {that: 1}}]",
     "assertions: [{spec: all_of, args: {of: {}}}]", "assertions: [{spec: all_of, args: 3}]",
     "assertions: [{spec: all_of, args: {of: []}}]", "assertions: [{id: 3, spec: claim_verified}]",
     "assertions: [" + "{spec: not_, args: {that: " * 30 + "1" + "}}" * 30 + "]"],
)  # fmt: skip
def test_what_is_no_list_of_assertions_is_refused(text):
    with pytest.raises(SidecarError, match=r"a\.yaml"):
        assertions_of(text, name="a.yaml")


def test_it_exits_by_what_the_assertions_come_to(tmp_path):
    good = written(tmp_path / "good.tape", "x")
    bad = written(tmp_path / "bad.tape", *"xxxxx")
    partial = written(tmp_path / "partial.tape", "x", seal=False)
    none = tmp_path / "none.tape"
    none.write_text("nothing\n")
    codes = [
        run(tmp_path, LOOP, *arguments).return_value
        for arguments in (
            [good],
            [good, "--strict"],
            [bad],
            [good, bad],
            [partial],
            [bad, partial],
            [none],
            [partial, none],
        )
    ]
    assert codes == [0, 1, 1, 1, 2, 2, 3, 3]
    with pytest.raises(SidecarError) as caught:
        raise run(tmp_path, "assertions: []", good).exception
    assert caught.value.code == 3
    assert run(tmp_path, LOOP.splitlines()[2].join(["assertions:\n", "\n"]), good).return_value == 2


def test_json_has_fixed_keys_and_the_first_offending_event(tmp_path):
    bad = written(tmp_path / "bad.tape", *"xxxxx")
    value = json.loads(run(tmp_path, LOOP, bad, "--output", "json").output)
    assert value.keys() - REPORT == {"strict", "tapes"} and value.keys() > REPORT
    assert (value["outcome"], value["profile"], value["exit_code"]) == ("fail", "ci", 1)
    (tape,) = value["tapes"]
    loop, honest = tape["assertions"]
    assert loop == {
        "id": "no-loop",
        "spec": "max_repeats",
        "status": "fail",
        "seq": 3,
        "code": "",
        "detail": "x is called 5 times, at most 3 expected",
        "evidence": [3],
        "severity": "error",
        "quarantined": False,
        "owner": "",
        "until": "",
        "determinism": "D",
        "version": "1",
    }
    assert (honest["status"], honest["code"], honest["seq"]) == ("skip", "claim", None)


def test_text_breaks_no_line_and_lets_no_escape_through(tmp_path):
    bad = written(tmp_path / "bad.tape", *["x\x1b[2J\nFAKE"] * 5)
    told = run(tmp_path, LOOP, bad).output
    assert "\x1b" not in told and len(told.splitlines()) == 3
    assert told.splitlines()[1].startswith("  FAIL  no-loop  at 3  ")
