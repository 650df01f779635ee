"""Tapes made to do harm, given to every command that reads tapes: none hangs, none falls over, none
leaves the tape's folder, and nothing in one reaches a terminal as it is."""

import base64
import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from sidecar.canonical import canonical
from sidecar.cli.root import root
from sidecar.errors import SidecarError
from sidecar.tape.compose import Fact
from sidecar.tape.files import TapeWriter, examine
from sidecar.tape.model import Header
from sidecar.tape.value import address

pytestmark = pytest.mark.requirement("TAP-01")
CANARY = "CANARY-7f3a: nobody asked for this file"
NASTY = "</script><img src=x onerror=alert(1)>\x1b]0;owned\x07\x1b[2J\u202e\r\n|`[x](javascript:1)"
LARGE = "large " * 1000


def good(path, **more):
    with TapeWriter(path, Header(tape_id="good", fidelity="L3"), **more) as writer:
        writer.event(Fact(kind="llm_call", seam="provider", name="m", input=LARGE, output="x"))
        writer.event(Fact(kind="tool_call", seam="tool", name="pay", input={"amount": 1}))
        writer.event(Fact(kind="terminal", status="ok", output={"status": "ok"}))
        writer.seal()
    return path


def records(path):
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def rewritten(path, change):
    """The tape with every record passed through a function; None leaves one out."""
    found = [change(one) for one in records(path)]
    path.write_bytes(b"".join(canonical(one) + b"\n" for one in found if one is not None))


def bomb(folder):
    """A blob of a hundred kilobytes that unpacks to a hundred megabytes."""
    path = good(folder / "a.tape")
    packed = gzip.compress(b'"' + b"\0" * (96 * 1024 * 1024) + b'"')

    def change(one):
        if one["rec"] == "blob" and one.get("gz"):
            one["data"] = base64.b64encode(packed).decode()
        return one

    rewritten(path, change)


def stored_bomb(folder):
    good(folder / "a.tape", packaging="store")
    for one in (folder / "blobs").rglob("*.gz"):
        one.write_bytes(gzip.compress(b'"' + b"\0" * (96 * 1024 * 1024) + b'"'))


def other_content(folder):
    good(folder / "a.tape", packaging="store")
    for one in (folder / "blobs").rglob("*.gz"):
        one.write_bytes(gzip.compress(json.dumps(NASTY).encode()))


def link_outside(folder):
    good(folder / "a.tape", packaging="store")
    for one in (folder / "blobs").rglob("*.gz"):
        one.unlink()
        one.with_name(one.name.removesuffix(".gz")).symlink_to(folder.parent / "canary")


def store_is_a_link(folder):
    good(folder / "a.tape", packaging="store")
    (folder / "blobs").rename(folder.parent / "elsewhere")
    (folder / "blobs").symlink_to("/etc")


def path_for_a_name(folder):
    path = good(folder / "a.tape")

    def change(one):
        if one["rec"] == "blob":
            one["id"] = "sha256:../../../canary"
            one.pop("data", None)
        if one.get("in"):
            one["in"] = "sha256:../../../canary"
        return one

    rewritten(path, change)


def wrong_digests(folder):
    path = good(folder / "a.tape")

    def change(one):
        if one["rec"] == "event" and one.get("inl"):
            one["inl"] = dict.fromkeys(one["inl"], NASTY)
        return one

    rewritten(path, change)


def wrong_seal(folder):
    path = good(folder / "a.tape")
    wrong = address(b"another")

    def change(one):
        if one["rec"] == "seal":
            one |= {"exact_digest": wrong, "behavior_digest": wrong, "chain": wrong}
        return one

    rewritten(path, change)


def deep(folder):
    path = good(folder / "a.tape")
    text = b'{"rec":"event","x":' + b"[" * 200_000 + b"]" * 200_000 + b"}\n"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([lines[0], text, *lines[1:]]))


def deep_blob(folder):
    path = good(folder / "a.tape")
    data = b"[" * 100_000 + b"]" * 100_000

    def change(one):
        if one["rec"] == "blob" and one.get("gz"):
            packed = base64.b64encode(gzip.compress(data)).decode()
            one |= {"id": address(data), "size": len(data), "data": packed}
        if one.get("kind") == "llm_call":
            one["in"] = address(data)
        return one

    rewritten(path, change)


def a_hundred_and_more_levels(folder):
    path = good(folder / "a.tape")
    deep = "[" * 600 + "]" * 600

    def change(one):
        if one.get("kind") == "tool_call":
            one["inl"] = {"in": json.loads(deep)}
        return one

    rewritten(path, change)


