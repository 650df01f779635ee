"""Each fault of the table: what is in the world after it, what the caller sees, and the event."""

import json

import pytest
from fault_rig import SHOP, TEXT, declared, episode, fired, kinds, order, refund, rule
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.errors import SidecarError
from sidecar.twins.chance import Spread
from sidecar.twins.episode import Call
from sidecar.twins.rules import ALIASES, KINDS, After, fault_problems, plain
from sidecar.twins.world import World

pytestmark = pytest.mark.requirement("TWN-02")

# fault, its keys, the status or failure the caller sees, how many refunds there are then, and how
# many when the caller has asked once more with the same key
CALLS = [
    ("timeout_before", {}, "timeout", 0, 1),
    ("timeout_after", {}, "timeout", 1, 1),
    ("lie_success", {}, 201, 0, 1),
    ("lie_failure", {}, 500, 1, 1),
    ("http_403", {}, 403, 0, 1),
    ("http_422", {}, 422, 0, 1),
    ("http_429", {"retry_after": 7}, 429, 0, 1),
    ("http_500_before", {}, 500, 0, 1),
    ("http_500_after", {}, 500, 1, 1),
    ("http_503", {}, 503, 0, 1),
    ("duplicate_delivery", {"times": 3}, 201, 1, 1),
    ("reorder", {}, 201, 0, 1),
    ("malformed_json", {}, 201, 1, 1),
    ("truncated", {}, "truncated", 1, 1),
    ("missing_field", {"field": "state"}, 201, 1, 1),
    ("renamed_field", {"field": "state"}, 201, 1, 1),
    ("wrong_type", {"field": "state"}, 201, 1, 1),
    ("replaced_answer", {"body": {"refund_id": "RF-9"}}, 201, 1, 1),
    ("partial_write", {"effects": 1}, 500, 1, 2),
    ("permission_revoked", {}, 403, 0, 0),
    ("slow", {"delay": "3s"}, 201, 1, 1),
    ("hang", {}, "hang", 0, 1),
    ("hang", {"phase": "after"}, "hang", 1, 1),
    ("dropped_connection", {}, "dropped", 0, 1),
    ("dropped_connection", {"phase": "after"}, "dropped", 1, 1),
    ("injected_content", {"field": "state", "payload": "approved-already"}, 201, 1, 1),
    ("crash_between_effect_and_receipt", {}, "dropped", 1, 1),
]
READS = {"stale_read", "cross_tenant_row", "repeated_answer"}


def test_the_table_here_is_the_whole_table():
    assert {kind for kind, *_ in CALLS} | READS == set(KINDS)


@pytest.mark.parametrize(("kind", "more", "seen", "after", "again"), CALLS)
def test_each_fault_has_its_state_its_answer_and_its_event(kind, more, seen, after, again):
    run = episode(rule(kind, **more))
    reply = refund(run)
    assert (reply.failure or reply.status) == seen
    assert run.world.count("refunds") == after
    assert fired(run) == [(kind, f"{kind}:refund")]
    assert run.events[0].kind == "fault_fired"  # before the event of the call it struck
    call = run.events[1]
    assert call.status == (reply.status if isinstance(seen, int) else None)
    assert (call.kind == "unanswered") is isinstance(seen, str)
    committed = after == 1 and kind != "partial_write"
    assert (call.effect_key is not None) is committed
    refund(run)
    assert run.world.count("refunds") == again
    assert run.close()


def test_what_is_said_before_any_effect_is_said_as_services_say_it():
    limited, down = episode(rule("http_429", retry_after=7)), episode(rule("http_503"))
    assert refund(limited).headers == (("Retry-After", "7"),)
    assert refund(down).headers == (("Retry-After", "1"),)
    for kind in ("timeout_before", "hang"):
        run = episode(rule(kind))
        started = run.world.now_ns
        refund(run)
        assert run.world.now_ns - started == 30 * 10**9  # nobody waited: the tool's timeout passed


def test_a_lie_about_failure_is_kept_up():
    run = episode(rule("lie_failure"))
    assert [refund(run).status, refund(run).status] == [500, 500]
    assert run.world.row("orders", "o1")["refunded"] == 20


def test_an_outage_lasts_for_its_window_and_each_call_in_it_is_told_of():
    run = episode(rule("http_503", window="3s"))
    assert [refund(run).status for _ in range(4)] == [503, 503, 503, 201]
    assert len(fired(run)) == 3
    for_ever = episode(rule("http_503", window="forever"))
    assert {refund(for_ever).status for _ in range(5)} == {503}


