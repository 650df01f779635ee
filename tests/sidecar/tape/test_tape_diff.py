"""Diff of two tapes: the first divergence per agent, and nothing where nothing differs."""

from collections import Counter

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tape_rig import END, HEADER, codecs, facts, interleaved, lines

from sidecar.replay.diff import compare
from sidecar.tape.compose import Fact
from sidecar.tape.files import read_tape, repack, tape_codecs
from sidecar.tape.model import RedactorId

MIRROR = {"insert": "delete", "delete": "insert"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("tapes")


def tape(folder, name, facts_, **more):
    path = folder / f"{name}.tape"
    path.write_bytes(b"".join(lines(facts_, **more)))
    return read_tape(path)


def diff(one, other):
    return compare(one, other, tape_codecs(one))


def of(folder, left, right, **more):
    return diff(tape(folder, "left", left, **more), tape(folder, "right", right, **more))


def told(folder, left, right, **more):
    """Where two runs first differ: seqs, kind and drift."""
    first = of(folder, left, right, **more).first_divergence
    return first and (first.seq_l, first.seq_r, first.kind, *first.drift)


def own(run):
    """The same run with no two inputs alike."""
    return [*(replace(fact, input=[n, fact.input]) for n, fact in enumerate(run[:-1])), run[-1]]


@pytest.mark.requirement("DIF-01")
@settings(max_examples=12)
@given(facts())
def test_a_tape_does_not_differ_from_itself_nor_from_its_other_packaging(folder, run):
    one = tape(folder, "packed", run)
    for old in folder.glob("store/*.tape"):
        old.unlink()
    (folder / "store").mkdir(exist_ok=True)
    repack(folder / "packed.tape", folder / "store" / "a.tape", "store")
    for other in (one, read_tape(folder / "store" / "a.tape")):
        found = diff(one, other)
        assert found.outcome == "identical" and found.first_divergence is None
        assert found.noise == 0 and found.header == ()
        assert sum(agent.common for agent in found.agents) == len(run)


@pytest.mark.requirement("DIF-01")
@settings(max_examples=12)
@given(interleaved())
def test_a_permitted_interleaving_is_no_divergence(folder, pair):
    found = of(folder, *pair)
    assert found.outcome == "identical"
    assert all(row.kind == "same" for agent in found.agents for row in agent.rows)


@pytest.mark.requirement("DIF-01")
@settings(max_examples=20)
@given(facts(least=1), st.data())
def test_one_changed_event_is_found_at_its_seq(folder, run, data):
    run = own(run)
    seq = data.draw(st.integers(0, len(run) - 2))
    change, kind = data.draw(
        st.sampled_from(
            [
                ({"input": "other"}, "input_changed"),
                ({"output": ["other"]}, "output_changed"),
                ({"status": "denied"}, "status_changed"),
                ({"name": "other"}, "replaced"),
            ]
        )
    )
    assume("output" not in change or run[seq].seam not in ("clock", "entropy"))
    changed = [*run[:seq], replace(run[seq], **change), *run[seq + 1 :]]
    found = of(folder, run, changed)
    first = found.first_divergence
    assert found.outcome == "differ"
    assert (first.seq_l, first.seq_r, first.kind) == (seq, seq, kind)
    assert first.agent == run[seq].agent
    # Before the divergence everything is common, and behind it only consequences differ.
    for agent in found.agents:
        rows = [row for row in agent.rows if row.kind != "same" and not row.consequence]
        assert len(rows) == (agent.first_divergence is not None)


def mirrored(first):
    return first and (
        first.agent,
        first.seq_r,
        first.seq_l,
        MIRROR.get(first.kind, first.kind),
        first.changed,
        first.suspects_r,
        first.suspects_l,
    )


def straight(first):
    return first and (
        first.agent,
        first.seq_l,
        first.seq_r,
        first.kind,
        first.changed,
        first.suspects_l,
        first.suspects_r,
    )


@pytest.mark.requirement("DIF-01")
@settings(max_examples=20)
@given(interleaved(), st.data())
def test_swapping_the_tapes_swaps_the_sides_and_nothing_else(folder, pair, data):
    left, right = pair
    if data.draw(st.booleans()):
        right = data.draw(facts())
    else:
        seq = data.draw(st.integers(0, len(right) - 1))
        right = [*right[:seq], replace(right[seq], input="other", name="w"), *right[seq + 1 :]]
        right[-1] = END
    one, other = tape(folder, "left", left), tape(folder, "right", right)
    there, back = diff(one, other), diff(other, one)
    assert there.outcome == back.outcome and there.noise == back.noise
    assert straight(there.first_divergence) == mirrored(back.first_divergence)
    for here, opposite in zip(there.agents, back.agents, strict=True):
        assert here.common == opposite.common
        assert straight(here.first_divergence) == mirrored(opposite.first_divergence)
        kinds = Counter(MIRROR.get(row.kind, row.kind) for row in opposite.rows)
        assert Counter(row.kind for row in here.rows) == kinds


@pytest.mark.requirement("DIF-01")
def test_of_pairs_that_come_equally_early_the_same_one_is_first_whichever_side_it_is_on(folder):
    def fact(agent, given, *cause):
        return Fact(
            kind="llm_call", seam="provider", agent=agent, name="read", input=given, cause=cause
        )

    last = fact("a", None)
    one = tape(folder, "l", [fact("a", None), fact("b", None, 0), fact("b", [], 0), last, END])
    other = tape(
        folder,
        "r",
        [replace(fact("a", "other"), name="w"), fact("b", [], 0), fact("b", None, 0), last, END],
    )
    there, back = diff(one, other), diff(other, one)
    for here, opposite in zip(there.agents, back.agents, strict=True):
        assert straight(here.first_divergence) == mirrored(opposite.first_divergence)


@pytest.mark.requirement("DIF-01")
def test_an_event_that_was_replaced_does_not_borrow_the_counterpart_of_another(folder):
    asked = Fact(kind="llm_call", seam="provider", agent="a", name="read", input=None)
    run = own([asked, asked, END])
    found = of(folder, run, [replace(run[0], name="other"), *run[1:]])
    first = found.first_divergence
    assert (first.seq_l, first.seq_r, first.kind) == (0, 0, "replaced")


@pytest.mark.requirement("DIF-01")
@settings(max_examples=12)
@given(facts(), facts())
def test_every_event_of_both_tapes_stands_in_one_row(folder, left, right):
    found = of(folder, left, right)
    rows = [row for agent in found.agents for row in agent.rows]
    assert sorted(row.seq_l for row in rows if row.seq_l is not None) == [*range(len(left))]
    assert sorted(row.seq_r for row in rows if row.seq_r is not None) == [*range(len(right))]


def ask(value, output="answer", *, status="ok"):
    return Fact(
        kind="llm_call",
        seam="provider",
        agent="a",
        name="gpt",
        input=value,
        output=output,
        status=status,
    )


def call(name, value=1, *, agent="a", cause=()):
    return Fact(kind="tool_call", seam="tool", agent=agent, name=name, input=value, cause=cause)


def gave(value, *, cause=(), error=None, status="ok"):
    return Fact(
        kind="tool_result",
        seam="tool",
        agent="a",
        name="x",
        output=value,
        cause=cause,
        error=error,
        status=status,
    )


PROMPT = {"model": "m", "messages": [{"content": "hi"}], "tools": ["x"], "temperature": 0}


@pytest.mark.requirement("DIF-01")
@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ([ask(PROMPT)], [ask({**PROMPT, "messages": []})], (0, 0, "input_changed", "PROMPT")),
        ([ask(PROMPT)], [ask({**PROMPT, "temperature": 1})], (0, 0, "input_changed", "PARAMS")),
        ([ask(PROMPT)], [ask({**PROMPT, "tools": []})], (0, 0, "input_changed", "TOOLSET")),
        ([ask("q")], [ask("q", "other")], (0, 0, "output_changed", "OUTPUT")),
        ([ask("q")], [ask("q", status="error")], (0, 0, "status_changed", "ERROR_KIND")),
        ([call("x")], [call("x", 2)], (0, 0, "input_changed", "ARGS")),
        ([call("x"), gave(1)], [call("x"), gave(2)], (1, 1, "output_changed", "RESULT")),
        (
            [gave(1, error=("ValueError", "m"))],
            [gave(1, error=("KeyError", "m"))],
            (0, 0, "status_changed", "ERROR_KIND"),
        ),
        ([call("x"), call("y")], [call("y"), call("x")], (0, 0, "reordered", "ORDER")),
        ([call("x", 1), call("x", 2)], [call("x", 2), call("x", 1)], (0, 0, "reordered", "ORDER")),
        (
            [call("x"), call("y")],
            [call("x"), call("z"), call("y")],
            (None, 1, "insert", "EXTRA_CALL"),
        ),
        (
            [call("x"), call("z"), call("y")],
            [call("x"), call("y")],
            (1, None, "delete", "MISSING_CALL"),
        ),
        ([call("x")], [call("x"), call("x")], (None, 1, "insert", "EXTRA_CALL")),
        ([call("x")], [call("y")], (0, 0, "replaced", "EXTRA_CALL", "MISSING_CALL")),
        (
            [Fact(kind="state_patch", seam="tool", agent="a", output={"patch": 1})],
            [Fact(kind="state_patch", seam="tool", agent="a", output={"patch": 2})],
            (0, 0, "output_changed", "STATE"),
        ),
        (
            [call("x", agent="b"), call("y"), call("z")],
            [call("x", agent="b"), call("y"), call("z", cause=(0,))],
            (2, 2, "reordered", "ORDER"),
        ),
    ],
)
def test_each_change_has_its_kind_and_its_drift(folder, left, right, expected):
    assert told(folder, [*left, END], [*right, END]) == expected


