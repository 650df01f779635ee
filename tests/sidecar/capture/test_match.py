"""A crossing against a tape: each single change has its kind of drift, and no change has none."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.canonical import canonical
from sidecar.capture.comparable import fingerprints, obstacles
from sidecar.capture.match import Answer, Crossing, Recorded, slower
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
    call("refund", "s:refund", {"order": 1, "amount": 49}),
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


def asks(fact, ord_=0):
    """The crossing that asks what a fact says was asked."""
    given = Redactor().value(encoded(fact.input))
    counted = CODECS.input_of(fact.seam).project(given)
    return Crossing(
        kind=fact.kind,
        seam=fact.seam,
        agent=fact.agent,
        site=fact.site,
        name=fact.name,
        ord=ord_,
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
    used = set()
    for seq, ord_ in ((0, 0), (1, 0), (3, 1), (5, 0)):
        found = recorded.match(asks(RUN[seq], ord_), used)
        assert (found.event.seq, found.drift, found.noise, found.told()) == (
            *(seq, (), False),
            "as recorded",
        )
        used.add(seq)
    assert recorded.unconsumed(used) == []


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
def test_a_changed_request_is_of_the_kind_of_what_changed(recorded, changes, drift, place):
    found = recorded.match(asks(request(**changes)))
    assert (found.drift, found.seq, found.event) == ((drift,), 0, None)
    nearest = found.candidates[0]
    assert (nearest.seq, nearest.why) in ((0, "here"),)
    assert [one.pointer for one in nearest.places] == [place]
    assert place in found.told() and "refund it" not in found.told()


@pytest.mark.requirement("REP-02")
def test_what_only_a_codec_leaves_out_is_noise(recorded):
    found = recorded.match(asks(request(timeout=60)))
    assert found.drift == () and found.noise and found.event.seq == 0


@pytest.mark.requirement("REP-02")
def test_a_changed_argument_is_args_and_names_its_place(recorded):
    found = recorded.match(asks(call("refund", "s:refund", {"order": 1, "amount": 94})), {0, 1, 3})
    assert (found.drift, found.seq) == (("ARGS",), 5)
    place = found.candidates[0].places[0]
    assert (place.pointer, place.left, place.right) == ("/amount", 49, 94)


@pytest.mark.requirement("REP-02")
def test_an_input_that_comes_at_another_time_is_order(recorded):
    found = recorded.match(asks(RUN[3], 0), {0})
    assert (found.drift, found.seq) == (("ORDER",), 1)
    assert (found.candidates[0].seq, found.candidates[0].why) == (3, "order")
    # The other site's own order is right, and it comes before what it came after.
    early = recorded.match(asks(RUN[5]), {0, 1})
    assert (early.drift, early.waiting, early.seq) == (("ORDER",), (3,), 5)
    assert "which it comes after" in early.told()


@pytest.mark.requirement("REP-02")
def test_calls_that_come_after_the_same_may_come_in_any_order(tmp_path):
    side = [
        RUN[0],
        call("read", "s:read", {"order": 1}, cause=(0,)),
        call("refund", "s:refund", {"order": 1}, cause=(0,)),
        result("read", "s:read", 1, 1),
        result("refund", "s:refund", 1, 2),
        RUN[-1],
    ]
    recorded = Recorded(made(tmp_path, side), CODECS)
    assert recorded.match(asks(side[2]), {0}).drift == ()
    assert recorded.match(asks(side[1]), {0, 2}).drift == ()
    assert recorded.match(asks(side[1]), set()).drift == ("ORDER",)


@pytest.mark.requirement("REP-02")
def test_a_site_that_moved_explains_and_is_no_kind_of_its_own(recorded):
    found = recorded.match(
        asks(call("refund", "s:elsewhere", {"order": 1, "amount": 49})), {0, 1, 3}
    )
    assert (found.drift, found.moved, found.seq) == (("EXTRA_CALL",), 5, None)
    assert (found.candidates[0].seq, found.candidates[0].why) == (5, "moved")
    assert "another site" in found.told()


@pytest.mark.requirement("REP-02")
def test_one_call_more_says_how_many_there_were(recorded):
    found = recorded.match(asks(RUN[3], 2), {0, 1, 3})
    assert (found.drift, found.recorded, found.seq) == (("EXTRA_CALL",), 2, None)
    assert {one.seq for one in found.candidates} == {1, 3}
    assert all(one.used for one in found.candidates)
    assert "2 on the tape here" in found.told()
    # It leaves nothing behind: what follows is found as ever.
    assert recorded.match(asks(RUN[5]), {0, 1, 3}).drift == ()


@pytest.mark.requirement("REP-02")
def test_another_tool_at_the_site_is_one_more_and_one_less(recorded):
    found = recorded.match(asks(call("delete", "s:refund", {"order": 1})), {0, 1, 3})
    assert found.drift == ("EXTRA_CALL", "MISSING_CALL") and found.seq == 5


@pytest.mark.requirement("REP-02")
def test_what_nothing_is_like_is_said_so(recorded):
    found = recorded.match(asks(call("pay", "s:pay", {})))
    assert found.drift == ("EXTRA_CALL",) and found.candidates == ()
    assert found.told() == "EXTRA_CALL: nothing like it is on the tape"


@pytest.mark.requirement("REP-02")
def test_what_was_not_asked_again_is_left_over(recorded):
    assert [one.seq for one in recorded.unconsumed({0, 1, 5})] == [3]


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
    assert slower(read, 10_000) == ("LATENCY",) and slower(read, 1_500) == ()
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
    assert reasons(odd) == ["TAINTED", "PARTIAL", "FIDELITY"]
    assert reasons(odd, clean=True, content=False) == ["TAINTED", "PARTIAL", "DIRTY_TREE"]
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
    ords = [sites[:n].count(one) for n, one in enumerate(sites)]
    used = set()
    changed = data.draw(st.integers(0, len(run) - 1))
    for n, fact in enumerate(run[:changed]):
        assert recorded.match(asks(fact, ords[n]), used).drift == ()
        used.add(n)
    fact = run[changed]
    other = call(fact.name, fact.site, {"n": changed, "more": True})
    found = recorded.match(asks(other, ords[changed]), used)
    assert (found.drift, found.seq) == (("ARGS",), changed)
    later = [n for n in range(changed + 1, len(run)) if sites[n] == sites[changed]]
    if later:
        found = recorded.match(asks(run[later[0]], ords[changed]), used)
        assert (found.drift, found.candidates[0].seq) == (("ORDER",), later[0])
    assert [one.seq for one in recorded.unconsumed(used)] == [*range(changed, len(run))]
