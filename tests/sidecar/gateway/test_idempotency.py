"""Keys: what a claim means for the next call, what is the same call, and calls without a key."""

import asyncio

import pytest
from gateway_rig import AllowAll, Shop, rig
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from sidecar.gateway.config import Config, Idempotency, Match, Tool, Upstream
from sidecar.gateway.idempotency import Execute, InFlight, KeyRules, Unknown, meaning
from sidecar.gateway.outcome import read_status
from sidecar.gateway.pointer import is_pointer, parts, without
from sidecar.store.ledger import Claim

NOW = 1_000
CLAIM = Claim(
    claim_id=1, project="p", principal="a", tool="t", key_hash="h", fingerprint="f",
    state="unknown", owner="o", lease_until_ns=NOW, fence=3, attempt=2, call_id="x",
    updated_at_ns=0, expires_at_ns=NOW + 10,
)  # fmt: skip
IDEMPOTENT = KeyRules(class_="irreversible", upstream_idempotent=True)
PLAIN = KeyRules(class_="irreversible")


def run(folder, scenario, **options):
    async def main():
        async with rig(folder, **{"policy": AllowAll(), **options}) as each:
            await scenario(each)

    asyncio.run(main())


def means(rules=PLAIN, *, runs=False, now_ns=NOW, **changes):
    return meaning(structs.replace(CLAIM, **changes), "f", rules, now_ns, runs=runs)


@pytest.mark.row("T40")
@pytest.mark.requirement("IDM-01")
def test_a_call_is_sent_again_only_while_the_upstream_remembers_its_key():
    """T40: an expired lease, or an expired key, made a committed write again."""
    for state in ("unknown", "sent"):
        again = means(IDEMPOTENT, state=state)
        assert isinstance(again, Execute) and again.possible and again.attempt == 3
        assert isinstance(means(IDEMPOTENT, state=state, now_ns=NOW + 10), Unknown)
        assert isinstance(means(state=state), Unknown)


@pytest.mark.requirement("IDM-01")
def test_an_unsent_attempt_after_one_that_may_have_happened_is_no_proof_of_nothing():
    assert means(state="claimed") == Execute(attempt=3, seen=means(state="claimed").seen)
    assert isinstance(means(state="claimed", possible=True), Unknown)
    assert means(IDEMPOTENT, state="claimed", possible=True).possible
    assert isinstance(means(IDEMPOTENT, state="claimed", possible=True, now_ns=NOW + 10), Unknown)
    assert isinstance(means(state="claimed", possible=True, runs=True), InFlight)


@pytest.mark.requirement("IDM-01")
@pytest.mark.parametrize("status", [409, 425, 429])
def test_an_answer_that_asks_to_come_back_is_never_final(status):
    assert read_status(status, True, frozenset())[1] == "unknown"
    assert read_status(status, False, frozenset())[1] == "completed"
    assert read_status(status, True, frozenset({status}))[1] == "failed_safe"


@pytest.mark.requirement("IDM-01")
def test_an_attempt_that_fails_after_one_that_may_have_happened_leaves_the_outcome_unknown(
    tmp_path,
):
    async def scenario(each):
        assert (await each.refund("drop", key="a")).json["code"] == "outcome_unknown"
        port = each.shop.port
        await each.shop.stop()
        again = await each.refund("drop", key="a")  # sent under the same key; nobody is there
        assert (again.status, again.json["code"]) == (409, "outcome_unknown")
        assert (again.json["next_action"], again.headers["retry-after"]) == ("retry", "1")
        receipt = each.ledger.get_receipt(again.headers["gateway-receipt"])
        assert (receipt.effect, receipt.attempt) == ("unknown", 2)
        assert each.query("SELECT state FROM claim") == [("unknown",)]
        each.shop = Shop(each.folder / "shop.db")
        await each.shop.start(port)
        assert (await each.refund("drop", key="a")).status == 409
        keys = {headers["idempotency-key"] for *_, headers, _ in each.shop.seen}
        assert len(keys) == 1 and each.shop.effects() == 2  # this shop does not keep its word
        await each.shop.stop()

    changes = {"idempotency": Idempotency(upstream_idempotent=True)}
    run(tmp_path, scenario, tool_changes=changes)


@pytest.mark.row("T35", "T44")
@pytest.mark.requirement("IDM-01")
def test_who_meets_a_call_on_its_way_or_unknown_is_told_where_to_ask(tmp_path):
    """T44: a call on its way is a conflict to come back to, never an unavailable service."""

    async def scenario(each):
        each.shop.delay = 0.5
        first = asyncio.ensure_future(each.refund("17", key="a"))
        async with asyncio.timeout(5):
            while not each.shop.requests:
                await asyncio.sleep(0.01)
        met = await each.refund("17", key="a")
        assert (met.json["code"], met.headers["retry-after"]) == ("in_flight", "1")
        told = (await each.ask("GET", met.headers["location"])).json["call"]
        assert (told["state"], told["effect"]) == ("sent", "unknown")
        assert (await first).status == 201
        told = (await each.ask("GET", met.headers["location"])).json["call"]
        assert (told["state"], told["effect"]) == ("completed", "confirmed")
        each.shop.delay = 0
        lost = await each.refund("drop", key="b")
        again = await each.refund("drop", key="b")
        assert lost.headers["location"] == again.headers["location"]
        told = (await each.ask("GET", lost.headers["location"])).json["call"]
        assert (told["state"], told["code"]) == ("unknown", "outcome_unknown")
        stranger = each.credential()
        where = met.headers["location"]
        assert (await each.ask("GET", where, credential=stranger)).status == 404
        reused = await each.refund("17", key="a", amount=21)
        assert reused.status == 422 and "location" not in reused.headers

    run(tmp_path, scenario)


