"""A shop whose rules nobody told: what a draft of its traffic says of runs it has not seen.

The shop is the demo's twin. It is never shown to the draft; only what it answered is.
"""

from pathlib import Path

import pytest
from draft_rig import Production, onto
from hypothesis import given, settings
from hypothesis import strategies as st
from tier import examples

from sidecar.analyse.draft.draft import draft
from sidecar.analyse.draft.model import Asked
from sidecar.demo import assets
from sidecar.expression.document import convert, read
from sidecar.twins.declaration import Declaration

pytestmark = pytest.mark.requirement("TWN-06")

TWIN = Path(assets.__path__[0]) / "twin.yaml"
ORDERS = [
    {
        "order_id": f"ORD-{number}",
        "item": item,
        "email": f"{item}@shop.test",
        "customer": f"C-{number % 3}",
        "total": total,
        "currency": "EUR" if number % 4 else "USD",
        "status": "delivered",
        "days_since_delivery": number,
        "refunded": "0.00",
    }
    for number, (item, total) in enumerate(
        [("kettle", "60.00"), ("iron", "55.00"), ("lamp", "19.90"), ("desk", "310.00")] * 2
    )
]
RUNS = 40
AMOUNTS = ("5.00", "12.50", "19.90", "55.00", "60.00")


def shop():
    document = read(TWIN.read_text(), name="twin.yaml")
    document.value["entities"]["orders"]["rows"] = ORDERS
    return Production(convert(document, Declaration))


def choose(dice, seen):
    """An agent that looks before and after, and asks for a refund now and then."""
    looked = [one for one in seen if one[0] == "get_order"]
    if not looked or dice.random() < 0.6:
        known = [one[1]["order_id"] for one in seen if "order_id" in one[1]]
        again = known and dice.random() < 0.6
        return "get_order", {
            "order_id": dice.choice(known) if again else dice.choice(ORDERS)["order_id"]
        }
    if dice.random() < 0.25:
        return "get_refund_policy", {}
    order = dice.choice(looked)[2]
    amount = dice.choice(AMOUNTS)
    return "issue_refund", {
        "order_id": order["order_id"],
        "amount": amount,
        "currency": order["currency"],
        "reason": "as the customer asked",
    }


ASKED = {"issue_refund": Asked(class_="irreversible"), "get_order": Asked(class_="read")}


@pytest.fixture(scope="module")
def drafted():
    production = shop()
    return draft([production.recorded(f"r{n:03}", choose, 14) for n in range(RUNS)], asked=ASKED)


def test_the_effect_of_a_refund_is_found_and_what_it_rests_on(drafted):
    (tool,) = [one for one in drafted.document["tools"] if one["name"] == "issue_refund"]
    effects = {one["op"]: one for one in tool["effects"] if one["entity"] == "orders"}
    assert effects["increment"]["field"] == "refunded"
    assert effects["increment"]["by"] == "arguments.amount"
    says = {one.says: one.support for one in drafted.rules if one.part == "issue_refund"}
    (text,) = [one for one in says if "refunded grows by arguments.amount" in one]
    assert says[text].n >= 10 and says[text].against == 0 and says[text].examples


def test_a_refund_that_is_too_large_is_refused_for_its_reason(drafted):
    (tool,) = [one for one in drafted.document["tools"] if one["name"] == "issue_refund"]
    refusing = [one for one in tool["preconditions"] if one.get("status") == 409]
    assert len(refusing) == 1
    wanted = (
        "compare(add(orders_by_order_id.refunded, arguments.amount), orders_by_order_id.total) <= 0"
    )
    assert wanted in refusing[0]["require"]
    assert refusing[0]["body"] == {"error": '"more than is left on the order"'}


def test_runs_that_were_not_seen_are_answered_as_production_did_or_not_at_all(drafted):
    production = shop()
    fresh = [production.recorded(f"new{n}", choose, 14, seed=1) for n in range(10)]
    equal, gaps, otherwise = onto(drafted, fresh)
    assert not otherwise
    assert len(equal) > 0.9 * (len(equal) + len(gaps))
    assert {one.call.tool for one in equal} == {"get_order", "get_refund_policy", "issue_refund"}
    refunds = [one for one in equal if one.call.tool == "issue_refund"]
    assert {one.status for one in refunds} == {201, 409}


@settings(max_examples=examples(18), deadline=None)
@given(seed=st.integers(0, 10_000), runs=st.integers(1, 30), support=st.integers(1, 4))
def test_however_little_was_seen_a_draft_does_not_guess(seed, runs, support):
    production = shop()
    some = [production.recorded(f"r{n}", choose, 9, seed=seed) for n in range(runs)]
    drafted = draft(some, asked=ASKED, support=max(support, 3))
    assert not drafted.twin().problems and not drafted.declaration().problems()
    fresh = [production.recorded(f"new{n}", choose, 9, seed=seed + 1) for n in range(4)]
    equal, gaps, otherwise = onto(drafted, fresh)
    wrong = [(one.call.tool, one.call.arguments, one.value, one.recorded) for one in otherwise]
    assert not wrong
    assert len(equal) + len(gaps) == 36


def test_the_order_in_which_runs_are_given_is_no_matter(drafted):
    production = shop()
    some = [production.recorded(f"r{n:03}", choose, 14) for n in range(RUNS)]
    assert draft(some[::-1], asked=ASKED) == drafted
