"""The files an agent reads and writes are recorded; played, nothing touches the disk."""
# ruff: noqa: SIM115, C416 - what agents write

import bz2
import configparser
import csv
import fileinput
import glob
import gzip
import io
import json
import os
import pathlib
import shutil
import tempfile
import threading
import zipfile
from pathlib import Path

import pytest
from ambient_rig import asked, both, library, with_seams
from capture_rig import recorded, replayed, session_of
from capture_rig import run as run_in
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.capture.modes import ForkPlayer
from sidecar.capture.plan import Plan
from sidecar.capture.record import redactor_of
from sidecar.capture.seams.fs_file import WRITTEN_BYTES_MAX
from sidecar.capture.seams.fs_pieces import PIECE_BYTES, Pieces, joined
from sidecar.tape.codec import DEFAULT, Codecs

pytestmark = pytest.mark.requirement("TAP-02")
FS = ("fs",)
TEXT = "one\ntwo\nthree ünï\n"


@pytest.fixture
def disk(tmp_path):
    """A folder with some files, which are gone or others when the agent is replayed."""
    folder = tmp_path / "disk"
    (folder / "sub" / "deep").mkdir(parents=True)
    (folder / "a.txt").write_text(TEXT, "utf-8")
    (folder / "b.bin").write_bytes(bytes(range(256)))
    (folder / "big.txt").write_text("line of text\n" * 60_000)
    (folder / "sub" / "c.json").write_text('{"x": [1, 2.5, null]}')
    with gzip.open(folder / "z.gz", "wb") as file:
        file.write(b"squeezed")
    with bz2.open(folder / "z.bz2", "wb") as file:
        file.write(b"squeezed too")
    with zipfile.ZipFile(folder / "z.zip", "w") as file:
        file.writestr("inner.txt", "zipped")
    (folder / "x.ini").write_text("[s]\nk = v\n")
    (folder / "x.csv").write_text("a,b\n1,2\n")
    return folder


def gone_after(folder, agent):
    """The agent, after whose first run its disk is gone."""

    def run():
        got = agent(folder)
        shutil.rmtree(folder, ignore_errors=True)
        return got

    return run


def lines_of(file):
    with file:
        return [line for line in file]


def walked(folder):
    return [(base[len(str(folder)) :], dirs, files) for base, dirs, files in os.walk(folder)]


def entries(folder):
    with os.scandir(folder) as found:
        return [
            (one.name, os.fspath(one), one.is_dir(), one.is_file(), one.is_symlink(), one.stat())
            for one in found
        ]


def numbered(folder):
    number = os.open(folder / "a.txt", os.O_RDONLY)
    try:
        return [os.read(number, 4), os.read(number, 100), os.read(number, 100)]
    finally:
        os.close(number)


def zipped(folder):
    with zipfile.ZipFile(folder / "z.zip") as file:
        return file.namelist(), file.read("inner.txt")


def configured(folder):
    found = configparser.ConfigParser()
    found.read([folder / "x.ini", folder / "none.ini"])
    return found["s"]["k"]


def skipping(folder):
    with open(folder / "b.bin", "rb") as file:
        first = file.read(3)
        file.seek(-2, os.SEEK_END)
        last = file.read()
        file.seek(100)
        return first, last, file.tell(), file.peek(1)[:1], file.read(2), file.seekable()


def by_line(folder):
    with open(folder / "a.txt", encoding="utf-8") as file:
        one = file.readline()
        place = file.tell()
        rest = file.read()
        file.seek(place)
        return one, rest, file.readlines(), file.read(), file.name, file.mode, file.encoding


