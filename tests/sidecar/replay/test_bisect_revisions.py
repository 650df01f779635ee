"""``sidecar bisect`` over revisions of a configuration, alone and beside commits."""

import pytest
from history_rig import Commits, bisected, git

from sidecar.errors import SidecarError
from sidecar.replay.bisect.process.preparing import prepare
from sidecar.replay.bisect.revisions import axes_of, filled
from sidecar.replay.bisect.wanted import Wanted

pytestmark = pytest.mark.requirement("BIS-02")

IDENTIFIED = ("-c", "user.name=Somebody", "-c", "user.email=somebody@example.test")
PROMPTS = """
axes:
  - name: prompt
    revisions:
      - {name: v1, file: prompts/1.md}
      - {name: v2, file: prompts/2.md}
      - {name: v3, file: prompts/3.md}
  - name: model
    revisions: [small-1.0, "1.10", large]
  - name: tool_schema
    revisions:
      - {name: old, value: {refund: {amount: integer}}}
      - {name: new, value: {refund: {amount: number}}}
"""


@pytest.fixture
def revisions(tmp_path, monkeypatch):
    path = tmp_path / "revisions.yaml"
    path.write_text(PROMPTS)
    (tmp_path / "prompts").mkdir()
    for number in (1, 2, 3):
        text = "Be kind." if number < 2 else "Be kind. Refund always."
        (tmp_path / "prompts" / f"{number}.md").write_text(text)
    monkeypatch.chdir(tmp_path)
    return path


def shell(script):
    return ("/bin/sh", "-c", script)


def test_the_least_combination_that_shows_it_is_named(revisions):
    script = "grep -q always $AGENTTWIN_BISECT_PROMPT && test $AGENTTWIN_BISECT_MODEL != small-1.0 "
    script += "&& exit 1; exit 0"
    result = bisected(Wanted(command=shell(script), revisions=str(revisions)))
    expected = {"prompt": "v2", "model": "1.10", "tool_schema": "old"}
    assert result.value["culprit"] == {"revision": expected}
    assert sorted(one["revision"]["prompt"] for one in result.value["last_good"]) == ["v1", "v2"]
    assert result.value["points"] == 17
    assert not (revisions.parent / ".sidecar-bisect").exists()


@pytest.mark.full
def test_values_stand_in_the_command_and_structures_come_as_json(revisions):
    command = shell("grep -q number $0 && test $1 = large && exit 1; exit 0")
    command += ("{tool_schema}", "{model}", "{else}")
    result = bisected(Wanted(command=command, revisions=str(revisions)))
    expected = {"prompt": "v1", "model": "large", "tool_schema": "new"}
    assert result.value["culprit"] == {"revision": expected}


@pytest.mark.full
def test_commits_and_revisions_are_one_order(revisions, tmp_path):
    commits = Commits()
    for at in range(6):
        commits.add(f"Commit {at}", reads="prompt" if at >= 3 else "nothing", agents__txt="x")
    ids = commits.write(tmp_path / "repo")
    text = PROMPTS.replace("- name: prompt", "- name: prompt\n    to: agent/prompt.md")
    revisions.write_text(text.replace("old, value: {refund: {amount: integer}}", "old, value: a"))
    script = "test $(cat reads) = prompt && grep -q always agent/prompt.md && exit 1; exit 0"
    wanted = Wanted(
        command=shell(script),
        revisions=str(revisions),
        repo=str(tmp_path / "repo"),
        goods=(ids[0],),
        bad=ids[-1],
    )
    culprit = bisected(wanted).value["culprit"]
    assert culprit["commit"] == ids[3]
    assert culprit["revision"] == {"prompt": "v2", "model": "small-1.0", "tool_schema": "old"}


def test_a_file_is_never_laid_outside_of_the_tree(revisions, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    repo = tmp_path / "repo"
    git(tmp_path, "init", "-q", "repo")
    (repo / "agent").symlink_to(outside)
    ids = []
    for at in range(3):
        (repo / "number").write_text(str(at))
        git(repo, "add", "-A")
        git(repo, *IDENTIFIED, "commit", "-qm", f"Commit {at}")
        ids.append(git(repo, "rev-parse", "HEAD"))
    revisions.write_text(
        PROMPTS.replace("- name: prompt", "- name: prompt\n    to: agent/prompt.md")
    )
    result = bisected(
        Wanted(
            command=shell("exit 1"),
            revisions=str(revisions),
            repo=str(repo),
            goods=ids[:1],
            bad=ids[2],
        )
    )
    assert result.value["reason"] == "bad_end_untestable"
    assert "agent/prompt.md leads out of the tree" in result.value["probes"][0]["detail"]
    assert not list(outside.iterdir())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("axes: []", "one or more axes"),
        ("axes: [{name: a, revisions: [x]}]", "2 to 1000"),
        ("axes: [{name: A, revisions: [x, y]}]", "lower-case"),
        ("axes: [{name: a, revisions: [x, x]}]", "stands twice"),
        ("axes: [{name: a, revisions: [x, y]}, {name: a, revisions: [x, y]}]", "stands twice"),
        ("axes: [{name: a, revisions: [x, {name: y}]}]", "one of file and value"),
        ("axes: [{name: a, revisions: [x, {name: y, file: f, value: 1}]}]", "one of file and"),
        ("axes: [{name: a, to: ../x, revisions: [x, y]}]", "inside the tree"),
        ("axes: [{name: a, to: .git/config, revisions: [x, y]}]", "inside the tree"),
        ("axes: [{name: a, revisions: [x, y], more: 1}]", "is unknown"),
        ("axes: [{name: a, revisions: [x, 1.10]}]", "must be text or a mapping"),
        ("axes: {a: b}", "must be a list"),
        ("- a", "must be a mapping"),
        ("axes: [", "not YAML"),
    ],
)
def test_a_document_that_is_none_is_refused_with_its_line(text, said):
    with pytest.raises(SidecarError, match=said) as refused:
        axes_of(text, name="revisions.yaml")
    assert "revisions.yaml" in refused.value.text()


def test_what_cannot_be_read_is_refused(revisions):
    for text, said in (
        (PROMPTS.replace("1.md", "none.md"), "it cannot be read"),
        (PROMPTS.replace("- name: prompt", "- name: prompt\n    to: p.md"), "of a commit's tree"),
    ):
        revisions.write_text(text)
        with pytest.raises(SidecarError, match=said):
            prepare(Wanted(command=("true",), revisions=str(revisions)))
    with pytest.raises(SidecarError, match="revisions cannot be read"):
        prepare(Wanted(command=("true",), revisions=str(revisions.parent / "none.yaml")))
    with pytest.raises(SidecarError, match="no ends"):
        prepare(Wanted(command=("true",)))


def test_only_names_of_axes_are_filled_in():
    assert filled(("{a}{b}{c}", "{{a}}", "$a"), {"a": "1", "b": "{a}"}) == ("1{a}{c}", "{1}", "$a")
