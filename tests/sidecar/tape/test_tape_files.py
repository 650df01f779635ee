"""Tapes on disk: crashes, threads, tasks, full disks, forks, and what is refused."""

import asyncio
import os
import resource
import signal
import subprocess
import sys
import threading

import pytest
from hypothesis import given, settings
from tape_rig import HEADER, RUN, codecs, facts, written

from sidecar.errors import SidecarError
from sidecar.tape.compose import Fact
from sidecar.tape.files import BlobStore, TapeWriter, examine, migrate, read_tape, repack
from sidecar.tape.model import SCHEMA, Blob
from sidecar.tape.redaction import Redactor
from sidecar.tape.tape import MISSING

TICK = Fact(kind="decision", seam="clock", agent="a", name="time", output=1.5)


@pytest.mark.requirement("TAP-01")
def test_packing_and_unpacking_change_no_digest(tmp_path):
    seal = written(tmp_path / "a.tape", RUN)
    (tmp_path / "b").mkdir()
    (tmp_path / "c").mkdir()
    stored = repack(tmp_path / "a.tape", tmp_path / "b" / "b.tape", "store")
    packed = repack(tmp_path / "b" / "b.tape", tmp_path / "c" / "c.tape", "packed")
    assert stored.holds and packed.holds
    assert stored.seal == packed.seal == seal
    assert (tmp_path / "c" / "c.tape").read_bytes() == (tmp_path / "a.tape").read_bytes()
    tape = read_tape(tmp_path / "b" / "b.tape")
    assert tape.payload(tape.events[0], "in") == {"messages": ["long " * 600]}
    assert tape.payload(tape.events[1], "out") is MISSING


@settings(max_examples=30)
@given(facts())
def test_what_was_written_is_read_back(tmp_path_factory, facts_):
    path = tmp_path_factory.mktemp("tapes") / "a.tape"
    written(path, facts_, redactor=Redactor())
    tape = read_tape(path)
    assert tape.examination.holds
    assert [event.kind for event in tape.events] == [fact.kind for fact in facts_]
    assert all(event.cause == fact.cause for event, fact in zip(tape.events, facts_, strict=True))


def test_one_store_serves_many_tapes_and_holds_a_payload_once(tmp_path):
    for name in ("a", "b"):
        written(tmp_path / f"{name}.tape", RUN, packaging="store")
    files = [path for path in (tmp_path / "blobs").rglob("*") if path.is_file()]
    assert len(files) == len(read_tape(tmp_path / "a.tape").blobs)
    assert all(len(path.relative_to(tmp_path / "blobs").parts) == 4 for path in files)
    long = [path for path in files if path.suffix == ".gz"]
    assert len(long) == 0 or all(path.read_bytes()[4:8] == b"\0\0\0\0" for path in long)
    assert all(path.stat().st_mode & 0o077 == 0 for path in files)


def test_a_large_blob_is_gzip_without_a_time(tmp_path):
    store, data = BlobStore(tmp_path), b'"' + b"x" * 5000 + b'"'
    import hashlib

    digest = "sha256:" + hashlib.sha256(data).hexdigest()
    store.put(digest, data)
    (file,) = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert file.suffix == ".gz" and file.read_bytes()[4:8] == b"\0\0\0\0"
    assert store.get(Blob(id=digest, size=len(data))) == data


def test_a_missing_and_a_changed_blob_are_named(tmp_path):
    written(tmp_path / "a.tape", RUN, packaging="store")
    files = [path for path in (tmp_path / "blobs").rglob("*") if path.is_file()]
    sizes = sorted(files, key=lambda path: path.stat().st_size)
    sizes[-1].unlink()
    sizes[0].write_bytes(b"x" * sizes[0].stat().st_size)
    found = examine(tmp_path / "a.tape")
    assert {fault.code for fault in found.faults} == {"blob_missing", "blob_content"}
    with pytest.raises(SidecarError):
        repack(tmp_path / "a.tape", tmp_path / "b.tape", "packed")
    assert not (tmp_path / "b.tape").exists()