@pytest.mark.requirement("DIF-01")
def test_a_claim_that_changed_is_no_mere_output(folder):
    runs = (
        [Fact(kind="terminal", output={"claimed": claim, "verified": "no"}, status="ok")]
        for claim in ("yes", "no")
    )
    assert told(folder, *runs) == (0, 0, "output_changed", "CLAIM")


@pytest.mark.requirement("DIF-01")
def test_each_agent_has_its_own_first_divergence_and_another_s_is_not_its(folder):
    left = [call("x"), call("y", agent="b", cause=(0,)), call("z", agent="b"), call("x", 5), END]
    right = [replace(left[0], input=9), left[1], replace(left[2], input=9), *left[3:]]
    found = of(folder, left, right)
    firsts = {one.agent: one.first_divergence for one in found.agents}
    assert (firsts["a"].seq_l, firsts["b"].seq_l, firsts[""]) == (0, 2, None)
    rows = {row.seq_l: row for one in found.agents for row in one.rows}
    assert rows[1].kind == "same" and rows[3].consequence and not rows[2].consequence


@pytest.mark.requirement("DIF-01")
def test_parallel_calls_that_come_in_another_order_hide_no_change(folder):
    left = [ask("q"), call("x", cause=(0,)), call("y", cause=(0,)), gave(1, cause=(1,)), END]
    right = [ask("q"), call("y", cause=(0,)), call("x", 2, cause=(0,)), gave(1, cause=(2,)), END]
    found = of(folder, left, right)
    first = found.first_divergence
    assert (first.seq_l, first.seq_r, first.kind) == (1, 2, "input_changed")
    assert next(row for row in found.agents[1].rows if row.seq_l == 2).kind == "same"


