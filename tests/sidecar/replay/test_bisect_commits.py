"""``sidecar bisect`` on real repositories: what it finds, what it leaves, what it refuses."""

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import pytest
from history_rig import CHECK, Commits, asked, bisected, command_line, git, line_of, worktrees

from sidecar.errors import SidecarError
from sidecar.replay.bisect.process.preparing import prepare

pytestmark = pytest.mark.requirement("BIS-01")


def found(result):
    value = result.value
    return value["culprit"] and value["culprit"]["commit"]


def merged():
    """A line with three merged branches; the culprit is on the second, a drift beside it."""
    commits = Commits()
    at = commits.add("Root", word="good", drift="0")
    for branch in range(3):
        base = at
        for number in range(2):
            at = commits.add(f"Main {branch}.{number}", at, note=f"{branch}{number}")
        side = base
        for number in range(3):
            words = {"word": "bad"} if (branch, number) == (1, 1) else {}
            side = commits.add(f"Side {branch}.{number}", side, **{f"side{branch}": "1"}, **words)
        files = {**commits.files[side], **commits.files[at]}
        files["word"] = "bad" if branch >= 1 else "good"
        at = commits.put(f"Merge {branch}", (at, side), files)
    return commits


def test_the_commit_on_a_merged_branch_is_found_as_git_finds_it(tmp_path):
    commits = merged()
    ids = commits.write(tmp_path)
    result = bisected(asked(tmp_path, ids[:1], ids[-1], all_parents=True))
    assert found(result) == ids[commits.subjects.index("Side 1.1")]
    assert result.value["culprit"]["subject"] == "Side 1.1"
    git(tmp_path, "bisect", "start", ids[-1], ids[0])
    said = git(tmp_path, "bisect", "run", *CHECK)
    assert f"{found(result)} is the first bad commit" in said
    assert git(tmp_path, "rev-parse", "refs/bisect/bad") == found(result)


@pytest.mark.full
def test_by_default_the_merge_is_named_that_brought_it(tmp_path):
    commits = merged()
    ids = commits.write(tmp_path)
    result = bisected(asked(tmp_path, ids[:1], ids[-1]))
    assert found(result) == ids[commits.subjects.index("Merge 1")]
    (last_good,) = result.value["last_good"]
    assert last_good["subject"] == "Main 1.1"


def test_untestable_commits_beside_the_culprit_are_told_as_suspects(tmp_path):
    ids = line_of(16, 9, broken=(8, 9, 10)).write(tmp_path)
    result = bisected(asked(tmp_path, ids[:1], ids[-1]))
    assert (result.conclusion.outcome, result.value["reason"]) == ("inconclusive", "untestable")
    assert {one["commit"] for one in result.value["suspects"]} == set(ids[8:12])
    assert {one["commit"] for one in result.value["skipped"]} == set(ids[8:11])


def test_nothing_is_left_and_nothing_of_the_users_is_touched(tmp_path):
    repo = tmp_path / "a repo\nof two lines"
    commits = line_of(8, 5)
    commits.add("Odd names", **{"a\nb ü": "1", "-rf": "2"})
    ids = commits.write(repo)
    git(repo, "checkout", "-q", "--detach", ids[3])
    (repo / "word").write_text("changed by me")
    (repo / "mine").write_text("of nobody else")
    for name in ("post-checkout", "reference-transaction", "post-index-change"):
        hook = repo / ".git" / "hooks" / name
        hook.write_text(f"#!/bin/sh\ntouch '{tmp_path}/ran'\n")
        hook.chmod(0o755)
    before = {path: path.read_bytes() for path in repo.iterdir() if path.is_file()}
    # A probe may do what it likes with its own tree.
    spoil = "mkdir -p d/e; touch d/e/f; chmod 0 d; echo x > number; rm -f .git; "
    command = ("/bin/sh", "-c", spoil + CHECK[2])
    wanted = asked(repo, ids[:1], ids[-1], command)
    assert prepare(wanted).dirty
    result = bisected(wanted)
    assert found(result) == ids[5]
    assert result.value["dirty"] is True
    assert {path: path.read_bytes() for path in repo.iterdir() if path.is_file()} == before
    assert git(repo, "rev-parse", "HEAD") == ids[3]
    assert worktrees(repo) == 1
    assert not (repo / ".git" / "sidecar-bisect").exists()
    assert not (tmp_path / "ran").exists()


