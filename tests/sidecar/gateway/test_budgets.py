"""Budgets at the gateway: what a call reserves, what it then took, and what is refused."""

import asyncio
from contextlib import AsyncExitStack

import pytest
from gateway_rig import AllowAll, Settings, rig
from ledger_rig import call, intent, ledgers
from msgspec import structs

from processors.model.call import Reason
from sidecar import clock
from sidecar.gateway.budget import Budget, Priced, problems
from sidecar.gateway.config import Cost, Tokens
from sidecar.gateway.policy.result import PolicyAnswer, read_answer
from sidecar.gateway.window import read_window
from sidecar.store.budget import Hold
from sidecar.store.ledger import CallQuery

S = 1_000_000_000
EUR = Budget(scope="project", limit="100.00", currency="EUR")
CALLS = Budget(scope="agent", limit="3", unit="calls")


def run(folder, scenario, *budgets, policy=None, **options):
    settings = Settings(accept_ephemeral_ledger=True, budgets=budgets)

    async def main():
        async with rig(folder, policy=policy or AllowAll(), settings=settings, **options) as each:
            return await scenario(each)

    return asyncio.run(main())


def standing(each, budget=EUR, subject="", now_ns=None):
    now_ns = now_ns or clock.now_ns()
    window = read_window(budget.window, budget.zone, now_ns)
    asked = Hold(
        budget=budget.known_as, subject=subject, unit=budget.measured, amount="0",
        limit=budget.limit, window_ns=window.start_ns, length_ns=window.length_ns,
    )  # fmt: skip
    found = each.ledger.standings("default", [asked], now_ns)[0]
    return found.held, found.spent


def kinds(each):
    return [entry.kind for entry in each.ledger.entries_after(0, 1000)]


@pytest.mark.requirement("BUD-01")
def test_money_is_held_before_a_call_and_settled_or_given_back_after(tmp_path):
    async def scenario(each):
        assert (await each.refund("17", key="a")).status == 201
        assert standing(each) == ("0", "20")
        assert (await each.refund("s400-x", key="b")).status == 400
        assert standing(each) == ("0", "20")
        assert (await each.refund("late503", key="c")).json["code"] == "outcome_unknown"
        assert standing(each) == ("20", "20")
        said = [kind for kind in kinds(each) if kind.startswith("budget")]
        assert said == [
            *("budget_hold", "budget_settle", "budget_hold", "budget_release", "budget_hold")
        ]

    run(tmp_path, scenario, EUR)


@pytest.mark.row("H", "T45")
@pytest.mark.requirement("BUD-01")
def test_concurrent_calls_never_pass_a_budget_before_what_they_take_is_seen(tmp_path):
    async def scenario(each):
        each.shop.delay = 0.05
        replies = await asyncio.gather(
            *(each.refund("17", key=f"k{n}", amount=30) for n in range(12))
        )
        refused = [each for each in replies if each.status != 201]
        assert len(refused) == 9 and {each.status for each in refused} == {429}
        assert {each.json["code"] for each in refused} == {"budget_exceeded"}
        assert {each.json["next_action"] for each in refused} == {"retry"}
        assert each.shop.effects() == 3 and standing(each) == ("0", "90")

    run(tmp_path, scenario, EUR)


@pytest.mark.row("H", "T45")
@pytest.mark.full
@pytest.mark.requirement("BUD-01")
def test_two_gateways_on_one_postgres_admit_exactly_floor_of_budget_by_cost(tmp_path):
    async def main(store):
        settings = Settings(accept_ephemeral_ledger=True, budgets=(EUR,))
        async with AsyncExitStack() as stack:
            one, two = [
                await stack.enter_async_context(
                    rig(tmp_path / name, policy=AllowAll(), settings=settings, ledgers=store)
                )
                for name in ("one", "two")
            ]
            replies = await asyncio.gather(
                *(
                    gateway.refund("17", key=f"{gateway.folder.name}{n}", amount=7)
                    for n in range(20)
                    for gateway in (one, two)
                )
            )
            admitted = [reply for reply in replies if reply.status == 201]
            assert len(admitted) == 100 // 7 == one.shop.effects() + two.shop.effects()
            assert {reply.status for reply in replies} == {201, 429}
            assert standing(one) == standing(two) == ("0", "98")

    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    with ledgers("postgres", tmp_path) as store:
        asyncio.run(main(store))


