"""The format: packagings, truncation, tampering, versions."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tape_rig import HEADER, RUN, Blob, codecs, examined, facts, lines, split

from sidecar.canonical import canonical
from sidecar.errors import ExitCode, SidecarError
from sidecar.tape.compose import Composer, Fact
from sidecar.tape.faults import TapeIncomparable, TapeUnreadable
from sidecar.tape.model import SEAMS_OF, Event
from sidecar.tape.record import as_dict, as_line, from_line

SEAMS = {seam for seams in SEAMS_OF.values() for seam in seams}
PACKED = b"".join(lines(RUN, codecs=codecs(output={"volatile": ("/refunded",)})))


@pytest.mark.requirement("TAP-01")
@settings(max_examples=30)
@given(facts())
def test_digests_do_not_depend_on_the_packaging(facts_):
    store = {}
    packed, stored = examined(lines(facts_)), None
    stored = examined(lines(facts_, packed=False, store=store), store)
    assert packed.holds and stored.holds, (packed.faults, stored.faults)
    assert packed.seal == stored.seal
    assert packed.unchecked == stored.unchecked == 0


@settings(max_examples=30)
@given(facts())
def test_a_record_comes_back_as_it_was(facts_):
    for line in lines(facts_):
        assert as_line(from_line(line)) == line


@pytest.mark.requirement("TAP-01")
def test_a_tape_cut_at_any_byte_is_partial_or_refused():
    header = len(split(PACKED)[0])
    for cut in range(len(PACKED) - 1):
        try:
            found = examined(split(PACKED[:cut]))
        except TapeUnreadable as error:
            assert cut < header - 1
            assert "header" in error.what or "nothing" in error.what
            continue
        assert cut >= header - 1
        assert found.state == "partial" and not found.holds and not found.faults
        assert found.cut == (not PACKED[:cut].endswith(b"\n") and not is_json(PACKED[:cut]))


def is_json(data):
    try:
        json.loads(split(data)[-1])
    except ValueError:
        return False
    return True


@settings(max_examples=30)
@given(facts(least=1), st.data())
def test_any_tape_cut_anywhere_is_a_prefix(facts_, data):
    whole = b"".join(lines(facts_))
    cut = data.draw(st.integers(len(split(whole)[0]), len(whole) - 2))
    found = examined(split(whole[:cut]))
    assert found.state == "partial" and not found.faults


def test_a_seal_without_its_line_end_is_a_seal():
    assert examined(split(PACKED[:-1])).holds


@pytest.mark.requirement("TAP-01")
@given(st.integers(0, len(PACKED) - 1), st.integers(1, 255))
def test_a_tape_changed_anywhere_does_not_hold(place, change):
    changed = bytearray(PACKED)
    changed[place] ^= change
    try:
        found = examined(split(bytes(changed)))
    except SidecarError:
        return
    if bytes(changed).strip() == PACKED.strip():
        return
    same = [json.loads(line) for line in split(PACKED)]
    try:
        if [json.loads(line) for line in split(bytes(changed))] == same:
            return  # another spelling of the same JSON
    except ValueError:
        pass
    assert not found.holds


@pytest.mark.parametrize("gone", range(1, len(split(PACKED)) - 1))
def test_a_tape_without_one_of_its_records_does_not_hold(gone):
    kept = split(PACKED)
    record = from_line(kept.pop(gone))
    found = examined(kept)
    assert not found.holds, record


def test_records_in_another_order_do_not_hold():
    kept = [line for line in split(PACKED) if isinstance(from_line(line), Event)]
    first = split(PACKED).index(kept[0])
    turned = split(PACKED)
    turned[first], turned[first + 1] = turned[first + 1], turned[first]
    assert {fault.code for fault in examined(turned).faults} >= {"order"}


@pytest.mark.requirement("TAP-01")
@pytest.mark.parametrize("kind", SEAMS_OF)
@pytest.mark.parametrize("seam", sorted(SEAMS, key=str))
def test_a_kind_enters_at_its_seams_only(kind, seam):
    composer = Composer(HEADER, lambda *_: None)
    if seam in SEAMS_OF[kind]:
        assert composer.event(Fact(kind=kind, seam=seam)).seam == seam
        return
    with pytest.raises(ValueError, match="does not enter"):
        composer.event(Fact(kind=kind, seam=seam))
    forged = [*lines([], seal=False), as_line(Event(seq=0, kind=kind, seam=seam))]
    assert [fault.code for fault in examined(forged).faults] == ["kind_seam"]


def changed(number, **fields):
    found = split(PACKED)
    value = {**json.loads(found[number]), **fields}
    found[number] = canonical(value) + b"\n"
    return found


def first(kind):
    return next(n for n, line in enumerate(split(PACKED)) if isinstance(from_line(line), kind))


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"name": "other"}, "exact_digest"),
        ({"t": {"start": 5}}, "chain"),
        ({"seq": 7}, "order"),
        ({"cause": [3]}, "cause"),
        ({"inl": {"in": 1}}, "payload"),
        ({"kind": "no_such_kind"}, "line"),
        ({"seam": "no_such_seam"}, "line"),
        ({"in": "sha256:../../etc/passwd"}, "line"),
    ],
)
def test_a_changed_event_is_named_by_what_does_not_hold(fields, code):
    found = examined(changed(first(Event), **fields))
    assert code in {fault.code for fault in found.faults}


def test_a_second_terminal_event_and_none_at_all_are_faults():
    composer = Composer(HEADER, lambda *_: None)
    assert composer.event(RUN[-1]) is not None
    assert composer.event(RUN[-1]) is None
    assert composer.seal().counters.after_terminal == 1
    with pytest.raises(ValueError, match="terminal"):
        Composer(HEADER, lambda *_: None).seal()
    twice = [*lines([], seal=False), *(as_line(Event(seq=n, kind="terminal")) for n in (0, 1))]
    assert [fault.code for fault in examined(twice).faults] == ["terminal"]


@pytest.mark.requirement("TAP-01")
def test_fields_that_are_not_known_are_kept():
    text = changed(0, schema="tape/1.7.0", later={"x": [1]})
    record = from_line(text[0])
    assert record.more == {"later": {"x": [1]}}
    assert as_dict(record)["later"] == {"x": [1]}
    assert as_line(record) == text[0]


@pytest.mark.parametrize("schema", ["tape/2.0.0", "tape/0.1.0", "tape/10.0.0"])
def test_another_major_version_is_refused_with_a_way_on(schema):
    with pytest.raises(TapeIncomparable) as refused:
        examined(changed(0, schema=schema))
    assert refused.value.code == ExitCode.UNDECIDED
    assert "sidecar tape migrate" in refused.value.do


@pytest.mark.parametrize(
    "moment", ["yesterday", "2026-06-31T00:00:00Z", "2026-07-01", "٢026-07-01T00:00:00Z"]
)
@pytest.mark.parametrize("key", ["captured_at", "expires_at"])
def test_a_moment_that_is_none_is_refused(key, moment):
    with pytest.raises(TapeUnreadable):
        examined(changed(0, **{key: moment}))


@pytest.mark.parametrize("data", [b"", b"\n", b"{}", b"[]\n", b"not json\n", b'{"rec":"event"}\n'])
def test_what_is_no_tape_is_refused(data):
    with pytest.raises(TapeUnreadable):
        examined(split(data))


def test_a_key_that_stands_twice_is_refused():
    text = split(PACKED)
    text[0] = text[0].replace(b'"tape_id":"t-1"', b'"tape_id":"t-2","tape_id":"t-1"')
    with pytest.raises(TapeUnreadable):
        examined(text)


def test_small_payloads_stand_in_their_event_and_large_ones_are_blobs_before_it():
    records = list(map(from_line, lines(RUN)))
    call = next(one for one in records if isinstance(one, Event))
    assert "in" not in call.inl and call.inl["out"] == {"id": "r1", "text": "ok"}
    before = records[: records.index(call)]
    assert any(isinstance(one, Blob) and one.id == call.in_ for one in before)


def test_windows_line_ends_do_not_matter():
    assert examined(split(PACKED.replace(b"\n", b"\r\n"))).holds