def test_no_file_is_overwritten(tmp_path):
    (tmp_path / "a.tape").write_text("mine")
    with pytest.raises(SidecarError, match="already"):
        TapeWriter(tmp_path / "a.tape", HEADER)
    assert (tmp_path / "a.tape").read_text() == "mine"


def test_threads_and_tasks_may_write_at_once(tmp_path):
    tape = TapeWriter(tmp_path / "a.tape", HEADER, packaging="store")

    def write(number):
        for one in range(20):
            call = Fact(kind="tool_call", seam="tool", agent=f"a{number}", name="x", input=one)
            seq = tape.event(call)
            tape.event(
                Fact(kind="tool_result", seam="tool", agent=f"a{number}", name="x", cause=(seq,))
            )

    async def tasks():
        await asyncio.gather(*(asyncio.to_thread(write, n) for n in range(3)))

    threads = [threading.Thread(target=write, args=(n,)) for n in range(3, 6)]
    for thread in threads:
        thread.start()
    asyncio.run(tasks())
    for thread in threads:
        thread.join()
    tape.event(RUN[-1])
    assert tape.seal().events == 6 * 40 + 1
    found = read_tape(tmp_path / "a.tape")
    assert found.examination.holds
    assert {event.ord for event in found.events if event.agent == "a0"} == set(range(20))


KILLED = """
import os, sys
from pathlib import Path
from sidecar.tape.compose import Fact
from sidecar.tape.files import TapeWriter
from sidecar.tape.model import Header
assert not {name for name in sys.modules if name.split(".")[0] in ("processors", "aiohttp", "grpc")}
tape = TapeWriter(Path(sys.argv[1]), Header(tape_id="t"))
for n in range(50):
    tape.event(Fact(kind="tool_call", seam="tool", name="x", input="long " * 2000 + str(n)))
os.kill(os.getpid(), 9)
"""


@pytest.mark.requirement("TAP-01")
def test_a_killed_process_leaves_every_event_it_wrote_and_needs_no_server_code(tmp_path):
    done = subprocess.run([sys.executable, "-c", KILLED, tmp_path / "a.tape"], timeout=60)
    assert done.returncode == -signal.SIGKILL
    found = examine(tmp_path / "a.tape")
    assert found.state == "partial" and found.events == 50 and not found.faults
    stored = repack(tmp_path / "a.tape", tmp_path / "b.tape", "store")
    assert stored.state == "partial" and stored.events == 50


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
def test_a_full_disk_ends_the_tape_and_not_the_agent(tmp_path):
    tape = TapeWriter(tmp_path / "a.tape", HEADER)
    kept = tape.event(TICK)
    full = os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, tape._file)
    os.close(full)
    assert tape.event(TICK) is None
    assert tape.fault is not None and tape.event(TICK) is None and tape.put(1) is None
    with pytest.raises(SidecarError, match="partial"):
        tape.seal()
    tape.close()
    found = examine(tmp_path / "a.tape")
    assert (kept, found.events, found.state) == (0, 1, "partial")


@pytest.mark.parametrize("packaging", ["packed", "store"])
def test_a_disk_that_is_full_leaves_no_half_of_a_new_packaging(tmp_path, packaging):
    whole = tmp_path / "a.tape"
    written(whole, RUN)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (16, before[1]))
    try:
        with pytest.raises(SidecarError, match="cannot be written"):
            repack(whole, tmp_path / "b.tape", packaging)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not (tmp_path / "b.tape").exists() and examine(whole).holds


def test_a_payload_that_no_tape_holds_is_counted(tmp_path):
    tape = TapeWriter(tmp_path / "a.tape", HEADER)
    tape.event(Fact(kind="tool_call", seam="tool", name="\ud800", agent="\udfff", input={1, 2}))
    tape.drop()
    tape.event(RUN[-1])
    seal = tape.seal()
    assert (seal.counters.truncated, seal.counters.dropped) == (1, 1)
    assert examine(tmp_path / "a.tape").holds