def test_an_amount_no_budget_can_ever_let_through_is_not_worth_a_retry(tmp_path):
    async def scenario(each):
        large = await each.refund("17", key="a", amount=101)
        assert (large.status, large.json["code"]) == (403, "budget_exceeded")
        assert large.json["next_action"] == "none"
        assert each.shop.effects() == 0

    run(tmp_path, scenario, EUR)


def test_one_call_takes_no_more_than_the_budget_lets_one_take(tmp_path):
    async def scenario(each):
        assert (await each.refund("17", key="a", amount=50)).status == 201
        over = await each.refund("17", key="b", amount=50.01)
        assert (over.status, over.json["code"]) == (403, "limit_amount")

    run(tmp_path, scenario, structs.replace(EUR, call_max="50"))


def test_a_replay_takes_nothing(tmp_path):
    async def scenario(each):
        for _ in range(8):
            assert (await each.refund("17", key="a")).status == 201
        assert standing(each) == ("0", "20") and each.shop.effects() == 1

    run(tmp_path, scenario, EUR)


@pytest.mark.row("T49")
def test_a_call_that_was_not_sent_gives_everything_back(tmp_path):
    async def scenario(each):
        assert (await each.refund("17", key="a")).status == 502
        assert standing(each) == ("0", "0")
        assert standing(each, CALLS, each.ledger.list_calls(CallQuery())[0].principal) == ("0", "0")

    run(tmp_path, scenario, EUR, CALLS, upstream_url="http://127.0.0.1:1")


@pytest.mark.parametrize("order", ["17", "s404-x", "late503"])
def test_a_call_that_was_sent_counts_whatever_came_of_it(tmp_path, order):
    async def scenario(each):
        replies = [await each.refund(order, key=f"k{n}") for n in range(4)]
        assert [reply.status == 429 for reply in replies] == [False, False, False, True]
        principal = each.ledger.list_calls(CallQuery())[0].principal
        assert standing(each, CALLS, principal) == ("0", "3")

    run(tmp_path, scenario, CALLS)


@pytest.mark.requirement("BUD-01")
def test_reads_fall_under_budgets_too_and_can_be_made_again(tmp_path):
    async def scenario(each):
        statuses = [(await each.ask("GET", "/payments/orders/17", key="a")).status for _ in "1234"]
        assert statuses == [200, 200, 200, 429]
        assert each.ledger.unresolved() == []
        row = each.ledger.list_calls(CallQuery())[1]
        assert (row.phase, row.state) == ("executed", "completed")

    run(tmp_path, scenario, CALLS)


def test_a_budgeted_read_without_an_answer_is_a_timeout_that_is_paid_for(tmp_path):
    async def scenario(each):
        each.shop.delay = 3
        late = await each.ask("GET", "/payments/orders/17")
        assert (late.status, late.json["code"]) == (504, "upstream_timeout")
        assert each.ledger.unresolved() == []
        held, spent = standing(each, SECONDS)
        assert held == "0" and 1 <= float(spent) < 3

    seconds = SECONDS
    run(tmp_path, scenario, seconds)


SECONDS = Budget(scope="project", limit="100", unit="seconds")


def test_time_is_held_for_as_long_as_a_call_may_take_and_settled_for_what_it_took(tmp_path):
    async def scenario(each):
        assert (await each.ask("GET", "/payments/orders/17")).status == 200
        held, spent = standing(each, SECONDS)
        assert held == "0" and 0 < float(spent) < 1
        narrow = await each.refund("17", key="a")  # its timeout is 2 s
        assert (narrow.status, narrow.json["code"]) == (403, "budget_exceeded")

    run(tmp_path, scenario, SECONDS, structs.replace(SECONDS, limit="1.5", name="narrow"))