@pytest.mark.full
def test_variables_of_a_surrounding_git_command_lead_nobody_astray(tmp_path, monkeypatch):
    ids = line_of(6, 3).write(tmp_path / "repo")
    line_of(2, 1).write(tmp_path / "other")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "other" / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "other" / ".git" / "index"))
    check = ("/bin/sh", "-c", "git rev-parse HEAD >/dev/null && " + CHECK[2])
    assert found(bisected(asked(tmp_path / "repo", ids[:1], ids[-1], check))) == ids[3]


@pytest.mark.full
def test_a_command_runs_where_in_the_tree_it_was_started(tmp_path):
    commits = Commits()
    commits.put("Not there yet", (), {"x": "1"})
    for at in range(6):
        commits.put(f"{at}", (at,), {"agents/refund/word": "bad" if at > 3 else "good"})
    ids = commits.write(tmp_path)
    result = bisected(asked(tmp_path / "agents" / "refund", ids[1:2], ids[-1]))
    assert found(result) == ids[5]
    result = bisected(asked(tmp_path / "agents" / "refund", ids[:1], ids[-1]))
    assert result.value["reason"] == "good_end_untestable"
    assert "agents/refund is not there" in result.value["probes"][-1]["detail"]


@pytest.mark.parametrize(
    ("ends", "said"),
    [
        ((["{3}"], "{3}"), "is both ends"),
        ((["{3}"], "{1}"), "comes before"),
        ((["{0}"], "nonsense"), "names no commit"),
        ((["--all"], "{3}"), "names no commit"),
        ((["{0}:word"], "{3}"), "names no commit"),
        (([], "{3}"), "one end is missing"),
    ],
)
def test_ends_that_are_none_are_refused(tmp_path, ends, said):
    ids = line_of(4, 2).write(tmp_path)
    goods, bad = [one.format(*ids) for one in ends[0]], ends[1].format(*ids)
    with pytest.raises(SidecarError, match=said) as refused:
        prepare(asked(tmp_path, goods, bad))
    assert refused.value.code == 3


def test_no_repository_and_no_common_history_are_refused(tmp_path):
    (tmp_path / "none").mkdir()
    with pytest.raises(SidecarError, match="no git repository"):
        prepare(asked(tmp_path / "none", ["a"], "b"))
    commits = line_of(3, 1)
    commits.put("Another root", (), {"word": "good"})
    ids = commits.write(tmp_path / "repo")
    with pytest.raises(SidecarError, match="no history in common"):
        prepare(asked(tmp_path / "repo", ids[3:], ids[2]))


@pytest.mark.full
def test_submodules_that_a_set_up_checks_out_are_taken_away_too(tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "protocol.file.allow")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "always")
    line_of(2, 1).write(tmp_path / "part")
    ids = line_of(6, 3).write(tmp_path / "repo")
    repo, at = tmp_path / "repo", ids[2]
    git(repo, "checkout", "-q", "--detach", at)
    git(repo, "submodule", "add", "-q", f"file://{tmp_path}/part", "part")
    identity = ("-c", "user.name=S", "-c", "user.email=s@example.test")
    git(repo, *identity, "commit", "-qm", "A part")
    for one in ids[3:]:
        git(repo, *identity, "cherry-pick", one)
    tip = git(repo, "rev-parse", "HEAD")
    check = "test ! -e .gitmodules || { git submodule update -q --init && test -e part/word; } "
    check += "|| exit 125; " + CHECK[2]
    value = bisected(asked(repo, [at], tip, ("/bin/sh", "-c", check))).value
    assert value["culprit"]["subject"] == "Commit 3" and not value["skipped"]
    assert worktrees(repo) == 1


@pytest.mark.full
def test_a_folder_that_a_commit_leads_elsewhere_is_not_run_in(tmp_path):
    repo = tmp_path / "repo"
    ids = line_of(3, 2).write(repo)
    (repo / "agents").symlink_to("/")
    git(repo, "add", "-A")
    git(repo, "-c", "user.name=S", "-c", "user.email=s@example.test", "commit", "-qm", "A link")
    bad = git(repo, "rev-parse", "HEAD")
    (repo / "agents").unlink()
    (repo / "agents").mkdir()
    result = bisected(asked(repo / "agents", ids[:1], bad, ("/bin/sh", "-c", "exit 1")))
    assert result.value["probes"][0]["detail"] == "agents is not there"


