"""Paths lead where they say, and projecting twice changes nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tape_rig import RUN, VALUES, Blob, codecs, examined, lines

from sidecar.canonical import canonical
from sidecar.tape.codec import Codec, Codecs, Projection, Projector, profile_digest, with_volatile
from sidecar.tape.compose import Fact
from sidecar.tape.model import Event
from sidecar.tape.paths import Paths, pointer
from sidecar.tape.record import from_line

PATHS = st.lists(
    st.sampled_from(["", "/a", "/b/*", "/**/a", "/*/*", "/**", "/a/**/b", "/~1", "/~2"]), max_size=3
)


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("/a", ["/a"]),
        ("/list/*/id", ["/list/0/id", "/list/1/id"]),
        ("/**/id", ["/list/0/id", "/list/1/id"]),
        ("/~1", ["/~1"]),
        ("/~2", ["/~2"]),
        ("/*", ["/a", "/list", "/~1", "/~2"]),
        ("", [""]),
        ("/no", []),
    ],
)
def test_a_path_finds_what_it_names(path, found):
    value = {"a": 1, "list": [{"id": 1}, {"id": 2}], "/": 3, "*": 4}
    assert [where for where, _ in Paths([path]).found(value)] == found


@given(st.lists(st.text(st.sampled_from("a/~*02"), max_size=4), min_size=1, max_size=4))
def test_a_pointer_leads_to_its_keys(keys):
    value = "here"
    for key in reversed(keys):
        value = {key: value, key + "-": "not"}
    assert list(Paths([pointer(keys)]).found(value)) == [(pointer(keys), "here")]


@given(VALUES, PATHS, PATHS, PATHS, PATHS)
def test_projecting_twice_changes_nothing(value, volatile, unordered, numbers, fields):
    projector = Projector(
        Projection(
            fields=tuple(fields),
            volatile=tuple(volatile),
            unordered=tuple(unordered),
            numbers=dict.fromkeys(numbers, 3),
            times=("/**",),
        )
    )
    before = canonical(value)
    once = projector.project(value)
    assert canonical(projector.project(once)) == canonical(once)
    assert canonical(value) == before


@pytest.mark.parametrize("value", [[{"": None}], {"a": {"b": 1}}, [[1], []], {"a": [{"a": 1}, 2]}])
@pytest.mark.parametrize("path", ["", "/*", "/*/*", "/**/a", "/a", "/a/*/a"])
@pytest.mark.parametrize("fields", ["/*", "/*/*", "/**/a", "/a"])
def test_what_is_left_of_digested_fields_is_left_again(value, path, fields):
    project = Projector(Projection(volatile=(path,), fields=(fields,), unordered=("/**",))).project
    assert canonical(project(project(value))) == canonical(project(value))


def digest_of(output, codecs_):
    (event,) = [
        record
        for line in lines(
            [Fact(kind="tool_result", seam="tool", output=output), RUN[-1]], codecs=codecs_
        )
        if isinstance(record := from_line(line), Event) and record.kind == "tool_result"
    ]
    return event.out_n or event.out


@pytest.mark.parametrize(
    ("projection", "left", "right"),
    [
        ({"volatile": ("/at",)}, {"at": 1, "x": 2}, {"at": 9, "x": 2}),
        ({"unordered": ("/rows",)}, {"rows": [1, 2]}, {"rows": [2, 1]}),
        ({"unordered": ("/**",)}, [[1, 2], [3]], [[3], [2, 1]]),
        ({"numbers": {"/x": 2}}, {"x": 1.001}, {"x": 1.0}),
        (
            {"times": ("/t",)},
            {"t": "2026-07-01T12:00:00Z"},
            {"t": "2026-07-01T14:00:00.000+02:00"},
        ),
        ({"fields": ("/x",)}, {"x": 1, "y": 2}, {"x": 1, "y": 3}),
    ],
)
@pytest.mark.requirement("TAP-01")
@pytest.mark.row("R37")
def test_what_a_codec_lets_go_is_no_difference(projection, left, right):
    with_it, without = codecs(output=projection), Codecs({})
    assert digest_of(left, with_it) == digest_of(right, with_it)
    assert digest_of(left, without) != digest_of(right, without)


def test_a_codecs_definition_is_in_the_tape_and_its_fingerprint_in_the_header():
    made = codecs(output={"volatile": ("/at",)})
    records = list(map(from_line, lines(RUN, codecs=made)))
    (fingerprint,) = records[0].codecs.values()
    assert fingerprint == made.by_seam["tool"].fingerprint()
    assert any(isinstance(one, Blob) and one.id == fingerprint for one in records)


def test_another_codec_makes_another_exact_digest_and_another_schema_version_does_not():
    one = examined(lines(RUN, codecs=codecs(output={"volatile": ("/at",)})))
    other = examined(lines(RUN, codecs=codecs(output={"volatile": ("/on",)})))
    assert one.computed.exact_digest != other.computed.exact_digest
    text = lines(RUN)
    bumped = [text[0].replace(b"tape/1.0.0", b"tape/1.9.9"), *text[1:]]
    assert examined(bumped).computed.exact_digest == examined(text).computed.exact_digest


@pytest.mark.parametrize(
    "projection",
    [
        {"volatile": ("a",)},
        {"numbers": {"/a": -(10**9)}},
        {"fields": ("/a",) * 1000},
        {"ids": ("/a" * 100,)},
        {"unordered": ("/**",), "volatile": ("/0",)},
    ],
)
def test_a_codec_that_could_do_harm_is_refused(projection):
    with pytest.raises(ValueError, match=r"path|places|steps"):
        codecs(output=projection)


@pytest.mark.row("R13", "R21")
def test_a_users_own_places_are_added_and_have_a_digest():
    profile = {"tool": Codec(seam="tool", output=Projection(volatile=("/now",)))}
    base = {"tool": Codec(seam="tool", output=Projection(volatile=("/at",)))}
    merged = with_volatile(base, profile)
    assert merged.output_of("tool").project({"now": 1, "at": 2, "x": 3}) == {"x": 3}
    assert profile_digest(profile) != profile_digest(base)