@pytest.mark.row("T49")
def test_what_the_tools_answer_says_was_spent_is_what_is_settled(tmp_path):
    cost = Cost(amount="arguments.missing", currency="'EUR'", max="60", settle="/refunded")
    tokens = Budget(scope="project", limit="1000", unit="tokens")

    async def scenario(each):
        assert (await each.refund("17", key="a", amount=12)).status == 201
        assert standing(each) == ("0", "12")
        assert standing(each, tokens) == ("0", "12")
        assert (
            await each.refund("17", key="b", amount=-3)
        ).status == 201  # nonsense: all that was held
        assert standing(each) == ("0", "72")

    changes = {"tokens": Tokens(max="500", settle="/refunded")}
    run(tmp_path, scenario, EUR, tokens, tool_changes={**changes, "cost": cost})


@pytest.mark.row("H", "T46")
@pytest.mark.requirement("BUD-01")
def test_an_unknown_cost_is_never_let_through_for_nothing(tmp_path):
    cost = Cost(amount="arguments.missing", currency="'EUR'")

    async def scenario(each):
        refused = await each.refund("17", key="a")
        assert (refused.status, refused.json["code"]) == (403, "cost_unknown")
        assert each.shop.effects() == 0 and standing(each) == ("0", "0")

    run(tmp_path, scenario, EUR, tool_changes={"cost": cost})


@pytest.mark.row("T46")
@pytest.mark.parametrize(
    ("changes", "status", "spent"),
    [({"unpriced": "deny"}, 403, "0"), ({"unpriced": "flat", "flat": "1.50"}, 200, "1.5")],
)
def test_a_read_of_unknown_cost_takes_what_its_budget_says(tmp_path, changes, status, spent):
    cost = Cost(amount="arguments.missing", currency="'EUR'")

    async def scenario(each):
        reply = await each.ask("GET", "/payments/orders/17")
        assert reply.status == status
        assert standing(each) == ("0", spent)

    run(tmp_path, scenario, structs.replace(EUR, **changes), tool_changes={"read_cost": cost})


def test_an_observed_tool_is_counted_and_not_refused(tmp_path):
    async def scenario(each):
        for key in ("a", "b", "c"):
            assert (await each.refund("17", key=key, amount=60)).status == 201
        assert standing(each) == ("0", "180")

    run(tmp_path, scenario, EUR, tool_changes={"mode": "observe"})


class Says(AllowAll):
    """A policy port that gives one answer, and keeps what it was asked."""

    def __init__(self, raw):
        self._answer = structs.replace(read_answer(raw), revision=self.revision)
        self.asked = []

    async def decide(self, document):
        self.asked.append(document)
        return self._answer


def limited(**limits):
    return Says({"effect": "allow_with_limits", "reasons": [{"code": "some"}], "limits": limits})


def test_policy_sees_how_every_budget_of_the_call_stands(tmp_path):
    policy = Says({"effect": "allow", "reasons": [{"code": "ok"}]})

    async def scenario(each):
        await each.refund("17", key="a")
        await each.refund("late503", key="b", amount=30)
        await each.refund("17", key="c")

    run(tmp_path, scenario, EUR, policy=policy)
    seen = [asked["context"]["budget"][EUR.known_as] for asked in policy.asked]
    assert [(each["used"], each["reserved"]) for each in seen] == [
        *(("0", "0"), ("20", "0"), ("20", "30"))
    ]
    assert seen[0]["limit"] == "100.00" and seen[0]["unit"] == "EUR"


@pytest.mark.requirement("GW-02")
@pytest.mark.parametrize(
    ("limits", "statuses"),
    [
        ({"rate": [{"n": 2, "window_s": 60, "key": "agent"}]}, [201, 201, 429, 429]),
        ({"spend": [{"limit": "65", "window_s": 60, "scope": "tool"}], "currency": "EUR"},
         [201, 201, 201, 429]),
        ({"count": 1}, [201, 429, 429, 429]),
        ({"allowed_hosts": ["127.0.0.1"]}, [201, 201, 201, 201]),
        ({"allowed_hosts": ["payments.example"]}, [403, 403, 403, 403]),
        ({"spend": [{"limit": "65", "window_s": 60, "scope": "tool"}], "currency": "USD"},
         [403, 403, 403, 403]),
    ],
    ids=["rate", "spend", "count", "host", "other host", "other currency"],
)  # fmt: skip
def test_the_limits_of_a_decision_hold_over_many_calls(tmp_path, limits, statuses):
    async def scenario(each):
        parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
        replies = [await each.refund("17", key=f"k{n}", traceparent=parent) for n in range(4)]
        assert [reply.status for reply in replies] == statuses
        assert each.shop.effects() == statuses.count(201)

    run(tmp_path, scenario, policy=limited(**limits))