@pytest.mark.full
def test_an_old_git_is_refused(tmp_path, monkeypatch):
    ids = line_of(3, 2).write(tmp_path / "repo")
    (tmp_path / "git").write_text("#!/bin/sh\necho git version 2.20.1\n")
    (tmp_path / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(SidecarError, match="too old"):
        prepare(asked(tmp_path / "repo", ids[:1], ids[-1]))


@pytest.mark.full
def test_ten_thousand_commits_of_a_real_repository(tmp_path):
    commits = Commits()
    commits.add("Root", word="good")
    for at in range(1, 10_000):
        parents = (at - 1, at - 7) if at % 11 == 0 and at > 7 else (at - 1,)
        commits.put(f"Commit {at}", parents, {"word": "bad" if at >= 6543 else "good"})
    ids = commits.write(tmp_path)
    for all_parents in (False, True):
        begun = time.process_time()
        result = bisected(asked(tmp_path, ids[:1], ids[-1], all_parents=all_parents))
        assert found(result) == ids[6543]
        assert result.value["runs"] <= 22
        assert time.process_time() - begun < 10
    ends = (
        f"case $(git rev-parse HEAD) in {ids[0]}) exit 0;; {ids[-1]}) exit 1;; *) exit 125;; esac"
    )
    command = ("/bin/sh", "-c", ends)
    value = bisected(asked(tmp_path, ids[:1], ids[-1], command, all_parents=True, runs_max=9)).value
    assert (value["reason"], value["runs"], len(value["suspects"])) == ("runs_max", 9, 9_999)
    assert value["suspects"][0]["subject"] == "Commit 1"


@pytest.mark.full
def test_a_shallow_clone_is_searched_as_far_as_it_goes(tmp_path):
    ids = line_of(12, 8).write(tmp_path / "repo")
    git(tmp_path, "clone", "-q", "--depth", "7", f"file://{tmp_path}/repo", "shallow")
    assert found(bisected(asked(tmp_path / "shallow", ids[5:6], ids[-1]))) == ids[8]
    with pytest.raises(SidecarError, match="names no commit"):
        prepare(asked(tmp_path / "shallow", ids[:1], ids[-1]))


@pytest.mark.parametrize(("base", "reason"), [("good", ""), ("bad", "good_end_bad")])
def test_where_the_good_end_is_on_another_branch_the_fork_must_be_good(tmp_path, base, reason):
    commits = Commits()
    commits.add("Fork", word=base)
    good = commits.add("A fix or nothing", 0, word="good", side="1")
    commits.add("On", 0)
    culprit = commits.add("Perhaps", word="bad")
    bad = commits.add("Tip")
    ids = commits.write(tmp_path)
    result = bisected(asked(tmp_path, [ids[good]], ids[bad]))
    assert result.value["reason"] == reason
    assert found(result) == (None if reason else ids[culprit])


def test_a_deadline_makes_untestable_and_ends_what_was_started(tmp_path):
    ids = line_of(6, 3).write(tmp_path / "repo")
    slow = f"test $(cat number) != 2 || {{ sleep 77 & echo $! > {tmp_path}/pid; wait; }}; "
    check = ("/bin/sh", "-c", slow + CHECK[2])
    result = bisected(asked(tmp_path / "repo", ids[:1], ids[-1], check, timeout_seconds=1.0))
    assert {one["commit"] for one in result.value["suspects"]} == {ids[2], ids[3]}
    (skipped,) = [one for one in result.value["probes"] if one["verdict"] == "skip"]
    assert skipped["detail"] == "stopped at its deadline"
    assert ended((tmp_path / "pid").read_text().strip())


@pytest.mark.full
def test_an_oracle_at_fault_stops_it_and_the_same_goes_on(tmp_path):
    ids = line_of(10, 6).write(tmp_path / "repo")
    fuse = tmp_path / "fuse"
    fuse.touch()
    broken = f"echo $(cat number) >> {tmp_path}/seen; test $(cat number) != 5 || "
    broken += f"test ! -e {fuse} || kill -SEGV $$; "
    wanted = asked(tmp_path / "repo", ids[:1], ids[-1], ("/bin/sh", "-c", broken + CHECK[2]))
    result = bisected(wanted)
    assert result.aborted.detail == "ended by signal 11"
    assert result.value["reason"] == "aborted"
    assert ids[6] in {one["commit"] for one in result.value["suspects"]}
    before = (tmp_path / "seen").read_text().split()
    fuse.unlink()
    result = bisected(wanted)
    assert found(result) == ids[6]
    assert result.value["resumed"] == len(before) - 1
    after = (tmp_path / "seen").read_text().split()[len(before) :]
    assert len(after) == result.value["runs"] - len(before) + 1


def test_a_program_that_is_not_there_is_no_verdict(tmp_path):
    ids = line_of(4, 2).write(tmp_path)
    seen = []
    result = bisected(asked(tmp_path, ids[:1], ids[-1], ("./check.sh",)), seen)
    assert result.value["reason"] == "bad_end_untestable"
    assert "./check.sh cannot be started" in seen[0][1].detail


@pytest.mark.full
@pytest.mark.row("R55")
def test_a_failure_without_the_signature_is_another_and_untestable(tmp_path):
    commits = line_of(12, 8)
    for at in range(3, 6):
        commits.files[at]["other"] = "1"
    ids = commits.write(tmp_path)
    check = "test ! -e other || { echo ImportError; exit 1; }; test $(cat word) = good || "
    command = ("/bin/sh", "-c", check + "{ echo refund of 94; exit 1; }")
    plain = bisected(asked(tmp_path, ids[:1], ids[-1], command))
    assert found(plain) in (ids[3], ids[8])
    signed = bisected(asked(tmp_path, ids[:1], ids[-1], command, signature=r"refund of \d+"))
    assert found(signed) == ids[8]
    with pytest.raises(SidecarError, match="regular expression"):
        bisected(asked(tmp_path, ids[:1], ids[-1], command, signature="("))


@pytest.mark.full
def test_an_environment_is_made_once_for_equal_lock_files(tmp_path):
    commits = line_of(12, 8)
    for at in range(12):
        commits.files[at]["requirements.txt"] = "one" if at < 5 else "two"
    ids = commits.write(tmp_path / "repo")
    made = tmp_path / "made"
    setup = f"mkdir -p $AGENTTWIN_BISECT_ENV/bin; cat requirements.txt >> {made}; "
    setup += "cp word $AGENTTWIN_BISECT_ENV/first; printf '#!/bin/sh\\ncat word\\n' > "
    setup += "$AGENTTWIN_BISECT_ENV/bin/say; chmod +x $AGENTTWIN_BISECT_ENV/bin/say"
    command = ("/bin/sh", "-c", "test $(say) = good")
    wanted = asked(
        tmp_path / "repo", ids[:1], ids[-1], command, setup=setup, cache=str(tmp_path / "cache")
    )
    assert found(bisected(wanted)) == ids[8]
    assert sorted(made.read_text().removesuffix("\n").replace("onetwo", "one two").split()) in (
        ["one", "two"],
        ["twoone"],
    )
    before = made.read_text()
    assert found(bisected(wanted)) == ids[8]
    assert made.read_text() == before
    failing = asked(tmp_path / "repo", ids[:1], ids[-1], command, setup="exit 7")
    result = bisected(failing)
    assert result.value["probes"][0]["detail"] == "its set-up failed: exit status 7"


@pytest.mark.full
def test_a_full_disk_is_no_verdict(tmp_path, monkeypatch):
    commits = line_of(6, 3)
    commits.files[4]["large"] = "x" * 300_000
    ids = commits.write(tmp_path / "repo")
    small = tmp_path / "small"
    small.mkdir()
    # A file system of our own needs privileges; where there are none, its figures are told.
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=128k", "none", small], capture_output=True
    )
    if mounted.returncode:
        wrapper = tmp_path / "bin" / "git"
        wrapper.parent.mkdir()
        real = shutil.which("git")
        fails = 'echo "error: unable to write file large" >&2; exit 128'
        wrapper.write_text(
            f'#!/bin/sh\ncase "$*" in *"worktree add"*{ids[4]}*) {fails};; esac\nexec {real} "$@"\n'
        )
        wrapper.chmod(0o755)
        monkeypatch.setenv("PATH", f"{wrapper.parent}:{os.environ['PATH']}")
        told = os.statvfs(tmp_path)
        few = os.statvfs_result((told.f_bsize, 4096, 32, 16, 16, 99, 99, 99, 0, 255))
        monkeypatch.setattr(os, "statvfs", lambda _: few)
    wanted = asked(tmp_path / "repo", ids[:1], ids[4])
    try:
        with monkeypatch.context() as patched:
            patched.setattr(tempfile, "tempdir", str(small))
            with pytest.raises(SidecarError, match="disk is full"):
                bisected(wanted)
            assert worktrees(tmp_path / "repo") == 1
    finally:
        if not mounted.returncode:
            subprocess.run(["umount", small], check=True)
    assert mounted.returncode or found(bisected(wanted)) == ids[3]