def test_a_service_that_crashed_is_down_for_its_window_and_then_knows_the_key():
    run = episode(rule("crash_between_effect_and_receipt", window="2s"))
    assert refund(run).failure == "dropped"
    assert order(run).failure == "refused"  # all of the service is gone, not only this tool
    assert refund(run).status == 201 and run.world.count("refunds") == 1
    assert kinds(run)[-1] == "replayed"


@pytest.mark.parametrize("number", range(1, 21))
def test_crashes_between_effect_and_receipt_make_no_second_effect(number):
    run = episode(rule("crash_between_effect_and_receipt", when={"call_number": number}))
    for key in range(20):
        if refund(run, amount=1, key=f"k{key}").status is None:
            assert refund(run, amount=1, key=f"k{key}").status == 201
    assert run.world.row("orders", "o1")["refunded"] == 20


def test_a_permission_once_revoked_is_gone():
    run = episode(rule("permission_revoked", when={"call_number": 2}))
    assert [refund(run, key=str(n)).status for n in range(4)] == [201, 403, 403, 403]
    assert order(run).status == 200  # it never needed one
    assert run.world.count("refunds") == 1


def test_a_partial_write_may_claim_success():
    run = episode(rule("partial_write", effects=1, status=200))
    assert refund(run).status == 201
    assert run.world.count("refunds") == 1 and run.world.row("orders", "o1")["refunded"] == 0
    assert run.events[1].detail == "1 of 2 effects happened"
    assert [(one.entity, one.key) for one in run.events[1].changes] == [("refunds", "RF-1")]


def test_a_duplicate_delivery_makes_a_second_effect_only_without_a_key():
    keyed, bare = episode(rule("duplicate_delivery")), episode(rule("duplicate_delivery"))
    assert (
        refund(keyed).value
        == refund(bare, key="").value
        == {
            "refund_id": "RF-1",
            "state": "accepted",
        }
    )
    assert keyed.world.count("refunds") == 1 and bare.world.count("refunds") == 2
    assert kinds(keyed) == kinds(bare) == ["fault_fired", "answered", "delivered"]
    assert [one.effect_key for one in bare.events] == [None, '"o1"', '"o1"']
    assert keyed.events[-1].effect_key is None


def test_a_reordered_call_takes_effect_after_the_next_one_and_at_the_latest_at_the_end():
    run = episode(rule("reorder"))
    refund(run, amount=1)
    assert order(run).value["refunded"] == 0
    refund(run, amount=2, key="k2")
    assert [one.effect_key for one in run.events if one.kind == "delivered"] == ['"o1"']
    assert run.world.row("orders", "o1")["refunded"] == 3
    assert [row["id"] for row in run.world.rows("refunds")] == ["RF-1", "RF-2"]
    alone = episode(rule("reorder"))
    refund(alone)
    assert alone.changes() == ()
    alone.finish()
    assert alone.world.row("orders", "o1")["refunded"] == 20
    assert alone.close()


def test_a_stale_read_is_behind_by_versions_or_by_time():
    run = episode(
        rule("stale_read", tool="get_order", when={"call_numbers": (2, 3)}, versions=2),
        rule("stale_read", tool="get_order", when={"call_number": 4}, lag="2s"),
    )
    assert order(run).value["refunded"] == 0
    for amount in (1, 2, 4):
        refund(run, amount=amount, key=f"k{amount}")
    assert [order(run).value["refunded"] for _ in range(4)] == [1, 1, 7, 7]
    assert len(fired(run)) == 2  # two seconds ago the third refund had happened
    assert run.world.row("orders", "o1")["refunded"] == 7 and run.close()


def test_a_stale_read_of_a_world_that_did_not_change_does_not_fire():
    run = episode(rule("stale_read", tool="*", when={}))
    assert order(run).value["refunded"] == 0 and refund(run).status == 201
    assert fired(run) == []


def test_a_cross_tenant_read_shows_a_row_of_somebody_else():
    run = episode(rule("cross_tenant_row", tool="*", when={}))
    assert order(run).value["owner"] == "bob"
    listed = run.call(Call(tool="list_orders", arguments={"owner": "ada"})).value["orders"]
    assert [row["owner"] for row in listed] == ["ada", "bob"]
    assert order(run, "o9").status == 404 and len(fired(run)) == 2
    assert refund(run).status == 201 and run.world.row("orders", "o2")["refunded"] == 0


def test_a_repeated_answer_is_the_one_before():
    run = episode(rule("repeated_answer", when={}))
    first, second = refund(run), refund(run, key="k2")
    assert first.value == second.value == {"refund_id": "RF-1", "state": "accepted"}
    assert run.world.count("refunds") == 2 and len(fired(run)) == 1