def test_what_comes_in_from_within_is_counted_not_mixed_in(tmp_path):
    class Meddling(Redactor):
        def value(self, value, seen=None):
            if value == {"again": True}:
                assert tape.event(TICK) is None
            return super().value(value, seen)

    tape = TapeWriter(tmp_path / "a.tape", HEADER, redactor=Meddling())
    tape.event(Fact(kind="tool_call", seam="tool", input={"again": True}))
    tape.event(RUN[-1])
    assert tape.seal().counters.dropped == 1
    assert examine(tmp_path / "a.tape").holds


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_writes_nothing(tmp_path):
    tape = TapeWriter(tmp_path / "a.tape", HEADER)
    tape.event(TICK)
    child = os.fork()
    if child == 0:
        os._exit(0 if tape.event(TICK) is None else 1)
    assert os.waitpid(child, 0)[1] == 0
    tape.event(RUN[-1])
    assert tape.seal().events == 2
    assert examine(tmp_path / "a.tape").holds


def test_chunks_of_a_stream_are_kept_as_they_come(tmp_path):
    tape = TapeWriter(tmp_path / "a.tape", HEADER)
    chunks = [tape.put({"delta": text}) for text in ("he", "llo")]
    assert examine(tmp_path / "a.tape").events == 0
    tape.event(Fact(kind="llm_call", seam="provider", input="q", chunks=tuple(chunks)))
    tape.event(RUN[-1])
    tape.seal()
    found = read_tape(tmp_path / "a.tape")
    assert found.chunks(found.events[0]) == [{"delta": "he"}, {"delta": "llo"}]


def alias(path, to):
    """The same tape with payloads named by BLAKE2b, as another recorder wrote it."""
    import hashlib
    import json

    from sidecar.canonical import canonical
    from sidecar.tape.model import Event
    from sidecar.tape.record import as_dict, as_line, blob_data, from_line
    from sidecar.tape.seal import Sealer

    names, out, sealer, counters = {}, [], None, None
    for line in path.read_bytes().splitlines():
        record = from_line(line)
        value = json.loads(line)
        if isinstance(record, Blob) and record.id not in sealer_codecs(out):
            data = blob_data(record)
            names[record.id] = "b2b:" + hashlib.blake2b(data, digest_size=32).hexdigest()
            value["id"] = names[record.id]
        for key in ("in", "out"):
            if value.get("rec") == "event" and value.get(key) in names:
                value[key] = names[value[key]]
        record = from_line(canonical(value))
        if sealer is None:
            sealer = Sealer(record)
        elif isinstance(record, Event):
            sealer.add_event(record, canonical(as_dict(record)))
        elif isinstance(record, Blob):
            sealer.add_blob(record)
        else:
            counters = record
            record = sealer.seal(counters.counters, counters.leaks, {})
        out.append(as_line(record))
    to.write_bytes(b"".join(out))


def sealer_codecs(out):
    from sidecar.tape.record import from_line

    return set(from_line(out[0]).codecs.values()) if out else set()


@pytest.mark.requirement("TAP-01")
def test_imported_digests_are_read_and_migrated(tmp_path):
    seal = written(tmp_path / "a.tape", RUN)
    alias(tmp_path / "a.tape", tmp_path / "b.tape")
    assert b"b2b:" in (tmp_path / "b.tape").read_bytes()
    old = examine(tmp_path / "b.tape")
    assert old.holds, old.faults
    anew, reasons = migrate(tmp_path / "b.tape", tmp_path / "c.tape", "packed", tape_id="t-2")
    assert reasons == ["b2b digests"] and anew.holds, anew.faults
    assert anew.seal.exact_digest == seal.exact_digest
    assert anew.header.derived_from.exact_digest == old.seal.exact_digest
    assert anew.header.tape_id == "t-2" and anew.header.schema == SCHEMA