def no_json_in_a_blob(folder):
    path = good(folder / "a.tape")
    data = b"\xff{" * 5000

    def change(one):
        if one["rec"] == "blob" and one.get("gz"):
            packed = base64.b64encode(gzip.compress(data)).decode()
            one |= {"id": address(data), "size": len(data), "data": packed}
        if one.get("kind") == "llm_call":
            one["in"] = address(data)
        return one

    rewritten(path, change)


def nasty_fields(folder):
    header = Header(
        tape_id=NASTY,
        run_id=NASTY,
        tenant=NASTY,
        labels={NASTY: NASTY},
        argv=[NASTY],
        models=[NASTY],
        fidelity="L3",
    )
    with TapeWriter(folder / "a.tape", header) as writer:
        for kind, seam in (("llm_call", "provider"), ("tool_call", "tool")):
            fact = Fact(kind=kind, seam=seam, name=NASTY, agent=NASTY, input=NASTY, output=NASTY)
            writer.event(fact)
        writer.event(Fact(kind="error", name=NASTY, error=(NASTY, NASTY)))
        writer.event(Fact(kind="terminal", status="ok", output={"status": NASTY}))
        writer.seal()


def odd_events(folder):
    path = good(folder / "a.tape")

    def change(one):
        if one.get("kind") == "tool_call":
            one |= {"cause": [9999], "lam": 2**53 - 1, "ord": -1, "t": {"start": -(2**53) + 1}}
        return one

    rewritten(path, change)


def no_text(folder):
    (folder / "a.tape").write_bytes(bytes(range(256)) * 4096)


def one_line(folder):
    (folder / "a.tape").write_bytes(b'{"rec":"header","x":"' + b"x" * (32 * 1024 * 1024))


HOSTILE = [
    *(bomb, stored_bomb, other_content, link_outside, store_is_a_link, path_for_a_name),
    *(a_hundred_and_more_levels, no_json_in_a_blob),
    *(wrong_digests, wrong_seal, deep, deep_blob, nasty_fields, odd_events, no_text, one_line),
]


QUICK = (link_outside, path_for_a_name, wrong_digests, deep_blob, nasty_fields)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "canary").write_text(json.dumps(CANARY))
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "assertions.yaml").write_text(
        "assertions:\n  - {spec: never_calls, args: {tools: [refund]}}\n"
        "  - {spec: output_schema, args: {schema: {type: object}}}\n"
    )
    return inside


def commands(folder):
    tape, other = str(folder / "a.tape"), str(good(folder / "other.tape"))
    yield "tape", "show", tape
    yield "tape", "show", tape, "--output", "jsonl"
    for seq in (0, 1, 9):
        yield "tape", "show", tape, "--event", str(seq)
    yield "tape", "verify", tape, other
    for form in ("text", "json", "markdown", "html"):
        yield "tape", "diff", tape, other, "--output", form
        yield "tape", "diff", other, tape, "--output", form
    for form in ("text", "json", "markdown"):
        yield (
            "tape",
            "assert",
            tape,
            "--assertions",
            str(folder / "assertions.yaml"),
            *(("--output", form)),
        )
    for packaging in ("packed", "store"):
        new = str(folder / f"new-{packaging}.tape")
        yield "tape", "migrate", tape, "--to", new, "--packaging", packaging
        yield "tape", "migrate", tape, "--to", f"{new}2", "--codecs", "current"


@pytest.mark.parametrize(
    "make",
    [one if one in QUICK else pytest.param(one, marks=pytest.mark.full) for one in HOSTILE],
    ids=lambda make: make.__name__,
)
def test_no_command_falls_over_leaves_the_folder_or_shows_what_it_must_not(make, folder):
    make(folder)
    outside = {path for path in folder.parent.rglob("*") if folder not in path.parents}
    for words in commands(folder):
        result = CliRunner().invoke(root, [*words], standalone_mode=False)
        assert result.exception is None or isinstance(result.exception, SidecarError), words
        code = result.return_value if result.exception is None else result.exception.code
        assert code in (None, 0, 1, 2, 3), words
        said = result.stdout + result.stderr + str(result.exception or "")
        assert CANARY not in said, words
        assert not {"\x1b", "\x07", "\u202e"} & set(said), words
        if words[-1] == "html":
            assert "<img src=x" not in said and "alert(1)>" not in said, words
        if make in (wrong_digests, wrong_seal, path_for_a_name, odd_events):
            sound = words[:2] == ("tape", "show")
            assert sound or code in (1, 2, 3), words
    assert {path for path in folder.parent.rglob("*") if folder not in path.parents} == outside