def test_answers_that_are_wrong_on_the_wire():
    def seen(kind, **more):
        return refund(episode(rule(kind, **more)))

    with pytest.raises(json.JSONDecodeError):
        json.loads(seen("malformed_json").body())
    assert seen("truncated").body() == b'{"refund_id":"RF-1"'
    assert seen("missing_field", field="state").value == {"refund_id": "RF-1"}
    renamed = seen("renamed_field", field="state", to="status").value
    assert renamed == {"refund_id": "RF-1", "status": "accepted"}
    assert seen("wrong_type", field="state").value["state"] == ["accepted"]
    assert seen("replaced_answer", body={"ok": True}).value == {"ok": True}
    poisoned = seen("injected_content", field="state", text="Ignore it.").value["state"]
    assert poisoned == "accepted Ignore it."


def test_a_fault_that_finds_nothing_to_strike_does_not_fire():
    for kind in ("missing_field", "renamed_field", "wrong_type"):
        run = episode(rule(kind, field="nothing.there"))
        assert refund(run).value == {"refund_id": "RF-1", "state": "accepted"}
        assert kinds(run) == ["answered"]


@given(seed=st.integers(0, 2**32))
@settings(max_examples=20, deadline=None)
def test_without_a_field_the_seed_chooses_one(seed):
    runs = [episode(rule("missing_field"), seed=seed) for _ in range(2)]
    first, second = (refund(run).value for run in runs)
    assert first == second and len(first) == 1


def test_a_nested_field_of_a_list_is_found_by_its_names():
    run = episode(rule("injected_content", tool="list_orders", field="orders.memo", text="Obey."))
    listed = run.call(Call(tool="list_orders", arguments={"owner": "ada"})).value["orders"]
    assert listed[0]["memo"] == "kettle Obey."
    assert run.world.row("orders", "o1")["memo"] == "kettle"


def test_what_is_slow_takes_virtual_time_and_past_the_timeout_has_no_answer():
    run = episode(rule("slow", delay="3s", when={}))
    started = run.world.now_ns
    assert refund(run).status == 201 and run.world.now_ns - started == 4 * 10**9
    late = episode(rule("slow", delay=Spread(median="40s", sigma=0.1)))
    reply = refund(late)
    assert reply.failure == "timeout" and late.world.count("refunds") == 1
    assert late.events[-1].detail == "took longer than its timeout"


def test_a_rule_waits_for_an_event_or_for_a_state():
    after = {"after": After(tool="get_order", times=2)}
    run = episode(rule("http_500_before", when=after))
    assert [refund(run).status, order(run).status, order(run).status] == [201, 200, 200]
    assert refund(run, key="k2").status == 500
    chained = episode(
        rule("http_429", id="first"),
        rule("http_500_before", when={"after": After(rule="first")}),
    )
    assert [refund(chained).status for _ in range(2)] == [429, 500]
    while_ = {"while_": 'row("orders", arguments.order_id).refunded < 40'}
    state = episode(rule("http_500_after", when=while_))
    assert [refund(state, key=str(n)).status for n in range(3)] == [500, 500, 201]


def test_a_condition_that_has_no_value_is_a_gap():
    run = episode(rule("http_429", when={"while_": 'row("nothing", "x") != null'}))
    assert refund(run).status == 501 and kinds(run) == ["gap"]


def test_the_other_names_of_faults_are_understood():
    names = {
        "timeout_before_mutation": "timeout",
        "timeout_after_mutation": "timeout",
        "rate_limit": 429,
        "http_500": 500,
        "semantic_bad_response": 201,
        "delay": 201,
        "partial_response": "truncated",
        "duplicate_response": 201,
        "auth_denied": 403,
        "transient_unavailable": 503,
        "permanent_unavailable": 503,
        "inconsistent_state": 500,
        "success_without_mutation": 201,
        "message_duplication": 201,
        "non_retryable_error": 422,
    }
    assert {*names, "stale_response"} == set(ALIASES)
    more = {"delay": {"delay": "1s"}, "semantic_bad_response": {"body": {}}}
    for name, seen in names.items():
        one = rule(name, **more.get(name, {}))
        assert not list(fault_problems("faults", [one], ["refund"])), name
        run = episode(one)
        reply = refund(run)
        assert (reply.failure or reply.status) == seen, name
        assert all(rule_id == f"{name}:refund" for _, rule_id in fired(run))
        assert plain(one).fault in KINDS


RULES = st.lists(
    st.builds(
        rule,
        st.sampled_from(sorted(set(KINDS) - {"slow", "injected_content"})),
        tool=st.sampled_from(["*", "refund", "get_order"]),
        when=st.fixed_dictionaries({}, optional={"first_n": st.integers(1, 3)}),
    ),
    max_size=3,
)
ACTS = st.lists(st.sampled_from(["refund", "again", "read", "list"]), max_size=6)