def test_migrating_to_other_codecs_projects_anew_and_needs_content(tmp_path):
    other = codecs(output={"volatile": ("/refunded",), "ids": ("/refunded",)})
    written(tmp_path / "a.tape", RUN)
    direct = written(tmp_path / "direct.tape", RUN, codecs=other)
    anew, reasons = migrate(
        tmp_path / "a.tape", tmp_path / "b.tape", "store", tape_id="t-2", codecs=other
    )
    assert reasons == ["codecs"] and anew.holds and not anew.unchecked
    assert anew.seal.exact_digest == direct.exact_digest
    assert anew.seal.behavior_digest == direct.behavior_digest
    written(tmp_path / "bare.tape", RUN, content=False)
    with pytest.raises(SidecarError, match="no content"):
        migrate(tmp_path / "bare.tape", tmp_path / "c.tape", "packed", tape_id="t-3", codecs=other)
    assert not (tmp_path / "c.tape").exists()


def later_fields(path, to):
    """The same run as a later minor version might write it, sealed."""
    from sidecar.canonical import canonical
    from sidecar.tape.model import Event, Header, Seal
    from sidecar.tape.record import as_dict, as_line, from_dict, from_line
    from sidecar.tape.seal import Sealer

    out, sealer = [], None
    for line in path.read_bytes().splitlines():
        record = from_line(line)
        value = as_dict(record)
        if isinstance(record, Header):
            value |= {"schema": "tape/1.4.0", "redactor": {**value["redactor"], "later": [1]}}
            sealer = Sealer(from_dict(value))
        elif isinstance(record, Event):
            value["later"] = {"x": 1}
            if "err" in value:
                value["err"] = {**value["err"], "stack": "s"}
            sealer.add_event(from_dict(value), canonical(value))
        elif isinstance(record, Seal):
            value = as_dict(sealer.seal(record.counters, record.leaks, {"later": True}))
        else:
            sealer.add_blob(record)
        assert as_line(from_dict(value)) == canonical(value) + b"\n"
        out.append(canonical(value) + b"\n")
    to.write_bytes(b"".join(out))


@pytest.mark.requirement("TAP-01")
def test_what_a_later_version_wrote_is_kept_at_every_depth(tmp_path):
    written(tmp_path / "a.tape", RUN)
    later_fields(tmp_path / "a.tape", tmp_path / "b.tape")
    assert examine(tmp_path / "b.tape").holds
    anew, _ = migrate(tmp_path / "b.tape", tmp_path / "c.tape", "packed", tape_id="t-2")
    text = (tmp_path / "c.tape").read_text()
    assert anew.holds
    assert '"later":[1]' in text and '"stack":"s"' in text and '"later":{"x":1}' in text
    stored = repack(tmp_path / "b.tape", tmp_path / "d.tape", "store")
    assert stored.holds and stored.seal == examine(tmp_path / "b.tape").seal


def test_migrating_keeps_what_is_not_known_and_what_needs_nothing(tmp_path):
    written(tmp_path / "a.tape", RUN)
    same, reasons = migrate(tmp_path / "a.tape", tmp_path / "b.tape", "packed", tape_id="t-2")
    assert reasons == [] and same.header == examine(tmp_path / "a.tape").header
    text = (tmp_path / "a.tape").read_bytes().splitlines(keepends=True)
    text[0] = text[0].replace(b"tape/1.0.0", b"tape/1.3.0").replace(b'"rec"', b'"new":7,"rec"')
    (tmp_path / "later.tape").write_bytes(b"".join(text[:-1]))
    anew, reasons = migrate(tmp_path / "later.tape", tmp_path / "d.tape", "packed", tape_id="t-3")
    assert reasons == ["schema tape/1.3.0"] and anew.state == "partial"
    assert anew.header.more == {"new": 7}
