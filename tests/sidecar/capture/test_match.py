"""A crossing against a tape: each single change has its kind of drift, and no change has none."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.canonical import canonical
from sidecar.capture.comparable import fingerprints, obstacles
from sidecar.capture.match import ASKED, Answer, Crossing, Recorded, slower
from sidecar.capture.play import Cursor
from sidecar.tape.codec import DEFAULT, Codecs
from sidecar.tape.compose import Fact
from sidecar.tape.files import TapeWriter, read_tape
from sidecar.tape.model import AgentBuild, Git, Header
from sidecar.tape.redaction import Redactor
from sidecar.tape.value import address, encoded

CODECS = Codecs(DEFAULT)
REQUEST = {
    "model": "m-1",
    "messages": [{"role": "user", "content": "refund it"}],
    "tools": [{"name": "refund"}],
    "temperature": 0,
    "timeout": 30,
}


def call(name, site, value, **more):
    return Fact(kind="tool_call", seam="tool", name=name, site=site, input=value, **more)


def result(name, site, value, cause, **more):
    return Fact(
        kind="tool_result",
        seam="tool",
        name=name,
        site=site,
        output=value,
        cause=(cause,),
        status="ok",
        **more,
    )


RUN = [
    Fact(kind="llm_call", seam="provider", name="m-1", site="s:llm", input=REQUEST, output="go"),
    call("read", "s:read", {"order": 1}),
    result("read", "s:read", {"total": 49}, 1, start_ns=0, end_ns=1000),
    call("read", "s:read", {"order": 2}),
    result("read", "s:read", {"total": 50}, 3),
    call("refund", "s:refund", {"order": 1, "amount": 49}, cause=(4,)),
    result("refund", "s:refund", {"refunded": 49}, 5),
    Fact(
        kind="terminal",
        status="ok",
        output={"output": "done", "claimed": "success", "verified": None, "reason": None},
    ),
]
HEADER = Header(tape_id="t", fidelity="L3")


@pytest.fixture(scope="module")
def tape(tmp_path_factory):
    return made(tmp_path_factory.mktemp("tape"), RUN)


@pytest.fixture(scope="module")
def recorded(tape):
    return Recorded(tape, CODECS)


def made(folder, facts, header=HEADER, seal=True):
    path = folder / "run.tape"
    with TapeWriter(path, header) as writer:
        for fact in facts:
            writer.event(fact)
        if seal:
            writer.seal()
    return read_tape(path)


def matched(recorded, fact, seq, done=()):
    """What a fact asked in the place of an event is, after some were asked for."""
    events = recorded.tape.events
    left = {one.seq for one in events if one.kind in ASKED} - {*done}
    return recorded.match(asks(fact), None if seq is None else events[seq], left)


def asks(fact):
    """The crossing that asks what a fact says was asked."""
    given = Redactor().value(encoded(fact.input))
    counted = CODECS.input_of(fact.seam).project(given)
    return Crossing(
        kind=fact.kind,
        seam=fact.seam,
        agent=fact.agent,
        site=fact.site,
        name=fact.name,
        given=given,
        digest=address(canonical(given)),
        normal=address(canonical(counted)),
    )


def request(**changes):
    return Fact(
        kind="llm_call",
        seam="provider",
        name=changes.get("model", "m-1"),
        site="s:llm",
        input={**REQUEST, **changes},
    )


@pytest.mark.requirement("REP-02")
def test_what_was_recorded_is_no_drift(recorded):
    done = []
    for seq in (0, 1, 3, 5):
        found = matched(recorded, RUN[seq], seq, done)
        assert (found.seq, found.drift, found.noise) == (seq, (), False)
        assert found.told() == "as recorded" and found.kind is None
        done.append(seq)


@pytest.mark.requirement("REP-02")
@pytest.mark.parametrize(
    ("changes", "drift", "place"),
    [
        (
            {"messages": [{"role": "user", "content": "refund it!"}]},
            "PROMPT",
            "/messages/0/content",
        ),
        ({"temperature": 1}, "PARAMS", "/temperature"),
        ({"model": "m-2"}, "PARAMS", "/model"),
        ({"tools": []}, "TOOLSET", "/tools/0"),
    ],
)
@pytest.mark.row("R2")
def test_a_changed_request_is_of_the_kind_of_what_changed(recorded, changes, drift, place):
    found = matched(recorded, request(**changes), 0)
    assert (found.drift, found.kind, found.seq) == ((drift,), drift, 0)
    nearest = found.candidates[0]
    assert (nearest.seq, nearest.why) == (0, "here")
    assert [one.pointer for one in nearest.places] == [place]
    assert place in found.told() and "refund it" not in found.told()


@pytest.mark.requirement("REP-02")
def test_what_only_a_codec_leaves_out_is_noise(recorded):
    found = matched(recorded, request(timeout=60), 0)
    assert found.drift == () and found.noise and found.seq == 0


@pytest.mark.requirement("REP-02")
@pytest.mark.row("R11")
def test_a_changed_argument_is_args_and_names_its_place(recorded):
    found = matched(recorded, call("refund", "s:refund", {"order": 1, "amount": 94}), 5, (0, 1, 3))
    assert (found.drift, found.seq) == (("ARGS",), 5)
    place = found.candidates[0].places[0]
    assert (place.pointer, place.left, place.right) == ("/amount", 49, 94)


@pytest.mark.requirement("REP-02")
def test_an_input_that_comes_at_another_time_is_order(recorded):
    found = matched(recorded, RUN[3], 1, (0,))
    assert (found.drift, found.seq) == (("ORDER",), 1)
    assert (found.candidates[0].seq, found.candidates[0].why) == (3, "order")
    # Its place is right, and what comes after it is over.
    late = recorded.match(asks(RUN[3]), recorded.tape.events[3], {3}, ahead=5)
    assert (late.drift, late.ahead, late.seq) == (("ORDER",), 5, 3)
    assert "which comes after it" in late.told() and late.told().startswith("ORDER at seq 3: ")


@pytest.mark.requirement("REP-02")
def test_what_is_overtaken_is_out_of_order_when_it_comes_and_else_missing(tmp_path):
    side = [
        RUN[0],
        call("read", "s:read", {"order": 1}, cause=(0,)),
        call("refund", "s:refund", {"order": 1}, cause=(0,)),
        result("read", "s:read", 1, 1),
        result("refund", "s:refund", 1, 2),
        call("mail", "s:mail", {}, cause=(3, 4)),
        RUN[-1],
    ]
    events = made(tmp_path, side).events
    # Calls that come after the same come in any order; what comes after both is overtaken by none.
    cursor = Cursor(events)
    for seq in (0, 2, 1, 5):
        assert cursor.ahead(events[seq]) is None
        cursor.take(events[seq])
    cursor = Cursor(events)
    for seq in (0, 1, 5):
        cursor.take(events[seq])
    assert cursor.ahead(events[2]) == 5
    assert [one.seq for one in cursor.left] == [2]


@pytest.mark.requirement("REP-02")
def test_a_site_that_moved_explains_and_is_no_kind_of_its_own(recorded):
    moved = call("refund", "s:elsewhere", {"order": 1, "amount": 49})
    found = matched(recorded, moved, None, (0, 1, 3))
    assert (found.drift, found.moved, found.seq) == (("EXTRA_CALL",), 5, None)
    assert (found.candidates[0].seq, found.candidates[0].why) == (5, "moved")
    assert "another site" in found.told()


@pytest.mark.requirement("REP-02")
@pytest.mark.row("R2")
def test_one_call_more_says_how_many_there_were(recorded):
    found = matched(recorded, RUN[3], None, (0, 1, 3))
    assert (found.drift, found.recorded, found.seq) == (("EXTRA_CALL",), 2, None)
    assert {one.seq for one in found.candidates} == {1, 3}
    assert all(one.used for one in found.candidates)
    assert "2 on the tape here" in found.told()
    # It leaves nothing behind: what follows is found as ever.
    assert matched(recorded, RUN[5], 5, (0, 1, 3)).drift == ()


@pytest.mark.requirement("REP-02")
def test_another_tool_at_the_site_is_one_more_and_one_less(recorded):
    found = matched(recorded, call("delete", "s:refund", {"order": 1}), 5, (0, 1, 3))
    assert found.drift == ("EXTRA_CALL", "MISSING_CALL") and found.seq == 5


@pytest.mark.requirement("REP-02")
def test_what_nothing_is_like_is_said_so(recorded):
    found = matched(recorded, call("pay", "s:pay", {}), None)
    assert found.drift == ("EXTRA_CALL",) and found.candidates == ()
    assert found.told() == "EXTRA_CALL: nothing like it is on the tape"


def answer(value, status="ok", error=None):
    given = encoded(value)
    return Answer(status=status, error=error, given=given, digest=address(canonical(given)))


@pytest.mark.requirement("REP-02")
def test_an_answer_differs_by_result_error_output_or_claim(recorded, tape):
    read, end = tape.events[2], tape.events[7]
    assert recorded.answered(read, answer({"total": 49})) == ((), ())
    drift, places = recorded.answered(read, answer({"total": 4}))
    assert drift == ("RESULT",) and [one.pointer for one in places] == ["/total"]
    failed = Answer(status="error", error="TimeoutError")
    assert recorded.answered(read, failed)[0] == ("ERROR_KIND", "RESULT")
    said = RUN[7].output
    assert recorded.answered(end, answer({**said, "output": "no"}))[0] == ("OUTPUT",)
    assert recorded.answered(end, answer({**said, "claimed": "failure"}))[0] == ("CLAIM",)
    assert slower(read, 10**8) == ("LATENCY",) and slower(read, 10**7) == ()
    assert slower(tape.events[4], 10**9) == ()


@pytest.mark.requirement("REP-02")
def test_a_changed_state_is_state(tmp_path):
    patch = {"patch": [{"op": "add", "path": "/a", "value": 1}], "before": "x", "after": "y"}
    run = [Fact(kind="state_patch", seam="tool", name="shop", output=patch), RUN[-1]]
    tape = made(tmp_path, run)
    drift, _ = Recorded(tape, CODECS).answered(
        tape.events[0], answer({**patch, "after": "z"}, status="unset")
    )
    assert drift == ("STATE",)


@pytest.mark.requirement("REP-02")
def test_other_rules_are_incomparable_and_each_reason_has_its_word(tape, tmp_path):
    same = {"codecs": CODECS.fingerprints(), "redactor": Redactor().identity}
    assert obstacles(tape, **same) == ()

    def reasons(of, **changes):
        return [one.reason for one in obstacles(of, **{**same, **changes})]

    assert reasons(tape, codecs={**same["codecs"], "tool": "sha256:" + "0" * 64}) == ["CODEC"]
    assert reasons(tape, redactor=Redactor(forms="drop").identity) == ["REDACTOR"]
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    header = Header(tape_id="t", taint=("live",), fidelity="L1", git=Git(sha="a" * 40, dirty=True))
    odd = made(tmp_path / "a", RUN, header, seal=False)
    assert reasons(odd, least="L2") == ["TAINTED", "PARTIAL", "PARTIAL"]
    assert reasons(odd, least="L1", clean=True) == ["TAINTED", "PARTIAL", "DIRTY_TREE"]
    assert reasons(odd, until=3) == ["TAINTED"]
    made(tmp_path / "b", RUN)
    text = (tmp_path / "b" / "run.tape").read_bytes().replace(b'"total":49', b'"total":50', 1)
    (tmp_path / "b" / "run.tape").write_bytes(text)
    assert reasons(read_tape(tmp_path / "b" / "run.tape")) == ["BROKEN"]


@pytest.mark.requirement("REP-02")
def test_a_fingerprint_counts_where_both_have_one():
    one = Header(toolset="sha256:a", policy="sha256:b", agent=AgentBuild(manifest="m1"))
    other = Header(toolset="sha256:c", agent=AgentBuild(manifest="m2"), models=("m",))
    assert fingerprints(one, other) == ("toolset", "manifest")
    assert fingerprints(one, one) == ()


@pytest.mark.requirement("REP-02")
@settings(max_examples=25)
@given(st.data())
def test_of_calls_with_inputs_of_their_own_each_change_is_found_where_it_is(tmp_path_factory, data):
    sites = data.draw(st.lists(st.sampled_from("abc"), min_size=1, max_size=7))
    run = [call(f"t-{one}", f"s:{one}", {"n": n}) for n, one in enumerate(sites)]
    recorded = Recorded(made(tmp_path_factory.mktemp("t"), [*run, RUN[-1]]), CODECS)
    changed = data.draw(st.integers(0, len(run) - 1))
    done = range(changed)
    for n, fact in enumerate(run[:changed]):
        assert matched(recorded, fact, n, range(n)).drift == ()
    fact = run[changed]
    other = call(fact.name, fact.site, {"n": changed, "more": True})
    found = matched(recorded, other, changed, done)
    assert (found.drift, found.seq) == (("ARGS",), changed)
    later = [n for n in range(changed + 1, len(run)) if sites[n] == sites[changed]]
    if later:
        found = matched(recorded, run[later[0]], changed, done)
        assert (found.drift, found.candidates[0].seq) == (("ORDER",), later[0])
