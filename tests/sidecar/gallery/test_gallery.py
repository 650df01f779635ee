"""The gallery: six pairs that run with no set-up, each with the behaviour the design fixes."""

import json
import resource
import sys
from importlib import resources

import pytest

from sidecar import __main__ as entry
from sidecar.cli import gallery_run
from sidecar.evaluate.assertions.specs import SPEC_OF
from sidecar.gallery import make
from sidecar.gallery.files import tape_files
from sidecar.gallery.pairs import PAIRS
from sidecar.outcome import PROFILES, Exits, Outcome
from sidecar.tape.files import examine, read_tape
from sidecar.tape.redaction import Redactor

pytestmark = pytest.mark.requirement("GAL-01")
TAPES = resources.files("sidecar.gallery") / "tapes"


def ends(monkeypatch, capsys, *words):
    line = ["sidecar", "gallery", *map(str, words)]
    monkeypatch.setattr(sys, "argv", line)
    code = entry._run(entry.exits_of(line[1:]))
    return int(code), capsys.readouterr().out


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """All pairs, run once; and the pages."""
    folder = tmp_path_factory.mktemp("pages")
    with pytest.MonkeyPatch.context() as patched, pytest.MonkeyPatch.context() as out:
        said = []
        out.setattr("click.echo", lambda text, err=False: None if err else said.append(text))
        patched.setattr(sys, "argv", ["sidecar"])
        line = ["gallery", "run", "--output", "json", "--html", str(folder)]
        patched.setattr(sys, "argv", ["sidecar", *line])
        assert entry._run(Exits()) == 0
    return json.loads(said[0]), folder


def sides(told, name):
    (pair,) = (one for one in told["pairs"] if one["name"] == name)
    return {one["side"]: one for one in pair["sides"]}


def test_each_pair_is_as_described_and_the_families_are_told_apart(told):
    value, _ = told
    assert (value["outcome"], value["exit_code"], len(value["pairs"])) == ("as_described", 0, 6)
    for pair in value["pairs"]:
        assert pair["as_described"], pair
        before, after = pair["sides"][:2]
        assert (before["exit_code"], after["exit_code"]) == (1, 0)
        asked = {one["spec"] for one in before["assertions"]}
        assert asked == set(pair["family"]) <= set(SPEC_OF.values())
        # Every assertion tells the two apart: it fails before and holds after.
        assert {one["status"] for one in before["assertions"]} == {"fail"}
        assert {one["status"] for one in after["assertions"]} == {"pass"}
    families = [spec for pair in value["pairs"] for spec in pair["family"]]
    assert len(families) == len(set(families)) == 9  # every kind of assertion, each in one pair


def test_the_deathloop_is_that_of_the_design(told):
    found = sides(told[0], "deathloop")
    before = found["before"]
    said = {one["id"]: (one["seq"], one["detail"]) for one in before["assertions"]}
    assert before["first_offence"] == 12
    assert said["no-loop"] == (12, "shell is called 6 times, at most 3 expected")
    assert said["budget"][1] == "tool_calls come to 13, at most 8 expected"
    for side in ("after", "counterfactual"):
        assert found[side]["exit_code"] == 0
        assert found[side]["first_divergence"] == {"seq_l": 3, "seq_r": 3}


def test_late_and_early_stop_where_the_design_says(told):
    found = sides(told[0], "late_stop")
    ends_at = {side: one["events"] - 1 for side, one in found.items()}
    assert ends_at == {"before": 9, "after": 3}
    assert found["before"]["assertions"][0]["spec"] == "terminates_within"


def test_one_side_exits_as_its_assertions_do(monkeypatch, capsys):
    for profile in PROFILES:
        for side, outcome in (("before", Outcome.FAILED), ("after", Outcome.OK)):
            words = ("run", "late_stop", "--side", side, "--profile", profile, "--output", "json")
            code, out = ends(monkeypatch, capsys, *words)
            value = json.loads(out)
            assert code == value["exit_code"] == Exits(profile=profile).code(outcome)
            assert value["profile"] == profile
    assert ends(monkeypatch, capsys, "run", "late_stop", "--side", "counterfactual")[0] == 3
    assert ends(monkeypatch, capsys, "run", "nonsense")[0] == 3