READS = {
    "text": lambda d: open(d / "a.txt", encoding="utf-8").read(),
    "bytes": lambda d: io.open(d / "b.bin", "rb").read(),  # noqa: UP020
    "lines": lambda d: lines_of(open(d / "a.txt", encoding="utf-8")),
    "a line": lambda d: open(str(d / "a.txt")).readline(),
    "big": lambda d: open(d / "big.txt").read(),
    "big lines": lambda d: lines_of(open(d / "big.txt")),
    "raw": lambda d: open(d / "b.bin", "rb", buffering=0).read(5),
    "into": lambda d: open(d / "b.bin", "rb").readinto(bytearray(7)),
    "skipping": skipping,
    "by line": by_line,
    "path text": lambda d: (d / "a.txt").read_text("utf-8"),
    "path bytes": lambda d: (d / "b.bin").read_bytes(),
    "path open": lambda d: lines_of((d / "a.txt").open(encoding="utf-8")),
    "json": lambda d: json.load(open(d / "sub" / "c.json")),
    "csv": lambda d: list(csv.reader(open(d / "x.csv", newline=""))),
    "gzip": lambda d: gzip.open(d / "z.gz").read(),
    "bz2": lambda d: bz2.open(d / "z.bz2").read(),
    "zip": zipped,
    "config": configured,
    "fileinput": lambda d: list(fileinput.input(d / "x.csv")),
    "number": numbered,
    "fdopen": lambda d: os.fdopen(os.open(d / "a.txt", os.O_RDONLY), encoding="utf-8").read(),
    "exists": lambda d: [os.path.exists(d / "a.txt"), (d / "no").exists(), d.exists()],
    "kinds": lambda d: [os.path.isfile(d), os.path.isdir(d), (d / "a.txt").is_file(), d.is_dir()],
    "size": lambda d: [os.path.getsize(filename=d / "a.txt"), os.path.getmtime(d / "b.bin")],
    "stat": lambda d: [os.stat(d / "a.txt"), (d / "a.txt").stat(), os.lstat(path=d)],
    "access": lambda d: [os.access(d / "a.txt", os.R_OK), os.access(d / "no", os.R_OK)],
    "listdir": lambda d: sorted(os.listdir(d)),
    "scandir": entries,
    "walk": walked,
    "iterdir": lambda d: [one.name for one in d.iterdir()],
    "glob": lambda d: sorted(glob.glob(str(d / "*.txt"))),
    "glob deep": lambda d: sorted(glob.glob(str(d / "**" / "*.json"), recursive=True)),
    "path glob": lambda d: sorted(one.name for one in d.glob("*.txt")),
    "path rglob": lambda d: sorted(one.name for one in d.rglob("*.json")),
    "samefile": lambda d: os.path.samefile(d / "a.txt", d / "sub" / ".." / "a.txt"),
}


@pytest.mark.parametrize("name", READS)
def test_what_was_read_is_read_again_without_the_disk(tmp_path, disk, name):
    was, now, tape = both(tmp_path / "a.tape", FS, gone_after(disk, READS[name]))
    assert not disk.exists()
    assert (now, type(now)) == (was, type(was))
    assert {seam for seam, _ in asked(tape)} == {"fs"}
    assert {one.kind for one in tape.events[1:-1]} == {"tool_call", "tool_result"}


def missing(read):
    try:
        return read()
    except OSError as error:
        return type(error), error.errno, error.strerror, error.filename, error.filename2


FAILURES = {
    "open": lambda d: open(d / "no.txt"),
    "a folder": lambda d: open(d),
    "exclusive": lambda d: open(d / "a.txt", "x"),
    "path": lambda d: (d / "no.txt").read_text(),
    "stat": lambda d: os.stat(d / "no"),
    "listdir": lambda d: os.listdir(d / "no"),
    "scandir": lambda d: os.scandir(d / "a.txt"),
    "mkdir": lambda d: os.mkdir(d / "sub"),
    "rename": lambda d: os.rename(d / "no", d / "there"),
    "unlink": lambda d: (d / "no").unlink(),
    "rmtree": lambda d: shutil.rmtree(d / "no"),
    "number": lambda d: os.open(d / "no", os.O_RDONLY),
}