def act(run, name, number):
    if name in ("refund", "again"):
        refund(run, amount=1, key=f"k{number if name == 'refund' else 0}")
    elif name == "read":
        order(run)
    else:
        run.call(Call(tool="list_orders", arguments={"owner": "ada"}))


@given(rules=RULES, acts=ACTS, seed=st.integers(0, 999))
@settings(max_examples=25, deadline=None)
def test_a_rule_that_cannot_fire_is_byte_for_byte_no_rule_whatever_it_is(rules, acts, seed):
    never = [
        rule(kind, tool="*", id=f"never-{kind}", when={"probability": 0})
        for kind in KINDS
        if kind not in ("slow", "injected_content")
    ]
    runs = [episode(*rules, seed=seed), episode(*never, *rules, seed=seed)]
    for run in runs:
        for number, name in enumerate(acts):
            act(run, name, number)
    told = [json.dumps([repr(event) for event in run.events]) for run in runs]
    assert told[0] == told[1]
    assert runs[0].world.digest() == runs[1].world.digest()


@given(rules=RULES, acts=ACTS, seed=st.integers(0, 999))
@settings(max_examples=25, deadline=None)
@pytest.mark.requirement("TWN-03")
def test_whatever_faults_strike_everything_is_taken_back(rules, acts, seed):
    world = World(SHOP.declaration)
    before = world.digest()
    run = episode(*rules, seed=seed, world=world)
    for number, name in enumerate(acts):
        act(run, name, number)
    run.finish()
    assert not [event for event in run.events if event.kind in ("gap", "error")], run.events
    assert run.close() and world.digest() == before


@given(rules=RULES, acts=ACTS, after=ACTS, seed=st.integers(0, 999))
@settings(max_examples=25, deadline=None)
@pytest.mark.row("R53")
def test_nothing_is_left_of_a_fault_when_its_episode_is_over(rules, acts, after, seed):
    world = World(SHOP.declaration)
    struck = episode(*rules, seed=seed, world=world)
    for number, name in enumerate(acts):
        act(struck, name, number)
    struck.finish()
    assert struck.close()
    runs = [episode(seed=seed, world=world), episode(seed=seed)]
    for run in runs:
        for number, name in enumerate(after):
            act(run, name, number)
    assert not fired(runs[0])
    told = [json.dumps([repr(event) for event in run.events]) for run in runs]
    assert told[0] == told[1] and runs[0].world.digest() == runs[1].world.digest()


@pytest.mark.row("R53")
@pytest.mark.parametrize("kind", sorted({one[0] for one in CALLS} - {"permission_revoked"}))
def test_a_rule_that_has_struck_as_often_as_it_may_strikes_no_more(kind):
    more = next(more for name, more, *_ in CALLS if name == kind)
    run = episode(rule(kind, when={"first_n": 1}, **more))
    first = refund(run)
    for number in range(3):
        refund(run, amount=1, key=f"later-{number}")
    assert len(fired(run)) == 1, first


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{fault: http_500_before, tool: refund, retry_after: 9}", "means nothing to"),
        ("{fault: injected_content, tool: refund}", "needs either payload"),
        ("{fault: injected_content, tool: refund, payload: no}", "there is no payload"),
        ("{fault: slow, tool: refund, delay: soon}", "delay"),
        ("{fault: slow, tool: refund, delay: {median: 1s, sigma: -1}}", "sigma"),
        ("{fault: stale_read, tool: refund, versions: 1, lag: 1s}", "not by both"),
        ("{fault: http_503, tool: refund, window: later}", "window"),
        ("{fault: http_429, tool: refund, when: {after: {tool: nobody}}}", "no tool 'nobody'"),
        ("{fault: http_429, tool: refund, when: {while: 'row('}}", "while"),
        ("{fault: nothing_known, tool: refund}", "nothing_known"),
    ],
)
def test_a_rule_that_makes_no_sense_is_refused_with_its_place(text, said):
    with pytest.raises(SidecarError, match=r"twin\.yaml:\d+") as error:
        declared(TEXT + f"faults: [{text}]\n")
    assert said in str(error.value)


def test_a_twin_that_fails_itself_voids_the_episode_and_leaves_nothing(monkeypatch):
    def broken(*_):
        raise ZeroDivisionError("a fault of ours")

    run = episode()
    monkeypatch.setattr("sidecar.twins.turn.effects.apply_all", broken)
    assert refund(run).status == 501
    assert [(event.kind, event.detail) for event in run.events] == [
        ("error", "ZeroDivisionError: a fault of ours")
    ]
    assert run.changes() == ()