def test_it_is_listed_and_told_as_text(monkeypatch, capsys):
    code, out = ends(monkeypatch, capsys, "list")
    assert code == 0 and [line.split()[0] for line in out.splitlines()] == [
        pair.name for pair in PAIRS
    ]
    code, out = ends(monkeypatch, capsys, "run", "forbidden_call")
    assert code == 0 and out.splitlines()[:2] == [
        "forbidden_call: as described",
        "  before          fail  first offence at 4",
    ]
    code, out = ends(monkeypatch, capsys, "run", "forbidden_call", "--side", "before")
    assert (code, out.count("\n  before"), out.count("\n  after")) == (1, 1, 0)


def test_there_is_a_page_of_each_pair_with_both_runs_in_it(told):
    _, folder = told
    assert {one.stem for one in folder.iterdir()} == {pair.name for pair in PAIRS}
    for pair in PAIRS:
        page = (folder / f"{pair.name}.html").read_text()
        block = page.split('id="data">')[1].split("</script>")[0]
        data = json.loads(block)
        assert len(data["tapes"]) == 2 + pair.changed and data["beside"] is not None
        assert data["report"]["title"] == pair.title
        names = [run["name"] for run in data["report"]["runs"]]
        assert names[:2] == [f"{pair.name}/before", f"{pair.name}/after"]
        assert "/tmp" not in json.dumps(data["report"])


def test_a_page_of_what_cannot_be_decided_says_so(monkeypatch, capsys, tmp_path):
    def cut(pair, folder):
        tape_files(pair, folder)
        partial = (folder / "after.tape").read_bytes().rsplit(b"\n", 3)[0] + b"\n"
        (folder / "after.tape").write_bytes(partial)  # without its end and seal

    monkeypatch.setattr(gallery_run, "tape_files", cut)
    page = tmp_path / "page.html"
    code, _ = ends(monkeypatch, capsys, "run", "late_stop", "--html", page)
    assert code == 1  # not as the gallery says
    report = json.loads(page.read_text().split('id="data">')[1].split("</script>")[0])["report"]
    assert (report["outcome"], report["exit_code"]) == ("undecided", 2)


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_the_bundled_tapes_hold_and_have_nobodys_data(pair):
    for side in make.SIDES:
        with resources.as_file(TAPES / pair.name / f"{side}.tape") as path:
            assert examine(path).holds
            tape = read_tape(path)
            text = path.read_bytes()
        assert tape.header.argv == (f"py:{pair.name}:{side}",) and tape.header.git is None
        assert b"/tmp" not in text and b"/home" not in text and b"python" not in text
        for event in tape.events:
            assert Redactor().value(event.inl) == event.inl


@pytest.mark.full
def test_the_agents_recorded_anew_make_the_same_tapes(tmp_path):
    make.main(tmp_path)
    for pair in PAIRS:
        for side in make.SIDES:
            with resources.as_file(TAPES / pair.name / f"{side}.tape") as path:
                bundled = examine(path)
            made = examine(tmp_path / pair.name / f"{side}.tape")
            assert made.computed.exact_digest == bundled.computed.exact_digest, (
                "make them anew: python -m sidecar.gallery.make"
            )


@pytest.mark.full
def test_every_run_that_goes_wrong_is_replayed_strictly_from_its_tape(tmp_path):
    from agent_rig import AgentFolder

    from sidecar.gallery.files import agent_file

    for pair in PAIRS:
        folder = tmp_path / pair.name
        folder.mkdir()
        agent_file(pair, folder)
        tape_files(pair, folder)
        agent = AgentFolder(folder)
        for side in make.SIDES:
            words = ("tape", "replay", f"{side}.tape", "--agent", f"py:{pair.name}:{side}")
            assert agent.sidecar(*words).code == 0, (pair.name, side)
        # The repaired agent against the run that went wrong: a drift, or another end. But what was
        # decided comes from the tape, and the loop's repair is nothing else.
        words = ("tape", "replay", "before.tape", "--agent", f"py:{pair.name}:after")
        assert agent.sidecar(*words).code == (0 if pair.name == "deathloop" else 2), pair.name


def test_a_page_that_a_full_disk_cut_is_not_left(monkeypatch, capsys, tmp_path):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, before[1]))  # the tapes fit, no page does
    try:
        code, _ = ends(monkeypatch, capsys, "run", "deathloop", "--html", tmp_path / "page.html")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert code == 3 and list(tmp_path.iterdir()) == []