@pytest.mark.parametrize("name", FAILURES)
def test_what_failed_fails_again_with_class_number_and_name(tmp_path, disk, name):
    def agent(folder):
        return missing(lambda: FAILURES[name](folder))

    was, now, tape = both(tmp_path / "a.tape", FS, gone_after(disk, agent))
    assert now == was
    assert issubclass(was[0], OSError)
    assert [one.err.type for one in tape.events if one.err is not None] == [was[0].__name__]


def test_what_is_refused_before_any_file_is_no_event(tmp_path, disk):
    def agent():
        refused = []
        for args in (("a", "q"), ("a", "rw"), ("a", "rb", -1, "utf-8"), (b"\0",)):
            try:
                open(*args)
            except (ValueError, TypeError) as error:
                refused.append((type(error), str(error)))
        return refused

    was, now, tape = both(tmp_path / "a.tape", FS, agent)
    assert was == now
    assert len(was) == 4
    assert [name for _, name in asked(tape)] in ([], ["open"])


def writes(folder):
    with open(folder / "new.txt", "w", encoding="utf-8") as file:
        file.write("mine\n")
        print("mine too", file=file)
        file.flush()
        os.fsync(file.fileno())
    with open(folder / "new.txt", "a") as file:
        place = file.tell()
        file.write("more\n")
    with open(folder / "new.bin", "wb") as file:
        file.write(b"\xff" * 10)
        file.seek(2)
        file.write(b"ab")
        file.truncate(6)
    with open(folder / "new.txt", "r+") as file:
        first = file.readline()
        file.seek(0)
        file.write("MINE")
        file.seek(0)
        again = file.read()
    (folder / "p.txt").write_text("by path")
    (folder / "touched").touch()
    os.makedirs(folder / "one" / "two", exist_ok=True)
    os.makedirs(folder / "one" / "two", exist_ok=True)
    os.rename(folder / "p.txt", folder / "q.txt")
    shutil.copy(folder / "q.txt", folder / "one")
    shutil.move(str(folder / "q.txt"), str(folder / "r.txt"))
    os.remove(folder / "r.txt")
    shutil.rmtree(folder / "one")
    return [
        *(place, first, again, (folder / "new.txt").read_text(), (folder / "new.bin").read_bytes()),
        *((folder / "touched").exists(), (folder / "r.txt").exists(), sorted(os.listdir(folder))),
    ]


def test_what_is_written_is_read_back_and_a_replay_leaves_the_disk_alone(tmp_path):
    folder = tmp_path / "out"
    folder.mkdir()
    agent = with_seams(FS, lambda: got.append(writes(folder)))
    got = []
    tape = recorded(tmp_path / "a.tape", agent)
    assert sorted(os.listdir(folder)) == ["new.bin", "new.txt", "touched"]
    shutil.rmtree(folder)
    session = replayed(tape, agent)
    assert session.drift is None, session.drift
    assert got[0] == got[1]
    assert got[0][:3] == [14, "mine\n", "MINE\nmine too\nmore\n"]
    assert not folder.exists()
    written = [one.inl["in"] for one in tape.events if one.name == "write" and "in" in one.inl]
    assert written[0]["written"] == [{"at": 0, "size": 14, "text": "mine\nmine too\n"}]
    assert written[2]["written"][-1] == {"cut": 6}


@pytest.mark.parametrize("mode", ["w", "a", "r+"])
def test_a_file_of_a_forks_prefix_is_read_and_written_when_the_run_has_gone_live(tmp_path, mode):
    out, source = tmp_path / "out.txt", tmp_path / "in.txt"
    source.write_text("from here\n")
    out.write_text("before\n")

    def agent():
        with open(out, mode) as file, open(source) as read:
            os.path.exists(out)
            file.write(read.read())

    run = with_seams(FS, agent)
    tape = recorded(tmp_path / "a.tape", run)
    after = out.read_text()
    out.write_text("before\n")
    (fork,) = [one.seq for one in tape.events if one.name == "os.path.exists"][:1]
    player = ForkPlayer(Plan(mode="fork", fork=fork), tape, redactor_of("full"), Codecs(DEFAULT))
    run_in(session_of(player=player), run)
    assert out.read_text() == after
    assert source.read_text() == "from here\n"


