"""Tapes made to do harm: they neither hang, nor fill the memory, nor leave their folder."""

import base64
import gzip
import json
import random
import time

import pytest
from tape_rig import HEADER, RUN, codecs, examined, lines, written

from sidecar.canonical import canonical
from sidecar.errors import SidecarError
from sidecar.tape.compose import Fact
from sidecar.tape.files import BlobStore, examine
from sidecar.tape.model import Blob, Event
from sidecar.tape.record import as_line, blob_of, from_line
from sidecar.tape.redaction import Redactor
from sidecar.tape.value import address


def with_line(value):
    return [*lines([], seal=False), canonical(value) + b"\n"]


def blob_line(data, size, digest=None):
    packed = base64.b64encode(gzip.compress(data)).decode()
    name = digest or address(data)
    return {"rec": "blob", "id": name, "size": size, "gz": True, "data": packed}


@pytest.mark.parametrize("size", [10, 64 * 1024 * 1024, -1])
def test_a_blob_that_unpacks_to_more_than_it_says_is_a_fault(size):
    bomb = b'"' + b"0" * (65 * 1024 * 1024) + b'"' if size > 10 else b'"' + b"0" * 100_000 + b'"'
    found = examined(with_line(blob_line(bomb, size)))
    assert [fault.code for fault in found.faults] in (["blob_content"], ["line"])


@pytest.mark.parametrize(
    "name",
    [
        "sha256:../../../../etc/passwd",
        "../x",
        "sha256:" + "/" * 64,
        "sha256:" + "A" * 64,
        "x:y",
        "",
    ],
)
def test_a_blob_with_a_path_for_a_name_is_refused(tmp_path, name):
    line = canonical({"rec": "blob", "id": name, "size": 5}) + b"\n"
    (tmp_path / "a.tape").write_bytes(b"".join([*lines([], seal=False), line]))
    assert [fault.code for fault in examine(tmp_path / "a.tape").faults] == ["line"]
    with pytest.raises((ValueError, AssertionError)):
        BlobStore(tmp_path).get(Blob(id=name, size=5))


def test_a_blob_that_is_a_link_out_of_the_store_is_not_believed(tmp_path):
    (tmp_path / "secret").write_text("root:x:0:0")
    name = "sha256:" + "a" * 64
    place = tmp_path / "blobs" / "sha256" / "aa" / "aa"
    place.mkdir(parents=True)
    (place / ("a" * 64)).symlink_to(tmp_path / "secret")
    with pytest.raises(ValueError, match="digest"):
        BlobStore(tmp_path / "blobs").get(Blob(id=name, size=10))


@pytest.mark.parametrize(
    "line",
    [
        b'{"rec":"event","attr":' + b"[" * 100_000 + b"]" * 100_000 + b"}\n",
        b'{"rec":"event","seq":' + b"9" * 10_000 + b"}\n",
        b'{"rec":"event","seq":0,"kind":"terminal","attr":{"x":1e999}}\n',
        b'{"rec":"event","seq":0,"kind":"terminal","name":"\\ud800"}\n',
        b'{"rec":"event","seq":0,"seq":0,"kind":"terminal"}\n',
        b"\xff\xfe\n",
        b"\n",
    ],
)
def test_a_line_that_no_json_reader_likes_is_a_fault(line):
    found = examined([*lines([], seal=False), line])
    assert [fault.code for fault in found.faults] == ["line"]


def test_a_line_without_end_is_not_read_whole(tmp_path, monkeypatch):
    from sidecar.tape import record
    from sidecar.tape.files import reading

    monkeypatch.setattr(reading, "LINE_BYTES_MAX", 4096)
    monkeypatch.setattr(record, "LINE_BYTES_MAX", 4096)
    (tmp_path / "a.tape").write_bytes(b"".join(lines([], seal=False)) + b"x" * 100_000)
    found = examine(tmp_path / "a.tape")
    assert found.state == "partial" and found.cut


def test_faults_are_bounded_and_the_rest_is_counted():
    forged = (as_line(Event(seq=n, kind="terminal", seam="tool")) for n in range(300))
    found = examined([*lines([], seal=False), *forged])
    assert len(found.faults) == 100 and found.more_faults > 100