@pytest.mark.parametrize(
    "limits",
    [
        {"rate": []}, {"rate": [{"n": 0, "window_s": 1}]}, {"rate": [{"n": 1}]},
        {"rate": [{"n": 1, "window_s": 1, "key": "galaxy"}]},
        {"rate": [{"n": 1, "window_s": 1, "burst": 3}]},
        {"spend": [{"limit": "1", "window_s": 1}]},
        {"spend": [{"limit": 1.5, "window_s": 1}], "currency": "EUR"},
        {"spend": [{"limit": "NaN", "window_s": 1}], "currency": "EUR"},
        {"spend": [{"limit": "-1", "window_s": 1}], "currency": "EUR"},
        {"count": True}, {"allowed_hosts": []}, {"allowed_hosts": [1]}, {"currency": "EUR"},
    ],
)  # fmt: skip
def test_a_limit_that_cannot_be_read_denies(limits):
    raw = {"effect": "allow_with_limits", "reasons": [{"code": "some"}], "limits": limits}
    answer = read_answer(raw)
    assert (answer.effect, answer.reasons[0].code) == ("deny", "policy_error")
    assert isinstance(answer, PolicyAnswer) and isinstance(answer.reasons[0], Reason)


@pytest.mark.row("H", "T51")
@pytest.mark.parametrize("amount", ["NaN", "Infinity", "-1", "1e400", "0x10", "１", "1,000"])
def test_no_spelling_of_a_cost_gets_past_a_budget(tmp_path, amount):
    async def scenario(each):
        refused = await each.refund("17", key="a", amount=amount)
        assert (refused.status, refused.json["code"]) == (400, "cost_invalid")
        assert each.shop.effects() == 0

    run(tmp_path, scenario, EUR)


def ns(text):
    from datetime import datetime

    return int(datetime.fromisoformat(text).timestamp()) * S


@pytest.mark.parametrize(
    ("window", "zone", "now", "start", "end"),
    [
        ("day", "UTC", "2026-11-30T23:59:59+00:00",
         "2026-11-30T00:00+00:00", "2026-12-01T00:00+00:00"),
        ("day", "Europe/Berlin", "2026-03-29T12:00+00:00",
         "2026-03-29T00:00+01:00", "2026-03-30T00:00+02:00"),
        ("day", "Europe/Berlin", "2026-10-25T12:00+00:00",
         "2026-10-25T00:00+02:00", "2026-10-26T00:00+01:00"),
        ("day", "Pacific/Auckland", "2026-06-30T13:00+00:00",
         "2026-07-01T00:00+12:00", "2026-07-02T00:00+12:00"),
        ("week", "UTC", "2026-11-29T10:00+00:00",
         "2026-11-23T00:00+00:00", "2026-11-30T00:00+00:00"),
        ("month", "UTC", "2028-02-29T10:00+00:00",
         "2028-02-01T00:00+00:00", "2028-03-01T00:00+00:00"),
        ("month", "UTC", "2026-12-31T23:59+00:00",
         "2026-12-01T00:00+00:00", "2027-01-01T00:00+00:00"),
        ("month", "Europe/Berlin", "2026-10-31T23:30+00:00",
         "2026-11-01T00:00+01:00", "2026-12-01T00:00+01:00"),
    ],
)  # fmt: skip
def test_calendar_windows_begin_and_end_at_midnight_where_the_budget_lives(
    window, zone, now, start, end
):
    read = read_window(window, zone, ns(now))
    assert (read.start_ns, read.end_ns, read.length_ns) == (ns(start), ns(end), 0)