def test_something_else_written_is_a_drift_of_the_write(tmp_path):
    said = ["one"]

    def agent():
        with open(tmp_path / "out.txt", "w") as file:
            file.write(said[0])

    run = with_seams(FS, agent)
    tape = recorded(tmp_path / "a.tape", run)
    said[0] = "two"
    drift = replayed(tape, run).drift
    assert (drift.kind, drift.expected.name) == ("ARGS", "write")
    assert (tmp_path / "out.txt").read_text() == "one"


def test_reading_on_past_what_was_recorded_is_a_drift(tmp_path, disk):
    many = [1]

    def agent():
        with open(disk / "big.txt", buffering=64) as file:
            return [file.readline() for _ in range(many[0])]

    run = with_seams(FS, agent)
    tape = recorded(tmp_path / "a.tape", run)
    many[0] = 50_000
    assert replayed(tape, run).drift is not None


def test_a_file_that_is_never_closed_is_told_as_far_as_it_was_read(tmp_path, disk):
    kept = []

    def agent():
        file = open(disk / "a.txt", encoding="utf-8")
        kept.append(file)
        return file.readline()

    was, now, _ = both(tmp_path / "a.tape", FS, agent)
    assert was == now == "one\n"
    assert kept[0].read() == "two\nthree ünï\n"  # the real one reads on after the session
    for file in kept:
        file.close()


def test_a_growing_file_is_read_as_it_grew(tmp_path, disk):
    log = disk / "log"
    log.write_text("")

    def agent():
        got = []
        with open(log) as file:
            for number in range(3):
                got.append(file.read())
                with io.FileIO(log, "ab") as grows:
                    grows.write(b"%d\n" % number)
        return got

    was, now, _ = both(tmp_path / "a.tape", FS, agent)
    assert was == now == ["", "0\n", "1\n"]