def test_a_tape_whose_codecs_are_made_to_be_slow_is_not_projected():
    slow = {"seam": "tool", "output": {"volatile": ["/**/a" * 30] * 5000}}
    data = canonical(slow)
    head = json.loads(lines([], seal=False)[0])
    head["codecs"] = {"tool": address(data)}
    event = Event(seq=0, kind="tool_call", seam="tool", in_=address(b"1"), inl={"in": 1})
    found = examined(
        [
            canonical(head) + b"\n",
            as_line(blob_of(address(data), data, packed=True)),
            as_line(event),
        ]
    )
    assert found.unchecked == 1 and not found.faults


def test_many_identifiers_and_many_events_take_time_in_proportion():
    ids = codecs(output={"ids": ("/*",)})
    run = [
        Fact(kind="tool_result", seam="tool", agent=f"a{n % 7}", output=[f"id-{n}", f"no-{n}"])
        for n in range(200)
    ]
    use = [Fact(kind="tool_call", seam="tool", agent="z", input=f"id-{n}") for n in range(200)]
    start = time.process_time()
    found = examined(lines([*run, *use, RUN[-1]], codecs=ids))
    assert found.holds and time.process_time() - start < 20


@pytest.mark.parametrize(
    "text",
    [
        "eyJ" * 100_000,
        "a@" * 100_000,
        "1 " * 100_000,
        "-----BEGIN PRIVATE KEY-----" * 5_000,
        "bearer " * 50_000,
        '"password":"' * 30_000,
        "token=" * 50_000,
        "://a" * 50_000,
        "a." * 100_000 + "@",
        "[" * 100_000,
        "\\" * 100_000,
        '"password": "' + "\\" * 100_000,
    ],
)
def test_no_text_makes_redaction_hang(text):
    start = time.process_time()
    Redactor().text(text)
    assert time.process_time() - start < 5


JUNK = [
    *(None, True, -1, 1.5, 2**53 - 1, "", "x", "sha256:" + "0" * 64, [], {}, [0], [10**6]),
    *({"$b64": "!!"}, {"a": {}}, "9999-12-31T23:59:59Z", "0001-01-01T00:00:00+23:59", "tool"),
]
PLACES = ["cause", "inl", "in", "in_b", "out", "codecs", "rec", "gz", "data", "size", "t", "err"]


def mutated(value, rng):
    """A record with one place of it changed, taken away or added."""
    node = value = json.loads(json.dumps(value))
    while isinstance(node, dict) and node:
        key = rng.choice(list(node))
        if isinstance(node[key], dict) and node[key] and rng.random() < 0.7:
            node = node[key]
            continue
        way = rng.random()
        if way < 0.2:
            del node[key]
        else:
            node[key if way > 0.4 else rng.choice(PLACES)] = json.loads(
                json.dumps(rng.choice(JUNK))
            )
        break
    return value


@pytest.mark.requirement("TAP-01")
def test_a_tape_with_any_field_changed_is_refused_or_does_not_hold():
    ids = codecs(input={"volatile": ("/x",), "times": ("/t",)}, output={"ids": ("/id",)})
    used = Fact(kind="tool_call", seam="tool", input={"x": 1, "t": "2026-01-01", "u": ["T-1"]})
    minted = Fact(kind="tool_result", seam="tool", agent="b", output={"id": "T-1"})
    base = lines([*RUN[:-1], minted, used, RUN[-1]], codecs=ids)
    records = list(map(json.loads, base))
    rng = random.Random(7)
    for _ in range(800):
        place = rng.randrange(len(base))
        changed = mutated(records[place], rng)
        text = [*base[:place], json.dumps(changed).encode() + b"\n", *base[place + 1 :]]
        try:
            found = examined(text)
        except SidecarError:
            continue
        added = records[place]["rec"] == "blob" and keeps(records[place], changed)
        assert changed == records[place] or added or not found.holds


def keeps(before, after):
    """Whether everything that was there is there still."""
    if not isinstance(before, dict):
        return type(before) is type(after) and before == after
    return isinstance(after, dict) and all(keeps(item, after.get(k)) for k, item in before.items())


def test_html_and_escape_sequences_are_only_text(tmp_path):
    nasty = "</script><script>alert(1)</script>\x1b[2J\u202e"
    run = [Fact(kind="tool_call", seam="tool", name=nasty, input=nasty, agent=nasty), RUN[-1]]
    written(tmp_path / "a.tape", run, header=HEADER)
    assert examine(tmp_path / "a.tape").holds
    assert from_line((tmp_path / "a.tape").read_bytes().splitlines()[3]).name == nasty
