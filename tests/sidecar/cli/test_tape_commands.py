"""``sidecar tape``: what it prints and how it exits."""

import json
import subprocess
import sys

import pytest
from click.testing import CliRunner

from sidecar.cli.tape import command
from sidecar.errors import SidecarError
from sidecar.tape.compose import Fact
from sidecar.tape.files import TapeWriter, examine
from sidecar.tape.model import Header

RUN = [
    Fact(kind="tool_call", seam="tool", agent="a", name="refund\x1b[2J", input={"order": "A-1"}),
    Fact(kind="tool_result", seam="tool", agent="a", name="refund", output="x" * 5000, cause=(0,)),
    Fact(kind="terminal", output={"status": "ok"}, status="ok"),
]


@pytest.fixture
def tape(tmp_path):
    with TapeWriter(tmp_path / "a.tape", Header(tape_id="t-1")) as writer:
        for fact in RUN:
            writer.event(fact)
        writer.seal()
    return tmp_path / "a.tape"


def run(*arguments):
    return CliRunner().invoke(command, list(map(str, arguments)), standalone_mode=False)


def partial(tape):
    path = tape.with_name("partial.tape")
    path.write_bytes(tape.read_bytes()[:-40])
    return path


def changed(tape):
    path = tape.with_name("changed.tape")
    path.write_bytes(tape.read_bytes().replace(b"A-1", b"A-2"))
    return path


def later(tape):
    path = tape.with_name("later.tape")
    path.write_bytes(tape.read_bytes().replace(b"tape/1.0.0", b"tape/2.0.0"))
    return path


def none(tape):
    path = tape.with_name("none.tape")
    path.write_text("hello\n")
    return path


@pytest.mark.requirement("TAP-01")
def test_one_event_is_told_with_each_payload_once(tape):
    told = run("show", tape, "--event", 0).stdout
    assert told.count("A-1") == 1 and json.loads(told)["in_payload"] == {"order": "A-1"}
    whole = json.loads(run("show", tape, "--event", 0, "--output", "json").stdout)
    assert whole["inl"] == {"in": {"order": "A-1"}}


@pytest.mark.requirement("TAP-01")
@pytest.mark.parametrize(
    ("make", "code", "said"),
    [
        (lambda tape: tape, 0, "holds: 3 events"),
        (changed, 1, "does not hold (3 events)"),
        (partial, 2, "is partial: 3 events, no seal; it is no evidence"),
        (later, 2, "tape/2"),
        (none, 3, "is unreadable"),
        (lambda tape: tape.with_name("absent"), 3, "cannot be read"),
    ],
)
def test_verify_exits_by_what_it_found(tape, make, code, said):
    found = run("verify", make(tape))
    assert found.return_value == code
    assert said in found.stdout
    as_json = json.loads(run("verify", make(tape), "--output", "json").stdout)
    assert as_json["exit_code"] == code and len(as_json["tapes"]) == 1


def test_verify_of_several_exits_with_the_greatest(tape):
    assert run("verify", tape, changed(tape)).return_value == 1
    assert run("verify", tape, changed(tape), partial(tape)).return_value == 2
    assert run("verify", none(tape), changed(tape), partial(tape)).return_value == 3


def test_show_tells_a_tape_and_its_events(tape):
    text = run("show", tape).stdout
    assert "tape t-1  sealed  3 events  fidelity L0  from sdk" in text
    assert "\x1b" not in text and "refund\\x1b[2J" in text and "after 0" in text
    value = json.loads(run("show", tape, "--output", "json").stdout)
    assert value.keys() == {
        *("tape", "state", "holds", "cut", "events", "fidelity", "exact_digest"),
        *("behavior_digest", "blobs", "faults", "more_faults", "unchecked", "expired"),
        *("header", "seal"),
        *("shown", "left_out", "outcome", "profile", "exit_code"),
    }
    assert value["holds"] and len(value["shown"]) == 3
    lines = run("show", tape, "--output", "jsonl", "--kind", "terminal").stdout.splitlines()
    assert [json.loads(line)["kind"] for line in lines] == ["terminal"]