def test_a_calendar_budget_says_when_to_come_back(tmp_path):
    async def scenario(each):
        assert (await each.refund("17", key="a", amount=90)).status == 201
        full = await each.refund("17", key="b")
        assert full.status == 429 and 0 < int(full.headers["retry-after"]) <= 86_400

    run(tmp_path, scenario, structs.replace(EUR, window="day"))


@pytest.mark.row("T51")
@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"limit": "NaN"}, "0.limit"), ({"limit": "-1"}, "0.limit"), ({"limit": "1e3"}, "0.limit"),
        ({"currency": "eur"}, "0.currency"), ({"currency": ""}, "0.currency"),
        ({"unit": "calls"}, "0.currency"), ({"window": "fortnight"}, "0.window"),
        ({"window": "1ms"}, "0.window"), ({"zone": "Europe/Berlin"}, "0.zone"),
        ({"window": "day", "zone": "Atlantis/Deep"}, "0.zone"),
        ({"window": "day", "zone": "../../etc/passwd"}, "0.zone"),
        ({"unpriced": "flat"}, "0.flat"), ({"flat": "1"}, "0.flat"),
        ({"call_max": "x"}, "0.call_max"),
        ({"name": "\n"}, "0.name"),
    ],
)  # fmt: skip
def test_a_budget_that_cannot_be_kept_is_told_at_the_start(changes, path):
    assert path in [each.path for each in problems((structs.replace(EUR, **changes),), ())]


def test_two_budgets_of_one_name_and_tools_that_could_never_be_called_are_told_at_the_start():
    assert problems((EUR, structs.replace(EUR, window="month")), ()) == []
    assert [each.path for each in problems((EUR, EUR), ())] == ["1.name"]
    free = (
        Priced(name="wipe", class_="irreversible", costs=False),
        Priced(name="look", class_="read", costs=False),
        Priced(name="pay", class_="irreversible", costs=True),
    )
    told = problems((EUR,), free)
    assert [(each.path, "wipe" in each.text) for each in told] == [("0.tools", True)]
    assert problems((structs.replace(EUR, tools=("pay",)),), free) == []


@pytest.mark.row("H")
@pytest.mark.parametrize(
    ("sent", "held", "state"), [(False, ("0", "0"), "failed_safe"), (True, ("20", "0"), "unknown")]
)
def test_a_process_that_died_with_a_hold_leaves_it_only_where_an_effect_is_possible(
    tmp_path, sent, held, state
):
    left = call("c1", project="default", tool="issue_refund", principal="key:dead")

    async def life(each):
        now_ns = clock.now_ns()
        window = read_window(EUR.window, EUR.zone, now_ns)
        amounts = {"unit": EUR.measured, "amount": "20", "limit": EUR.limit}
        wanted = Hold(budget=EUR.known_as, subject="", length_ns=window.length_ns, **amounts)
        made = await each.ledger.commit_intent(
            intent(
                left,
                owner="dead",
                policy_revision="allow-all",
                holds=(wanted,),
                now_ns=now_ns,
                expires_at_ns=now_ns + 10**12,  # not to be forgotten meanwhile
            )
        )
        if sent:
            assert await each.ledger.mark_sent(made.claim, now_ns)
        assert standing(each) == ("20", "0")

    async def after(each):
        assert standing(each) == held
        assert each.ledger.get_call("c1").state == state

    run(tmp_path, life, EUR)
    run(tmp_path, after, EUR)


@pytest.mark.row("T50")
@pytest.mark.parametrize(
    ("narrowed", "statuses"),
    [
        ({}, [201, 429]), ({"tools": ("issue_refund",)}, [201, 429]),
        ({"tools": ("add_note",)}, [201, 201]), ({"projects": ("default",)}, [201, 429]),
        ({"projects": ("other",)}, [201, 201]), ({"agents": ("key:nobody",)}, [201, 201]),
    ],
)  # fmt: skip
def test_a_budget_counts_what_it_is_narrowed_to_and_nothing_else(tmp_path, narrowed, statuses):
    async def scenario(each):
        got = [(await each.refund("17", key=key, amount=60)).status for key in "ab"]
        assert got == statuses

    run(tmp_path, scenario, structs.replace(EUR, **narrowed))
