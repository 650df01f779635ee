"""What every trace store must keep: one transaction a step, revisions for changes only, sealing."""

import asyncio

import pytest
import trace_stores
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from processors.model.evidence import Contradiction, Evidence, Outcome
from processors.model.step import Source, Step, Tool, Usage
from processors.model.trace import AgentTrace, Service
from sidecar.errors import SidecarError, StoreUnavailable
from sidecar.store.sqlite.traces import SqliteTraces, migrate_traces
from sidecar.store.traces import (
    CursorMove,
    CursorMoved,
    Digests,
    Due,
    Intake,
    Part,
    Publication,
    Quarantined,
    TraceQuery,
    content_digest,
)
from sidecar.store.verdicts import VerdictQuery

FOREVER = 1 << 60
TRACE = "a" * 32


@pytest.fixture(params=trace_stores.BACKENDS)
def kept(request, tmp_path):
    made = trace_stores.made(request.param, tmp_path)
    yield made
    made.close()


@pytest.fixture
def store(kept):
    return kept.open_traces()


def part(payload=b"p", key=TRACE, project="shop", kind="telemetry", expires_ns=FOREVER):
    return Part(project=project, key=key, kind=kind, payload=payload, expires_ns=expires_ns)


def take(store, *parts, before=None, after=None, now_ns=100, quarantined=()):
    before = store.cursor("j") if before is None else before
    move = CursorMove(name="j", before=before, after=before + 1 if after is None else after)
    intake = Intake(move=move, parts=parts, quarantined=quarantined, now_ns=now_ns)
    asyncio.run(store.take_in(intake))


def due(store, now_ns=10_000, idle_ns=50, open_max_ns=1000, limit=10):
    return store.due(Due(now_ns=now_ns, idle_ns=idle_ns, open_max_ns=open_max_ns, limit=limit))


def publish(store, opened, *traces, now_ns=500, facts=None, fault=None, clues=()):
    publication = Publication(
        open_id=opened.open_id,
        version=opened.version,
        traces=traces,
        digests=tuple(
            Digests(content=content_digest(t), facts=facts or content_digest(t)) for t in traces
        ),
        fault=fault,
        clues=clues,
        now_ns=now_ns,
    )
    return asyncio.run(store.publish([publication]))


def step(name="s1", start_ns=10, end_ns=20, **fields):
    source = Source(kind="span", trace_id=TRACE, span_id=name)
    return Step(
        step_id=f"{TRACE}:{name}", kind="tool_call", name=name, start_ns=start_ns, end_ns=end_ns,
        tool=Tool(name="refund", arguments={"b": [1, None, {"x": 2.5}], "a": "é"}),
        usage=Usage(input=3), sources=(source,), **fields,
    )  # fmt: skip


def trace(*steps, trace_id=TRACE, project="shop", service="agent", **fields):
    return AgentTrace(
        trace_id=trace_id,
        trace_ids=(trace_id,),
        project=project,
        service=Service(name=service, version="1"),
        steps=steps or (step(),),
        **fields,
    )


def test_parts_and_cursor_are_one_transaction(store):
    take(store, part(b"one"), part(b"two", key="b" * 32), after=7)
    assert store.cursor("j") == 7
    opened = due(store)
    assert {item.key for item in opened} == {TRACE, "b" * 32}
    with pytest.raises(CursorMoved):
        take(store, part(b"again"), before=0, after=9)
    assert store.cursor("j") == 7
    assert [store.parts(item) for item in opened if item.key == TRACE] == [[("telemetry", b"one")]]


def test_cursors_of_different_sources_do_not_meet(store):
    take(store, part())
    assert store.cursor("j") == 1
    assert store.cursor("journal:another") == 0


def test_a_trace_is_due_once_it_is_silent_and_no_sooner(store):
    take(store, part(), now_ns=100)
    assert due(store, now_ns=149) == []
    assert len(due(store, now_ns=150)) == 1
    take(store, part(), now_ns=140)
    assert due(store, now_ns=189) == []
    assert len(due(store, now_ns=190)) == 1


def test_a_trace_that_never_falls_silent_is_due_after_a_while_all_the_same(store):
    for now_ns in range(100, 1090, 40):
        take(store, part(), now_ns=now_ns)
    assert due(store, now_ns=1099) == []
    assert len(due(store, now_ns=1100)) == 1


def test_a_clock_that_was_set_back_does_not_hold_a_trace_for_ever(store):
    take(store, part(), now_ns=1_000_000)
    assert len(due(store, now_ns=500)) == 1