def test_show_leaves_out_and_says_so_and_shows_what_there_is_of_a_partial_tape(tape):
    value = json.loads(run("show", tape, "--limit", 1, "--from", 1, "--output", "json").stdout)
    assert [one["seq"] for one in value["shown"]] == [1] and value["left_out"] == 1
    assert "… 1 more" in run("show", tape, "--limit", 1, "--from", 1).stdout
    text = run("show", partial(tape)).stdout
    assert "partial (cut off inside a line)" in text


def test_a_tape_that_has_expired_holds_and_says_so(tmp_path):
    for name, until in (("old", "2001-01-01T00:00:00Z"), ("new", "2999-01-01T00:00:00Z")):
        path = tmp_path / f"{name}.tape"
        with TapeWriter(path, Header(tape_id="t", expires_at=until)) as writer:
            writer.event(RUN[-1])
            writer.seal()
        found = run("verify", path)
        assert found.return_value == 0
        assert ("it has expired" in found.stdout) == (name == "old")


def test_show_one_event_with_its_payloads(tape):
    value = json.loads(run("show", tape, "--event", 1).stdout)
    assert value["out_payload"] == "x" * 5000
    with pytest.raises(SidecarError, match="no event 9"):
        CliRunner().invoke(
            command,
            ["show", str(tape), "--event", "9"],
            standalone_mode=False,
            catch_exceptions=False,
        )


def test_migrate_packages_anew_and_changes_no_digest(tape, tmp_path):
    to = tmp_path / "shared" / "b.tape"
    to.parent.mkdir()
    found = run("migrate", tape, "--to", to, "--packaging", "store")
    assert "nothing but its packaging changed" in found.stdout
    assert examine(to).seal == examine(tape).seal
    assert (to.parent / "blobs").is_dir()
    anew = tmp_path / "c.tape"
    bumped = tmp_path / "bumped.tape"
    bumped.write_bytes(partial(tape).read_bytes().replace(b"tape/1.0.0", b"tape/1.2.0"))
    value = json.loads(run("migrate", bumped, "--to", anew, "--output", "json").stdout)
    assert value["changed"] == ["schema tape/1.2.0"]
    assert value["header"]["derived_from"]["tape_id"] == "t-1"
    refused = run("migrate", changed(tape), "--to", tmp_path / "d.tape")
    assert isinstance(refused.exception, SidecarError) and refused.exception.code == 2
    assert not (tmp_path / "d.tape").exists()


TAU = {
    "task_id": 1,
    "trial": 0,
    "reward": 1,
    "messages": [
        {"role": "user", "content": "mail ada@example.com"},
        {"role": "assistant", "content": "done"},
    ],
}
VCR = """
interactions:
- request: {method: GET, uri: "http://x.example/a?token=sekretsekret", body: null, headers: {}}
  response: {status: {code: 200, message: OK}, headers: {}, body: {string: "ada@example.com"}}
version: 1
"""


@pytest.mark.requirement("TAP-03")
@pytest.mark.parametrize("capture", ["off", "redacted", "full"])
@pytest.mark.parametrize(
    ("form", "text", "events"), [("tau", json.dumps([TAU]), 3), ("vcr", VCR, 3)]
)
def test_import_writes_tapes_that_hold_redacted_as_said(tmp_path, form, text, events, capture):
    (tmp_path / "run.x").write_text(text)
    to = tmp_path / "tapes"
    found = run(
        *("import", tmp_path / "run.x", "--format", form, "--to", to),
        *("--capture", capture, "--output", "json"),
    )
    assert found.return_value == 0, found.output
    (told,) = json.loads(found.stdout)["tapes"]
    assert (told["events"], told["holds"]) == (events, True)
    assert told["fidelity"] == ("L1" if capture == "off" else "L2")
    (made,) = to.glob("*.tape")
    text = made.read_text()
    assert ("ada@example.com" in text) == (capture == "full")
    assert ("sekretsekret" in text) == (capture == "full" and form == "vcr")
    if capture == "off":
        assert "[email" not in text


