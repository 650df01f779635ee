"""``--output`` of the commands that report: every form, of what the command found."""

import json
from xml.etree import ElementTree

import jsonschema_rs
import pytest
from click.testing import CliRunner
from test_terminal import verdict_of_an_enemy

from sidecar.cli.gate import shown
from sidecar.cli.tape import command
from sidecar.gate.report.schema import document
from sidecar.tape.compose import Fact
from sidecar.tape.files import TapeWriter
from sidecar.tape.model import Header

pytestmark = pytest.mark.requirement("RPT-01")

ASKED = """assertions:
  - {id: no-loop, spec: max_repeats, args: {max: 2}}
  - {id: honest, spec: claim_verified}
"""


@pytest.fixture
def looping(tmp_path):
    path = tmp_path / "looping.tape"
    with TapeWriter(path, Header(tape_id="t")) as writer:
        for _ in range(4):
            writer.event(Fact(kind="tool_call", seam="tool", agent="a", name="shell", input={}))
        writer.event(Fact(kind="terminal", output={}, status="ok"))
        writer.seal()
    (tmp_path / "a.yaml").write_text(ASKED)
    return path


def run(*arguments):
    return CliRunner().invoke(command, [*map(str, arguments)], standalone_mode=False)


def data_of(page):
    return json.loads(page.partition('id="data">')[2].partition("</script>")[0])


def test_assertions_are_told_in_every_form(looping, tmp_path):
    asked = ("assert", looping, "--assertions", tmp_path / "a.yaml", "--output")
    markdown = run(*asked, "markdown")
    assert markdown.return_value == 1 and "| FAIL | no-loop |" in markdown.stdout
    suite = ElementTree.fromstring(run(*asked, "junit").stdout)
    assert [[below.tag for below in one] for one in suite.iter("testcase")] == [
        ["failure"],
        ["skipped"],
    ]
    (result,) = json.loads(run(*asked, "sarif").stdout)["runs"][0]["results"]
    assert (result["ruleId"], result["properties"]["seq"]) == ("max_repeats", 2)
    page = data_of(run(*asked, "html").stdout)
    assert page["report"]["cases"][0]["seq"] == 2 and len(page["tapes"][0]["events"]) == 5


def test_a_tape_that_is_none_is_a_case_of_its_own(looping, tmp_path):
    (tmp_path / "no.tape").write_text("x")
    asked = ("assert", looping, tmp_path / "no.tape", "--assertions", tmp_path / "a.yaml")
    told = run(*asked, "--output", "html")
    page = data_of(told.stdout)
    assert told.return_value == 3 and page["tapes"][1] is None
    assert page["report"]["cases"][2]["code"] == "unreadable"


def test_one_tape_is_shown_as_a_page_with_what_does_not_hold(looping):
    page = data_of(run("show", looping, "--output", "html").stdout)
    assert page["report"]["command"] == "tape show" and page["report"]["cases"] == []
    looping.write_text(looping.read_text().replace('"name":"shell"', '"name":"spell"', 1))
    cases = data_of(run("show", looping, "--output", "html").stdout)["report"]["cases"]
    assert {case["status"] for case in cases} == {"error"}
    assert {"tape/chain", "tape/exact_digest"} <= {case["rule"] for case in cases}


def test_a_name_that_is_no_utf8_is_told_in_every_form(looping, tmp_path):
    odd = tmp_path / "a\udc80.tape"
    looping.rename(odd)
    for form in ("json", "markdown", "junit", "sarif", "html"):
        found = run("assert", odd, "--assertions", tmp_path / "a.yaml", "--output", form)
        assert (
            found.return_value == 1 and "udc80" in found.stdout.lower()
        ) or "%80" in found.stdout


@pytest.mark.parametrize(
    ("form", "holds"),
    [("junit", "<testsuite "), ("sarif", '"ruleId": "regressed"'), ("html", "<!doctype html>")],
)
def test_a_verdict_is_told_in_the_same_forms(form, holds):
    text = shown(verdict_of_an_enemy(), form)
    assert holds in text and "\x1b" not in text


def test_what_a_command_prints_is_a_report_by_the_published_schema(looping, tmp_path):
    validator = jsonschema_rs.validator_for(document())
    asked = ("assert", looping, "--assertions", tmp_path / "a.yaml")
    for arguments in (asked, ("diff", looping, looping)):
        value = json.loads(run(*arguments, "--output", "json").stdout)
        assert [error.message for error in validator.iter_errors(value)] == []


def test_a_page_shows_nothing_from_outside_of_the_store(looping, tmp_path):
    store = tmp_path / "stored" / "a.tape"
    store.parent.mkdir()
    with TapeWriter(store, Header(tape_id="t"), packaging="store") as writer:
        writer.event(
            Fact(kind="tool_call", seam="tool", agent="a", name="x", input={"n": "y" * 3000})
        )
        writer.event(Fact(kind="terminal", output={}, status="ok"))
        writer.seal()
    blobs = [path for path in store.parent.rglob("*") if path.is_file() and path != store]
    (blob,) = [path for path in blobs if b"yyyy" in path.read_bytes()]
    (tmp_path / "secret").write_text("root:x:0:0")
    blob.unlink()
    blob.symlink_to(tmp_path / "secret")
    found = run("show", store, "--output", "html")
    assert found.exception is None and "root:x" not in found.stdout
    page = data_of(found.stdout)
    assert page["tapes"][0]["events"][0]["in"].startswith("sha256:")
    assert page["tapes"][0]["faults"]
    told = run("show", store, "--event", 0)
    assert told.exception is None and "in_payload" not in json.loads(told.stdout)
    diff = run("diff", store, looping)
    assert diff.exception is None and diff.return_value == 2


@pytest.mark.full
def test_a_page_of_a_bomb_is_bounded(tmp_path):
    path = tmp_path / "bomb.tape"
    with TapeWriter(path, Header(tape_id="t")) as writer:
        for number in range(3):
            value = "0" * (30 * 1024 * 1024 + number)
            writer.event(Fact(kind="tool_call", seam="tool", agent="a", name="x", input=value))
        writer.event(Fact(kind="terminal", output={}, status="ok"))
        writer.seal()
    assert path.stat().st_size < 1024 * 1024
    page = run("show", path, "--output", "html").stdout
    assert len(page) < 2 * 1024 * 1024
    cut = [payload[2] for payload in data_of(page)["payloads"]]
    assert sum(cut) > 80 * 1024 * 1024