@pytest.mark.requirement("DIF-01")
def test_what_hangs_together_in_another_way_across_agents_differs(folder):
    """Each agent does the same; b's call follows another of two like calls of a's."""
    left = [call("x", 1), call("x", 2), call("y", agent="b", cause=(0,)), END]
    right = [*left[:2], replace(left[2], cause=(1,)), END]
    assert told(folder, left, right) == (2, 2, "reordered", "ORDER")


@pytest.mark.requirement("DIF-01")
def test_what_does_not_count_is_noise_and_counted(folder):
    clock = Fact(kind="decision", seam="clock", agent="a", name="time", output=1, start_ns=5)
    left = [clock, ask(PROMPT, {"id": "r1", "text": "t"}), call("x"), END]
    right = [replace(clock, output=2), ask(PROMPT, {"id": "r2", "text": "t"}), call("x"), END]
    found = of(folder, left, right)
    assert found.outcome == "identical" and found.noise == 2


@pytest.mark.requirement("DIF-01")
@pytest.mark.row("R22")
def test_other_identifiers_of_the_same_ticket_are_noise(folder):
    ids = codecs(output={"ids": ("/id",)})
    runs = (
        [gave({"id": name, "n": n}), call("close", {"ticket": name}), END]
        for name, n in (("T-100", 1), ("T-200", 1))
    )
    found = of(folder, *runs, codecs=ids)
    assert found.outcome == "identical" and found.noise == 2
    runs = ([gave({"id": "T-100", "n": n}), END] for n in (1, 2))
    assert told(folder, *runs, codecs=ids) == (0, 0, "output_changed", "RESULT")