def run(*words, cwd):
    return subprocess.run(
        [sys.executable, "-P", "-m", "sidecar", *words],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.parametrize(
    "kind", ["fifo", *(pytest.param(one, marks=pytest.mark.full) for one in ("device", "folder"))]
)
def test_a_blob_that_is_no_file_is_not_waited_for(folder, kind):
    good(folder / "a.tape", packaging="store")
    for one in (folder / "blobs").rglob("*.gz"):
        one.unlink()
        if kind == "fifo":
            os.mkfifo(one)
        elif kind == "device":
            one.symlink_to("/dev/zero")
        else:
            one.mkdir()
    said = run("tape", "verify", "a.tape", cwd=folder)
    assert (said.returncode, "blob_content" in said.stdout) == (1, True), said.stdout + said.stderr


@pytest.mark.parametrize(
    "command",
    [
        ("verify",),
        pytest.param(("show",), marks=pytest.mark.full),
        pytest.param(("diff", "a.tape"), marks=pytest.mark.full),
        pytest.param(("migrate", "--to", "b.tape"), marks=pytest.mark.full),
        pytest.param(("replay",), marks=pytest.mark.full),
        pytest.param(("import", "--format", "tau", "--to", "b"), marks=pytest.mark.full),
        pytest.param(("import", "--format", "vcr", "--to", "b"), marks=pytest.mark.full),
    ],
    ids=" ".join,
)
def test_a_tape_that_is_a_pipe_which_nobody_writes_to_is_not_waited_for(folder, command):
    os.mkfifo(folder / "a.tape")
    name, *more = command
    behind = ("--", sys.executable, "-c", "") if name == "replay" else ()
    said = run("tape", name, *more, "a.tape", *behind, cwd=folder)
    assert said.returncode == (1 if name == "import" else 3), said.stderr
    assert "nothing" in said.stdout + said.stderr and "Traceback" not in said.stderr


def test_a_tape_that_comes_through_a_pipe_is_read(folder):
    reads, writes = os.pipe()
    os.write(writes, good(folder / "a.tape").read_bytes())
    os.close(writes)
    assert examine(Path(f"/dev/fd/{reads}")).holds
    os.close(reads)


@pytest.mark.full
@pytest.mark.parametrize("make", HOSTILE, ids=lambda make: make.__name__)
def test_no_replay_of_one_runs_what_it_says(make, folder):
    make(folder)
    (folder / "agent.py").write_text("print('ran')\n")
    said = run("tape", "replay", "a.tape", "--", sys.executable, "agent.py", cwd=folder)
    assert said.returncode in (2, 3)
    assert "Traceback" not in said.stderr and CANARY not in said.stderr + said.stdout
    assert "\x1b" not in said.stderr + said.stdout


MEASURED = """
import resource, subprocess, sys
ran = subprocess.run(sys.argv[1:])
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(used.ru_maxrss, used.ru_utime, file=sys.stderr)
sys.exit(ran.returncode)
"""
"""A command's memory and time, asked of a small parent: Linux counts a large one's memory too."""


@pytest.mark.full
def test_a_million_events_are_read_in_proportion_and_not_held(tmp_path):
    few = good(tmp_path / "few.tape", packaging="store").read_bytes().splitlines(keepends=True)
    event = {"rec": "event", "v": 1, "kind": "decision", "seam": "clock", "name": "time.time"}
    event |= {"agent": "a", "out": address(b"1"), "inl": {"out": 1}}
    with open(tmp_path / "a.tape", "wb") as tape:
        tape.write(few[0])
        for seq in range(1_000_000):
            own = {"seq": seq, "lam": seq, "ord": seq}
            own |= {"cause": [seq - 1]} if seq else {}
            tape.write(json.dumps(event | own).encode() + b"\n")
    for words, code in ((("verify", "a.tape"), 2), (("show", "a.tape", "--from", "999000"), 0)):
        line = [sys.executable, "-P", "-m", "sidecar", "tape", *words, "--output", "json"]
        ran = subprocess.run(
            [sys.executable, "-c", MEASURED, *line], cwd=tmp_path, capture_output=True, text=True
        )
        assert ran.returncode == code
        said = json.loads(ran.stdout)
        told = said["tapes"][0] if "tapes" in said else said
        assert (told["events"], told["state"], told["faults"]) == (1_000_000, "partial", [])
        kib, seconds = map(float, ran.stderr.splitlines()[-1].split())
        assert kib < 400 * 1024
        assert seconds < 120