@pytest.mark.full
def test_a_state_that_cannot_be_written_is_said(tmp_path):
    ids = line_of(4, 2).write(tmp_path)
    (tmp_path / ".git" / "sidecar-bisect").write_text("a file in the way")
    with pytest.raises(SidecarError, match="cannot be written down"):
        bisected(asked(tmp_path, ids[:1], ids[-1]))


STOP = """
if test $(cat number) = {at} && test ! -e {folder}/went; then
    sleep 77 & echo $! > {folder}/pid; mv {folder}/pid {folder}/here; wait
fi
echo $(cat number) >> {folder}/seen
"""


@pytest.mark.parametrize(
    "number",
    [
        signal.SIGKILL,
        pytest.param(signal.SIGINT, marks=pytest.mark.full),
        pytest.param(signal.SIGTERM, marks=pytest.mark.full),
    ],
)
def test_stopped_by_a_signal_it_leaves_nothing_and_goes_on(tmp_path, number):
    ids = line_of(10, 6).write(tmp_path / "repo")
    check = STOP.format(at=5, folder=tmp_path) + CHECK[2]
    line = ["--repo", tmp_path / "repo", "--good", ids[0], "--bad", ids[-1], "--output", "json"]
    line += ["--", "/bin/sh", "-c", check]
    place = tmp_path / "trees"
    place.mkdir()
    with command_line(*line, env={"TMPDIR": str(place)}) as first:
        wait_for(tmp_path / "here")
        first.send_signal(number)
        said = first.communicate(timeout=20)
    if number != signal.SIGKILL:
        assert first.returncode == 3
        assert said[1].split("\n")[-2] == "interrupted" and not said[0]
        assert worktrees(tmp_path / "repo") == 1 and not list(place.iterdir())
    wait_until(lambda: ended((tmp_path / "here").read_text().strip()))  # who was killed has a guard
    before = (tmp_path / "seen").read_text().split()
    (tmp_path / "went").touch()
    with command_line(*line, env={"TMPDIR": str(place)}) as second:
        out, _ = second.communicate(timeout=60)
    value = json.loads(out)
    assert (second.returncode, value["culprit"]["commit"]) == (0, ids[6])
    assert value["resumed"] == len(before)
    assert len((tmp_path / "seen").read_text().split()) == value["runs"]
    assert worktrees(tmp_path / "repo") == 1 and not list(place.iterdir())