@pytest.mark.requirement("DIF-01")
def test_a_changed_input_tells_the_place_and_where_its_value_came_from(folder):
    clock = Fact(kind="decision", seam="clock", agent="a", name="time")
    runs = [
        [replace(clock, output=day), call("pay", {"to": "A", "day": day, "n~/": 1}), END]
        for day in ("2026-07-01", "2026-07-02")
    ]
    first = of(folder, *runs).first_divergence
    (place,) = first.places
    assert (place.side, place.pointer, place.left, place.right) == (
        *("in", "/day", "2026-07-01", "2026-07-02"),
    )
    assert first.suspects_l == first.suspects_r == (0,)


@pytest.mark.requirement("DIF-01")
@pytest.mark.parametrize(
    ("more", "reason", "compared"),
    [
        ({"codecs": codecs("tool", input={"volatile": ("/x",)})}, "CODEC", "nothing"),
        ({"header": replace(HEADER, taint=("went live",))}, "TAINTED", "content"),
        ({"seal": False}, "PARTIAL", "content"),
    ],
)
def test_what_nothing_can_be_concluded_from_is_said_and_never_drift(folder, more, reason, compared):
    run = [call("x"), END]
    found = diff(tape(folder, "left", run), tape(folder, "right", run, **more))
    assert found.outcome == "incomparable" and found.compared == compared
    assert [one.reason for one in found.incomparable] == [reason]
    assert found.first_divergence is None


@pytest.mark.requirement("DIF-01")
def test_another_redactor_lost_events_and_damage_are_incomparable(folder):
    one = tape(folder, "left", [call("x"), END])
    other = replace(one, header=replace(one.header, redactor=RedactorId(id="r", version="2")))
    assert [each.reason for each in diff(one, other).incomparable] == ["REDACTOR"]
    lost = replace(one.seal, counters=replace(one.seal.counters, dropped=1))
    assert [each.reason for each in diff(one, replace(one, seal=lost)).incomparable] == ["PARTIAL"]
    path = folder / "damaged.tape"
    path.write_bytes((folder / "left.tape").read_bytes().replace(b'"x"', b'"y"'))
    assert [each.reason for each in diff(one, read_tape(path)).incomparable] == ["BROKEN"]


@pytest.mark.requirement("DIF-01")
def test_without_content_the_structure_is_compared_and_never_against_content(folder):
    bare = [Fact(kind="tool_call", seam="tool", name=name) for name in ("x", "y")]
    end = Fact(kind="terminal", status="ok")
    one, same = tape(folder, "left", [*bare, end]), tape(folder, "right", [*bare, end])
    assert (diff(one, same).outcome, diff(one, same).compared) == ("identical", "structure")
    with_content = tape(folder, "content", [call("x", agent=""), call("y", agent=""), end])
    found = diff(one, with_content)
    assert found.outcome == "incomparable" and found.first_divergence is None
    assert [each.reason for each in found.incomparable] == ["FIDELITY"]