def test_what_is_published_is_due_no_more_until_something_new_comes(store):
    take(store, part())
    (opened,) = due(store)
    assert publish(store, opened, trace()) == 1
    assert due(store) == []
    take(store, part(b"late"))
    (opened,) = due(store)
    assert [payload for _, payload in store.parts(opened)] == [b"p", b"late"]
    assert publish(store, opened, trace(step(), step("s2"))) == 1
    assert store.get_trace(TRACE).revision == 2
    assert len(store.get_trace(TRACE, revision=1).steps) == 1


def test_what_came_while_it_was_being_built_makes_it_due_again(store):
    take(store, part())
    (opened,) = due(store)
    take(store, part(b"meanwhile"))
    publish(store, opened, trace())
    assert [item.version for item in due(store)] == [2]


@pytest.mark.requirement("REC-06")
def test_traces_that_come_together_one_by_one_are_due_once_after_a_silence(store):
    """Building all of them again for each that is found to belong would be quadratic."""
    keys = [f"{number:032x}" for number in range(1, 6)]
    take(store, *(part(key=key) for key in keys))
    for opened, key in zip(due(store), keys, strict=True):
        assert opened.key == key
        publish(store, opened, trace(trace_id=key), now_ns=500, clues=(b"shared",))
    assert due(store, now_ns=549) == []
    [together] = due(store, now_ns=550)
    assert len(store.parts(together)) == len(keys)


def test_traces_that_never_stop_coming_together_are_due_after_a_while_all_the_same(store):
    take(store, part(key="1" * 32), part(key="2" * 32))
    first, second = due(store)
    publish(store, first, trace(trace_id=first.key), now_ns=500, clues=(b"1",))
    publish(store, second, trace(trace_id=second.key), now_ns=500, clues=(b"1",))
    for number, now_ns in enumerate(range(540, 1500, 40)):
        assert due(store, now_ns=now_ns) == []
        key = f"{number:032x}"
        move = CursorMove(name="j", before=store.cursor("j"), after=store.cursor("j") + 1)
        found = Part(
            project="shop",
            key=key,
            kind="telemetry",
            payload=b"p",
            expires_ns=FOREVER,
            clues=(b"1",),
        )
        asyncio.run(store.take_in(Intake(move=move, parts=(found,), now_ns=now_ns)))
    assert len(due(store, now_ns=1500)) == 1


def test_the_same_content_again_adds_no_revision_and_a_second_publisher_changes_nothing(store):
    take(store, part())
    (opened,) = due(store)
    assert publish(store, opened, trace()) == 1
    assert publish(store, opened, trace(step("other"))) == 0
    take(store, part())
    (opened,) = due(store)
    seen = Evidence(evidence_id="e", source="probe", name="p", held=True, observed_ns=1)
    assert publish(store, opened, trace(evidence=(seen,)), facts="f") == 1
    take(store, part())
    (opened,) = due(store)
    assert publish(store, opened, trace(evidence=(replace(seen, observed_ns=2),))) == 0
    assert store.get_trace(TRACE).revision == 2
    assert store.facts_digest("shop", TRACE) == "f"
    assert store.facts_digest("bank", TRACE) is None


def test_a_fault_is_kept_and_does_not_come_back_by_itself(store):
    take(store, part())
    (opened,) = due(store)
    assert publish(store, opened, fault="ValueError: odd") == 0
    assert due(store) == []
    take(store, part())
    assert len(due(store)) == 1


def test_a_published_trace_reads_back_equal(store):
    whole = trace(
        step(attributes={"k": 1}), final_output="done",
        outcome=Outcome(
            status="contradicted",
            contradictions=(Contradiction(code="duplicate_effect", detail="two"),),
        ),
    )  # fmt: skip
    take(store, part())
    (opened,) = due(store)
    publish(store, opened, whole)
    assert store.get_trace(TRACE) == whole
    (line,) = store.list_traces(TraceQuery())
    assert (line.outcome, line.contradictions) == ("contradicted", ("duplicate_effect",))
    assert (line.started_ns, line.ended_ns, line.steps, line.service) == (10, 20, 1, "agent")