@pytest.mark.full
def test_the_same_bisection_runs_once_at_a_time(tmp_path):
    ids = line_of(8, 6).write(tmp_path / "repo")
    check = STOP.format(at=3, folder=tmp_path) + CHECK[2]
    line = ["--repo", tmp_path / "repo", "--good", ids[0], "--bad", ids[-1]]
    line += ["--", "/bin/sh", "-c", check]
    with command_line(*line) as first:
        wait_for(tmp_path / "here")
        with command_line(*line) as second:
            _, said = second.communicate(timeout=20)
        first.terminate()
        first.communicate(timeout=20)
    assert second.returncode == 3
    assert "running already" in said


@pytest.mark.full
def test_a_line_that_a_crash_cut_off_is_made_again(tmp_path):
    ids = line_of(10, 6).write(tmp_path / "repo")
    fuse = tmp_path / "fuse"
    fuse.touch()
    script = f"test $(cat number) != 5 || test ! -e {fuse} || kill -9 $$; "
    wanted = asked(tmp_path / "repo", ids[:1], ids[-1], ("/bin/sh", "-c", script + CHECK[2]))
    bisected(wanted)
    (journal,) = (tmp_path / "repo" / ".git" / "sidecar-bisect").iterdir()
    whole = journal.read_bytes()
    fuse.unlink()
    for cut in (len(whole) - 1, 10):
        journal.parent.mkdir(exist_ok=True)
        journal.write_bytes(whole[:cut])
        result = bisected(wanted)
        assert found(result) == ids[6]
        assert result.value["resumed"] < whole.count(b"\n") - 1
    journal.parent.mkdir()
    journal.write_bytes(whole.replace(b'"point":', b'"point":99'))
    assert found(bisected(wanted)) == ids[6]


def ended(process_id):
    """Whether a process is gone, or nobody has waited for it yet."""
    try:
        return Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def wait_for(path):
    wait_until(path.exists)


def wait_until(holds):
    until = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < until
        os.sched_yield()