@pytest.mark.row("T36", "T37")
@pytest.mark.requirement("IDM-01")
def test_what_changes_with_every_try_makes_no_other_call_of_it(tmp_path):
    """T36, T37: an ephemeral token, or other metadata, made every retry look new."""

    async def scenario(each):
        path = "/payments/orders/17/refunds"
        body = {"amount": 20, "currency": "EUR", "auth": {"token": "a", "by": "x"}, "at": "1"}
        first = await each.ask("POST", path, key="k", json=body)
        assert first.status == 201
        retried = {**body, "auth": {"token": "b", "by": "x"}, "at": "2"}
        again = await each.ask("POST", path, key="k", json=retried)
        assert (again.status, again.headers["idempotent-replayed"]) == (201, "true")
        for other in ({**body, "amount": 21}, {**body, "auth": {"token": "a", "by": "y"}}):
            reply = await each.ask("POST", path, key="k", json=other)
            assert (reply.status, reply.json["code"]) == (422, "key_reused")
        assert each.shop.effects() == 1

    volatile = Idempotency(volatile=("/auth/token", "/at"))
    run(tmp_path, scenario, tool_changes={"idempotency": volatile})


@pytest.mark.row("T33", "T64")
@pytest.mark.requirement("IDM-01")
def test_a_call_without_a_key_is_not_made_twice_in_a_row_unless_another_is_meant(tmp_path):
    """T33, T64: the client's stream broke, and it sends the same again under a new id."""

    async def scenario(each):
        assert (await each.refund("17", key=None)).status == 201
        again = await each.refund("17", key=None)
        assert (again.status, again.json["code"]) == (409, "possible_duplicate")
        assert again.json["next_action"] == "request"
        assert (await each.refund("17", key=None, amount=21)).status == 201
        assert (await each.refund("17", key="mine")).status == 201  # a key says that it is meant
        meant = await each.refund("17", key=None, **{"Confirm-Distinct": "?1"})
        assert meant.status == 201
        wrong = await each.refund("17", key=None, **{"Confirm-Distinct": "yes"})
        assert (wrong.status, wrong.json["code"]) == (400, "confirm_distinct_invalid")
        other = each.credential()
        assert (await each.refund("17", key=None, credential=other)).status == 201
        assert each.shop.effects() == 5

    changes = {"idempotency": Idempotency(duplicate_window="1h")}
    run(tmp_path, scenario, tool_changes=changes, policy=None)  # the default one asks for a key


@pytest.mark.row("T33", "T38")
@pytest.mark.requirement("IDM-01")
def test_100_calls_without_a_key_at_once_make_one_effect(tmp_path):
    async def scenario(each):
        replies = await asyncio.gather(*(each.refund("17", key=None) for _ in range(100)))
        assert sorted(reply.status for reply in replies) == [201] + 99 * [409]
        assert {reply.json.get("code") for reply in replies} == {None, "possible_duplicate"}
        assert each.shop.effects() == 1

    run(tmp_path, scenario, tool_changes={"idempotency": Idempotency(duplicate_window="1h")})


@pytest.mark.requirement("IDM-01")
def test_an_unknown_outcome_guards_a_call_without_a_key_however_long_ago(tmp_path):
    async def scenario(each):
        assert (await each.refund("drop", key=None)).json["code"] == "outcome_unknown"
        await asyncio.sleep(0.02)  # beyond the window
        assert (await each.refund("drop", key=None)).json["code"] == "possible_duplicate"
        assert each.shop.effects() == 1

    run(tmp_path, scenario, tool_changes={"idempotency": Idempotency(duplicate_window="10ms")})


@pytest.mark.parametrize(
    ("rules", "path"),
    [
        (Idempotency(volatile=("at",)), "volatile.0"),
        (Idempotency(volatile=("/a", "/b~2")), "volatile.1"),
        (Idempotency(duplicate_window="soon"), "duplicate_window"),
        (Idempotency(upstream_retention="x"), "upstream_retention"),
        (Idempotency(upstream_idempotent=True, retention="25h"), "retention"),
    ],
)
def test_rules_that_cannot_be_kept_are_refused(rules, path):
    tool = Tool(
        name="t", upstream="u", match=Match(method="POST", path="/t"), idempotency=rules
    )  # fmt: skip
    upstream = Upstream(name="u", url="http://127.0.0.1:1", allow_cidrs=("127.0.0.0/8",))
    found = Config(upstreams=(upstream,), tools=(tool,)).problems()
    assert [each.path for each in found] == [f"tools.0.idempotency.{path}"]
    longer = structs.replace(rules, retention="25h", upstream_retention="48h", volatile=())
    kept = structs.replace(tool, idempotency=structs.replace(longer, duplicate_window=""))
    assert Config(upstreams=(upstream,), tools=(kept,)).problems() == []


names = st.text("ab/~", max_size=3)


@given(st.recursive(st.integers(), lambda inner: st.dictionaries(names, inner, max_size=3)), names)
def test_a_pointer_takes_away_the_member_it_names_and_nothing_else(value, name):
    pointer = "/" + name.replace("~", "~0").replace("/", "~1")
    assert is_pointer(pointer) or not name
    kept = without(value, (parts(pointer),))
    if isinstance(value, dict):
        assert kept == {key: member for key, member in value.items() if key != name}
    else:
        assert kept == value