def test_lists_are_of_the_newest_revision_newest_start_first_and_filtered(store):
    for number, (project, service) in enumerate(
        [("shop", "a"), ("shop", "b"), ("bank", "a"), ("shop", "a")]
    ):
        key = f"{number:032x}"
        take(store, part(key=key, project=project))
        (opened,) = due(store)
        start = 1000 * number + 1
        publish(
            store,
            opened,
            trace(step(start_ns=start), trace_id=key, project=project, service=service),
        )
    ids = lambda **query: [int(t.trace_id) for t in store.list_traces(TraceQuery(**query))]  # noqa: E731
    assert ids() == [3, 2, 1, 0]
    assert ids(project="shop") == [3, 1, 0]
    assert ids(project="shop", service="a") == [3, 0]
    assert ids(since_ns=1001, until_ns=3001) == [2, 1]
    assert ids(outcome="contradicted") == []
    assert ids(limit=1) == [3]


def test_tenants_do_not_meet_even_with_one_trace_id(store):
    for project in ("shop", "bank"):
        take(store, part(project.encode(), project=project))
    for opened in due(store):
        assert store.parts(opened) == [("telemetry", opened.project.encode())]
        publish(store, opened, trace(project=opened.project))
    assert store.get_trace(TRACE, "bank").project == "bank"
    assert store.get_trace(TRACE, "other") is None
    with pytest.raises(SidecarError, match="bank, shop"):
        store.get_trace(TRACE)


def test_parts_are_sealed_and_bound_to_their_trace(kept, store):
    take(store, part(b"4111 1111"), part(b"other", key="b" * 32))
    stored = kept.stored()
    assert TRACE.encode() in stored and b"4111" not in stored
    kept.rows("UPDATE part SET open_id = 3 - open_id")
    with pytest.raises(Exception, match="do not open"):
        store.parts(due(store)[0])


def test_what_could_not_be_taken_in_is_kept_sealed_with_its_reason(kept, store):
    bad = Quarantined(source="j", seq=1, project="shop", reason="torn", payload=b"raw 4111")
    take(store, quarantined=(bad,))
    rows = kept.rows("SELECT source, seq, reason, sealed FROM quarantine")
    assert rows[0][:3] == ("j", 1, "torn") and b"4111" not in rows[0][3]


def test_parts_expire_together_once_published_and_late_ones_build_on_the_last_revision(store):
    take(store, part(b"old", expires_ns=1000))
    take(store, part(b"newer", expires_ns=5000))
    assert asyncio.run(store.expire(2000, 10)) == 0  # not published yet
    (opened,) = due(store)
    publish(store, opened, trace())
    assert asyncio.run(store.expire(999, 10)) == 0
    assert asyncio.run(store.expire(2000, 10)) == 1
    take(store, part(b"late"))
    (opened,) = due(store)
    assert opened.bases == ((TRACE, 1),)
    assert [payload for _, payload in store.parts(opened)] == [b"late"]
    assert store.get_trace(TRACE).revision == 1


def test_who_follows_along_sees_every_revision_once_and_in_order(kept, store):
    published = kept.published()
    assert (published.place(), published.after(0, TraceQuery())) == (0, (0, []))
    for number, project in enumerate(["shop", "bank", "shop"]):
        take(store, part(b"%d" % number, project=project))
        (opened,) = due(store)
        publish(store, opened, trace(step(f"s{number}"), project=project))
    seen, place = [], 0
    for _ in range(4):
        place, found = published.after(place, TraceQuery(limit=1))
        seen += [(line.project, line.revision) for line in found]
    assert seen == [("shop", 1), ("bank", 1), ("shop", 2)]
    assert place == published.place()
    place, found = published.after(0, TraceQuery(project="bank", service="agent"))
    assert [line.project for line in found] == ["bank"] and place == published.place()


