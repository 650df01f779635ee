"""A bank whose calls touch more than they name: what a draft does not know it does not answer."""

import msgspec
import pytest
from draft_rig import Production, onto
from hypothesis import given, settings
from hypothesis import strategies as st
from tier import examples

from sidecar.analyse.draft.draft import draft
from sidecar.twins.declaration import Declaration

pytestmark = pytest.mark.requirement("TWN-06")


def tool(name, class_="read", **more):
    return {"name": name, "match": {"method": "POST", "path": f"/{name}"}, "class": class_, **more}


ACCOUNTS = [
    {"account": f"AC-{n}", "owner": f"P-{n % 2}", "balance": 10 * n, "open": True} for n in range(5)
]
KNOWN = {"require": 'row("accounts", arguments.account) != null', "status": 404, "body": '"none"'}
BANK = {
    "twin": "bank",
    "entities": {
        "accounts": {"key": "account", "rows": ACCOUNTS},
        "people": {
            "key": "owner",
            "rows": [{"owner": "P-0", "calls": 0}, {"owner": "P-1", "calls": 0}],
        },
        "transfers": {"key": "id"},
    },
    "tools": [
        tool(
            "get_account",
            preconditions=[KNOWN],
            response={"body": 'row("accounts", arguments.account)'},
        ),
        tool("get_person", response={"body": 'row("people", arguments.owner)'}),
        tool("list_accounts", response={"body": 'rows("accounts", {"owner": arguments.owner})'}),
        tool("count_transfers", response={"body": {"transfers": 'count("transfers")'}}),
        tool("get_time", response={"body": {"now": "now"}}),
        tool(
            "transfer",
            "irreversible",
            let={"a": 'row("accounts", arguments.source)', "id": 'next_id("TR")'},
            preconditions=[
                {
                    "require": "compare(a.balance, arguments.amount) >= 0",
                    "status": 409,
                    "body": '"too little"',
                }
            ],
            effects=[
                {
                    "op": "increment",
                    "entity": "accounts",
                    "key": "arguments.source",
                    "field": "balance",
                    "by": "subtract(0, arguments.amount)",
                },
                {
                    "op": "increment",
                    "entity": "accounts",
                    "key": "arguments.target",
                    "field": "balance",
                    "by": "arguments.amount",
                },
                {
                    "op": "insert",
                    "entity": "transfers",
                    "values": {"id": "id", "amount": "arguments.amount"},
                },
                {"op": "increment", "entity": "people", "key": "a.owner", "field": "calls"},
            ],
            response={"status": 201, "body": {"id": "id"}},
        ),
        tool(
            "freeze",
            "irreversible",
            preconditions=[KNOWN],
            effects=[
                {
                    "op": "set",
                    "entity": "accounts",
                    "key": "arguments.account",
                    "values": {"open": False},
                }
            ],
            response={"body": 'row("accounts", arguments.account)'},
        ),
    ],
}


def bank():
    return Production(msgspec.convert(BANK, Declaration))


def choose(dice, seen):
    """A clerk that looks a lot, and moves money between different accounts."""
    one, other = dice.sample([row["account"] for row in ACCOUNTS], 2)
    last = seen[-1] if seen else ("", {}, None)
    if last[0] == "transfer" and dice.random() < 0.7:
        return "get_account", {"account": last[1][dice.choice(["source", "target"])]}
    return dice.choices(
        [
            ("get_account", {"account": one}),
            ("get_account", {"account": "AC-9"}),
            ("transfer", {"source": one, "target": other, "amount": dice.randint(1, 15)}),
            ("freeze", {"account": one}),
            ("get_person", {"owner": dice.choice(["P-0", "P-1"])}),
            ("list_accounts", {"owner": dice.choice(["P-0", "P-1"])}),
            ("count_transfers", {}),
            ("get_time", {}),
        ],
        weights=[8, 1, 5, 1, 2, 2, 1, 1],
    )[0]


@settings(max_examples=examples(12), deadline=None)
@given(seed=st.integers(0, 10_000), runs=st.integers(2, 40))
def test_what_a_call_does_beside_what_it_names_is_never_answered_as_if_it_had_not(seed, runs):
    production = bank()
    drafted = draft([production.recorded(f"r{n}", choose, 10, seed=seed) for n in range(runs)])
    assert not drafted.twin().problems
    fresh = [production.recorded(f"new{n}", choose, 10, seed=seed + 1) for n in range(6)]
    _, _, otherwise = onto(drafted, fresh)
    assert [
        (o.call.seq, o.call.tool, o.call.arguments, o.value, o.recorded) for o in otherwise
    ] == []


def test_with_enough_traffic_most_is_known_and_what_is_not_is_told():
    production = bank()
    drafted = draft([production.recorded(f"r{n}", choose, 12) for n in range(80)])
    says = [one.says for one in drafted.rules if one.part == "transfer"]
    assert any("balance grows by arguments.amount" in one for one in says)
    assert any("balance grows by subtract(0, arguments.amount)" in one for one in says)
    (refusal,) = [one for one in says if one.startswith("refuses with 409")]
    assert "arguments.amount" in refusal and "balance" in refusal
    assert drafted.tools()["get_time"] == 0
    left = [(one.part, one.what, one.why) for one in drafted.left_out]
    assert any(part == "transfer" and "count_transfers" in what for part, what, _ in left)
    assert any(part == "transfer" and "get_person" in what for part, what, _ in left)
    assert any(part == "transfer" and "list_accounts" in what for part, what, _ in left)
    fresh = [production.recorded(f"new{n}", choose, 12, seed=9) for n in range(10)]
    equal, _, otherwise = onto(drafted, fresh)
    assert not otherwise
    assert {one.status for one in equal if one.call.tool == "transfer"} == {201, 409}