@pytest.mark.requirement("TAP-03")
def test_import_of_otlp_writes_a_tape_for_each_trace(tmp_path):
    span = {
        "traceId": "ab" * 16,
        "spanId": "cd" * 8,
        "name": "chat m",
        "startTimeUnixNano": "1700000000000000001",
        "endTimeUnixNano": "1700000000000000002",
        "droppedAttributesCount": 3,
        "attributes": [{"key": "gen_ai.operation.name", "value": {"stringValue": "chat"}}],
    }
    body = json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]})
    (tmp_path / "0001.traces.json").write_text(body)
    found = run(
        *("import", tmp_path / "0001.traces.json", "--format", "otlp", "--to", tmp_path / "t"),
        *("--output", "jsonl"),
    )
    (line,) = found.stdout.splitlines()
    header = json.loads(line)["header"]
    assert header["fidelity"] == "L0" if "fidelity" in header else True
    assert "dropped_attributes" in header["gaps"]
    assert (tmp_path / "t" / f"{'ab' * 16}.tape").exists()


def test_one_bad_import_does_not_stop_the_others(tmp_path):
    (tmp_path / "good.yaml").write_text(VCR)
    (tmp_path / "bad.yaml").write_text("interactions: 3")
    found = run(
        *("import", tmp_path / "bad.yaml", tmp_path / "none", tmp_path / "good.yaml"),
        *("--format", "vcr", "--to", tmp_path / "t"),
    )
    assert found.return_value == 1
    assert "good.tape  L2  3 events" in found.stdout
    assert "cannot be imported as vcr" in found.stderr and "cannot be read" in found.stderr
    assert "Traceback" not in found.output


def test_two_runs_of_one_name_are_numbered_and_nothing_is_overwritten(tmp_path):
    (tmp_path / "one").mkdir()
    (tmp_path / "a.yaml").write_text(VCR)
    (tmp_path / "one" / "a.yaml").write_text(VCR)
    paths = (tmp_path / "a.yaml", tmp_path / "one" / "a.yaml")
    into = ("--format", "vcr", "--to", tmp_path / "t")
    assert run("import", *paths, *into).return_value == 0
    assert sorted(path.name for path in (tmp_path / "t").iterdir()) == ["a-2.tape", "a.tape"]
    before = (tmp_path / "t" / "a.tape").read_bytes()
    again = run("import", *paths, *into)
    assert again.return_value == 1 and "there is a file already" in again.stderr
    assert (tmp_path / "t" / "a.tape").read_bytes() == before
    (tmp_path / "file").write_text("")
    refused = run("import", *paths, "--format", "vcr", "--to", tmp_path / "file" / "t")
    assert isinstance(refused.exception, SidecarError)


def test_the_same_input_gives_the_same_tape(tmp_path):
    (tmp_path / "a.yaml").write_text(VCR)
    for name in ("x", "y"):
        run("import", tmp_path / "a.yaml", "--format", "vcr", "--to", tmp_path / name)
    assert (tmp_path / "x" / "a.tape").read_bytes() == (tmp_path / "y" / "a.tape").read_bytes()


LIGHT = """
import sys
from click.testing import CliRunner
from sidecar.cli.tape import command
assert CliRunner().invoke(command, ["verify", sys.argv[1]]).exit_code == 0
heavy = {"aiohttp", "grpc", "cel", "joserfc", "asyncpg", "google", "yaml", "re2", "processors"}
print(sorted({name.split(".")[0] for name in sys.modules} & heavy))
"""


def test_looking_at_a_tape_loads_little(tape):
    done = subprocess.run(
        [sys.executable, "-c", LIGHT, tape], capture_output=True, text=True, timeout=60
    )
    assert done.stdout.strip() == "[]", done.stderr