def test_what_is_large_is_told_in_pieces_and_much_written_by_its_digest(tmp_path, disk):
    size = 2 * PIECE_BYTES + 17
    (disk / "huge").write_bytes(b"0123456789abcde\n" * (size // 16 + 1))

    def agent():
        with open(disk / "huge", "rb") as file:
            read = file.read()
        with open(disk / "copy", "wb") as file:
            for _ in range(5):
                file.write(read)
        return len(read), read[-16:]

    was, now, tape = both(tmp_path / "a.tape", FS, agent)
    assert was == now
    (read,) = [one for one in tape.events if one.name == "read" and one.kind == "tool_result"]
    assert len(read.chunks) == 3
    (write,) = [one for one in tape.events if one.name == "write" and one.kind == "tool_call"]
    assert write.inl["in"]["size"] == 5 * was[0] > WRITTEN_BYTES_MAX


@pytest.mark.parametrize("mode", ["r", "rb"])
def test_a_secret_in_a_file_is_redacted_and_a_replay_reads_what_is_left(tmp_path, disk, mode):
    (disk / "conf").write_text("# mine\napi_key=hunter2hunter2\nlast\n")

    def agent():
        with open(disk / "conf", mode) as file:
            return file.readlines()

    was, now, _ = both(tmp_path / "a.tape", FS, agent, capture="redacted")
    assert was[1] in ("api_key=hunter2hunter2\n", b"api_key=hunter2hunter2\n")
    assert now[1] in ("api_key=[secret]\n", b"api_key=[secret]\n")
    assert (now[0], now[2]) == (was[0], was[2])
    assert b"hunter2" not in (tmp_path / "a.tape").read_bytes()


def test_temporary_names_come_back_and_nothing_is_made(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def agent():
        got = []
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "x").write_text("y")
            got += [folder, os.listdir(folder)]
        made = tempfile.mkdtemp(prefix="mine")
        number, path = tempfile.mkstemp()
        os.write(number, b"z")
        os.close(number)
        with tempfile.NamedTemporaryFile("w+", suffix=".txt") as file:
            file.write("hello")
            file.seek(0)
            got += [made, path, file.name, file.read()]
        return got

    tape = recorded(tmp_path / "a.tape", with_seams(FS, lambda: got.append(agent())))
    left = sorted(os.listdir(tmp_path))
    for name in left:
        if name != "a.tape":
            place = tmp_path / name
            shutil.rmtree(place) if place.is_dir() else place.unlink()
    session = replayed(tape, with_seams(FS, lambda: got.append(agent())))
    assert session.drift is None, session.drift
    assert got[0] == got[1]
    assert os.listdir(tmp_path) == ["a.tape"]


got = []


def test_a_library_has_the_disk_as_it_is(tmp_path, disk):
    theirs = library(
        tmp_path,
        "import os, pathlib\n"
        "def read(path):\n"
        "    with open(path) as file:\n"
        "        return file.read(), pathlib.Path(path).read_text(), os.path.exists(path)\n"
        "def load(file):\n    return file.read()\n",
    )

    def agent():
        with open(disk / "a.txt", encoding="utf-8") as file:
            return theirs.read(disk / "x.csv"), theirs.load(file)

    (_, was), (_, now), tape = both(tmp_path / "a.tape", FS, agent)
    assert was == now == TEXT  # a file the agent opened is the agent's, whoever reads it
    assert [name for _, name in asked(tape)] == ["open", "read"]


def test_threads_of_the_agent_read_their_own_files(tmp_path, disk):
    names = ["a.txt", "x.csv", "x.ini"]

    def agent():
        found = {}
        for name in names:
            one = threading.Thread(target=lambda n=name: found.update({n: (disk / n).read_bytes()}))
            one.start()
            one.join()
        return found

    was, now, _ = both(tmp_path / "a.tape", FS, gone_after(disk, lambda _: agent()))
    assert was == now
    assert list(was) == names


def test_where_the_agents_own_files_are_is_told_from_their_folder(tmp_path):
    def agent():
        return (Path(__file__).resolve().parent / "capture_rig.py").read_bytes()[:3]

    _, _, tape = both(tmp_path / "a.tape", FS, agent)
    assert tape.events[1].inl["in"] == {"mode": "rb", "path": "capture_rig.py"}


def test_after_the_session_everything_is_what_it_was(tmp_path, disk):
    def all_of():
        modules = (io, os, os.path, shutil, tempfile, __builtins__, tempfile.TemporaryDirectory)
        return [dict(one if isinstance(one, dict) else vars(one)) for one in modules]

    before = all_of()
    both(tmp_path / "a.tape", FS, lambda: os.listdir(disk))
    after = all_of()
    for one, two in zip(before, after, strict=True):
        assert {k: v for k, v in one.items() if two[k] is not v} == {}
    with pathlib.Path(disk, "a.txt").open() as file:
        assert type(file.buffer.raw) is io.FileIO


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 40), st.binary(min_size=1, max_size=12)), max_size=6))
def test_pieces_hold_what_was_there_where_it_was(runs):
    found = []
    pieces = Pieces(found.append)
    place, known = 0, {}
    for gap, data in runs:
        place += gap if gap > 20 else 0
        pieces.add(place, data)
        known |= dict(enumerate(data, place))
        place += len(data)
    pieces.end()
    told = {}
    for piece in found:
        data = joined([piece])
        assert piece["size"] == len(data)
        told |= dict(enumerate(data, piece["at"]))
    assert told == known
    assert len(found) == bool(runs) + sum(gap > 20 for gap, _ in runs[1:])