def test_lists_go_on_after_a_place_and_a_trace_tells_its_revisions(store):
    for number in range(5):
        key = f"{number:032x}"
        take(store, part(key=key))
        (opened,) = due(store)
        publish(store, opened, trace(step(start_ns=1 + number // 2), trace_id=key))
    whole = [(line.started_ns, line.trace_id) for line in store.list_traces(TraceQuery())]
    paged, after = [], None
    while found := store.list_traces(TraceQuery(limit=2, after=after)):
        after = (found[-1].started_ns, found[-1].trace_id)
        paged += [(line.started_ns, line.trace_id) for line in found]
    assert paged == whole and len(whole) == 5
    assert [line.revision for line in store.revisions(f"{0:032x}", "shop")] == [1]
    assert store.revisions(f"{0:032x}", "bank") == []


def test_a_text_that_not_every_store_can_hold_does_not_stop_a_trace(store):
    take(store, part())
    (opened,) = due(store)
    assert publish(store, opened, trace(service="a\0b")) == 1
    assert store.get_trace(TRACE).service.name == "a\0b"


def test_what_no_store_can_hold_is_told_apart_and_stops_nothing_else(store):
    """Else one such trace would be tried again for ever, and none behind it be published."""
    take(store, part())
    (opened,) = due(store)
    with pytest.raises(Exception) as told:
        publish(store, opened, trace(final_output="half \ud800 a pair"))
    assert not isinstance(told.value, StoreUnavailable)
    assert publish(store, opened, fault="ValueError") == 0
    take(store, part(key="b" * 32))
    (opened,) = due(store)
    assert publish(store, opened, trace(trace_id="b" * 32)) == 1


def test_readers_need_no_writer_and_a_missing_store_says_so(tmp_path):
    with pytest.raises(StoreUnavailable, match="no store"):
        SqliteTraces(tmp_path / "traces.db")
    migrate_traces(tmp_path / "traces.db")
    reader = SqliteTraces(tmp_path / "traces.db")
    assert reader.list_traces(TraceQuery()) == []
    reader.close()


moves = st.lists(
    st.tuples(st.sampled_from(["take", "repeat", "publish", "reopen"]), st.integers(0, 2)),
    max_size=25,
)


@pytest.mark.parametrize("backend", trace_stores.BACKENDS)
@settings(max_examples=30)
@given(script=moves)
def test_however_steps_are_repeated_or_cut_each_part_is_in_once_and_nothing_is_left_over(
    tmp_path_factory, backend, script
):
    """Goal: crashes change nothing. Method: repeat intakes and publications, reopen in between."""
    kept = trace_stores.made(backend, tmp_path_factory.mktemp("traces"))
    store = kept.open_traces()
    taken = {0: [], 1: [], 2: []}
    number = 0
    for action, lane in script:
        key = f"{lane + 1:032x}"
        if action == "take":
            number += 1
            take(store, part(b"%d" % number, key=key), before=number - 1, after=number)
            taken[lane].append(b"%d" % number)
        elif action == "repeat" and number:
            with pytest.raises(CursorMoved):
                take(store, part(b"%d" % number, key=key), before=number - 1, after=number)
        elif action == "publish":
            for opened in due(store):
                held = [step(payload.decode()) for _, payload in store.parts(opened)]
                publish(store, opened, trace(*held, trace_id=opened.key))
                assert publish(store, opened, trace(*held, trace_id=opened.key)) == 0
        else:
            kept.close_parts()
            store = kept.open_traces()
    for opened in due(store):
        held = [step(payload.decode()) for _, payload in store.parts(opened)]
        publish(store, opened, trace(*held, trace_id=opened.key))
    for lane, payloads in taken.items():
        published = store.get_trace(f"{lane + 1:032x}")
        names = [item.name.encode() for item in published.steps] if published else []
        assert names == payloads
    assert due(store) == []
    kept.close()


HALF = "half \ud800"
ABOVE, BELOW = 1 << 70, -(1 << 70)


def test_what_no_store_can_hold_is_asked_for_without_an_error(kept, store):
    take(store, part())
    publish(store, due(store)[0], trace())
    (found,) = store.list_traces(TraceQuery(since_ns=BELOW, until_ns=ABOVE))
    assert found.trace_id == TRACE
    assert store.list_traces(TraceQuery(after=(ABOVE, "0"))) == [found]
    for query in (
        TraceQuery(since_ns=ABOVE),
        TraceQuery(until_ns=BELOW),
        TraceQuery(after=(BELOW, "0")),
        TraceQuery(after=(1, HALF)),
        *(TraceQuery(**{name: HALF}) for name in ("project", "service", "outcome")),
    ):
        assert store.list_traces(query) == []
    assert store.get_trace(HALF) is None and store.get_trace(TRACE, HALF) is None
    assert store.get_trace(TRACE, revision=ABOVE) is store.get_trace(TRACE, revision=BELOW) is None
    assert store.revisions(HALF, "shop") == store.revisions(TRACE, HALF) == []
    assert kept.published().after(0, TraceQuery(project=HALF)) == (1, [])
    verdicts = kept.verdicts()
    assert verdicts.get_verdict(HALF) is None and verdicts.get_verdict("v", HALF) is None
    for after in ((ABOVE, "v"), (BELOW, HALF)):
        assert verdicts.list_verdicts(VerdictQuery(after=after)) == []
    assert verdicts.list_verdicts(VerdictQuery(project=HALF)) == []
