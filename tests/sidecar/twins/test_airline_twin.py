"""The airline twin: the order of its checks, its texts, its sums and its laws."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.twins import examples
from sidecar.twins.episode import Call, Episode, Setting
from sidecar.twins.files import load_twins
from sidecar.twins.state.files import with_state
from sidecar.twins.world import World

pytestmark = pytest.mark.requirement("TWN-01")

DAY = {
    "status": "available",
    "available_seats": {"basic_economy": 1, "economy": 2, "business": 3},
    "prices": {"basic_economy": 50, "economy": 100, "business": 300},
}
NEXT, GONE, LATE = "2024-05-16", "2024-05-17", "2024-05-18"


def flight(number, origin, destination, leaves, lands, **dates):
    days = {NEXT: DAY, GONE: {"status": "cancelled"}, **dates}
    return {
        "flight_number": number,
        "origin": origin,
        "destination": destination,
        "scheduled_departure_time_est": leaves,
        "scheduled_arrival_time_est": lands,
        "dates": days,
    }


STATE = {
    "users": {
        "ann": {
            "payment_methods": {
                "gift": {"source": "gift_card", "amount": 500, "id": "gift"},
                "cert": {"source": "certificate", "amount": 250, "id": "cert"},
                "card": {"source": "credit_card", "id": "card"},
                "low": {"source": "gift_card", "amount": 10, "id": "low"},
            },
            "reservations": ["R1"],
        }
    },
    "flights": {
        "F1": flight("F1", "SFO", "JFK", "06:00:00", "09:00:00"),
        "F2": flight("F2", "JFK", "BOS", "10:00:00", "11:00:00"),
        "F3": flight("F3", "SFO", "JFK", "22:00:00", "05:00:00+1"),
        "F4": flight("F4", "JFK", "BOS", "08:00:00", "09:30:00", **{"2024-05-17": DAY}),
    },
    "reservations": {
        "R1": {
            "reservation_id": "R1",
            "user_id": "ann",
            "cabin": "economy",
            "flights": [
                {
                    "flight_number": "F1",
                    "date": NEXT,
                    "price": 80,
                    "origin": "SFO",
                    "destination": "JFK",
                }
            ],
            "passengers": [{"first_name": "Ann"}, {"first_name": "Bo"}],
            "payment_history": [{"payment_id": "card", "amount": 160}],
            "total_baggages": 1,
            "nonfree_baggages": 1,
        }
    },
}


@pytest.fixture(scope="module")
def twin(tmp_path_factory):
    folder = tmp_path_factory.mktemp("state")
    for name, rows in STATE.items():
        (folder / f"{name}.json").write_text(json.dumps(rows))
    loaded = load_twins([Path(examples.__path__[0]) / "airline" / "twin.yaml"])
    return with_state(loaded.group, folder).twins["airline"]


@pytest.fixture
def run(twin):
    made = Episode(twin, World(twin.declaration), Setting())
    yield made
    assert made.close()


def ask(run, tool, **arguments):
    return run.call(Call(tool=tool, arguments=arguments)).value


BOOK = {
    "user_id": "ann",
    "origin": "SFO",
    "destination": "JFK",
    "flight_type": "one_way",
    "cabin": "economy",
    "flights": [{"flight_number": "F1", "date": NEXT}],
    "passengers": [{"first_name": "Ann"}],
    "payment_methods": [{"payment_id": "gift", "amount": 180}],
    "total_baggages": 1,
    "nonfree_baggages": 1,
    "insurance": "yes",
}
UPDATE = {
    "reservation_id": "R1",
    "cabin": "economy",
    "flights": [{"flight_number": "F1", "date": NEXT}],
    "payment_id": "card",
}
BAGS = {"reservation_id": "R1", "total_baggages": 3, "nonfree_baggages": 3, "payment_id": "gift"}


def on(number, date=NEXT):
    return {"flights": [{"flight_number": number, "date": date}]}


def pay(name, amount):
    return {"payment_methods": [{"payment_id": name, "amount": amount}]}


@pytest.mark.parametrize(
    ("tool", "arguments", "says"),
    [
        ("get_user_details", {"user_id": "bo"}, "user not found"),
        ("get_reservation_details", {"reservation_id": "R9"}, "user not found"),
        ("calculate", {"expression": "2 + x"}, "invalid characters in expression"),
        ("book_reservation", {**BOOK, "user_id": "bo", **on("F9")}, "user not found"),
        ("book_reservation", {**BOOK, **on("F9"), **pay("no", 1)}, "flight F9 not found"),
        ("book_reservation", {**BOOK, **on("F1", LATE)}, f"flight F1 not found on date {LATE}"),
        ("book_reservation", {**BOOK, **on("F1", GONE)}, f"flight F1 not available on date {GONE}"),
        (
            "book_reservation",
            {**BOOK, "passengers": [{}] * 3, **pay("no", 1)},
            "not enough seats on flight F1",
        ),
        ("book_reservation", {**BOOK, **pay("no", 180)}, "payment method no not found"),
        (
            "book_reservation",
            {**BOOK, **pay("cert", 251)},
            "not enough balance in payment method cert",
        ),
        (
            "book_reservation",
            {**BOOK, **pay("card", 179)},
            "payment amount does not add up, total price is 180, but paid 179",
        ),
        ("cancel_reservation", {"reservation_id": "R9"}, "reservation not found"),
        ("update_reservation_flights", {**UPDATE, "reservation_id": "R9"}, "reservation not found"),
        ("update_reservation_flights", {**UPDATE, "payment_id": "no"}, "payment method not found"),
        (
            "update_reservation_flights",
            {**UPDATE, "payment_id": "cert"},
            "certificate cannot be used to update reservation",
        ),
        ("update_reservation_flights", {**UPDATE, **on("F9")}, "flight F9 not found"),
        (
            "update_reservation_flights",
            {**UPDATE, **on("F1", LATE), "payment_id": "no"},
            f"flight F1 not found on date {LATE}",
        ),
        (
            "update_reservation_flights",
            {**UPDATE, **on("F1", GONE), "payment_id": "no"},
            f"flight F1 not available on date {GONE}",
        ),
        (
            "update_reservation_flights",
            {**UPDATE, "cabin": "basic_economy", "payment_id": "no"},
            "not enough seats on flight F1",
        ),
        (
            "update_reservation_flights",
            {**UPDATE, "cabin": "business", **on("F1"), "payment_id": "low"},
            "gift card balance is not enough",
        ),
        ("update_reservation_baggages", {**BAGS, "reservation_id": "R9"}, "reservation not found"),
        ("update_reservation_baggages", {**BAGS, "payment_id": "no"}, "payment method not found"),
        (
            "update_reservation_baggages",
            {**BAGS, "payment_id": "cert"},
            "certificate cannot be used to update reservation",
        ),
        (
            "update_reservation_passengers",
            {"reservation_id": "R9", "passengers": [{}]},
            "reservation not found",
        ),
        (
            "book_reservation",
            {**BOOK, "flights": [*BOOK["flights"], {"flight_number": "F9", "date": NEXT}]},
            "flight F9 not found",
        ),
        (
            "book_reservation",
            {
                **BOOK,
                "payment_methods": [
                    {"payment_id": "gift", "amount": 100},
                    {"payment_id": "no", "amount": 80},
                ],
            },
            "payment method no not found",
        ),
        (
            "update_reservation_baggages",
            {**BAGS, "nonfree_baggages": 99},
            "gift card balance is not enough",
        ),
        (
            "update_reservation_passengers",
            {"reservation_id": "R1", "passengers": [{}]},
            "number of passengers does not match",
        ),
        ("send_certificate", {"user_id": "bo", "amount": 1}, "user not found"),
    ],
)
def test_the_first_check_that_fails_answers_and_nothing_changes(run, tool, arguments, says):
    assert ask(run, tool, **arguments) == f"Error: {says}"
    assert run.changes() == () and run.events[-1].kind == "refused"


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("get_user_details", {}),
        ("get_user_details", {"user_id": "ann", "more": 1}),
        ("get_user_details", {"user_id": ["ann"]}),
        ("calculate", {"expression": 4}),
        ("calculate", {"expression": "1 / 0"}),
        ("calculate", {"expression": "9 ** 9 ** 9 ** 9"}),
        ("book_reservation", {**BOOK, "nonfree_baggages": "1"}),
        ("book_reservation", {**BOOK, "cabin": "first"}),
        ("book_reservation", {**BOOK, **on(["F1"])}),
        (
            "book_reservation",
            {**BOOK, "payment_methods": [{"payment_id": "cert", "amount": 90}] * 2},
        ),
        ("calculate", {"expression": "2 +"}),
        ("calculate", {"expression": "(1)(2)"}),
        ("cancel_reservation", {"reservation_id": {"id": "R1"}}),
        ("update_reservation_passengers", {"reservation_id": "R1", "passengers": None}),
        ("send_certificate", {"user_id": "ann"}),
        ("book_reservation", {**BOOK, "payment_methods": [{"payment_id": "gift"}]}),
        ("update_reservation_flights", {**UPDATE, "flights": [{"date": NEXT}]}),
        ("update_reservation_baggages", {**BAGS, "nonfree_baggages": "3"}),
        ("search_onestop_flight", {"origin": "SFO", "destination": "BOS", "date": ""}),
    ],
)
def test_a_call_that_breaks_on_its_arguments_says_so_and_changes_nothing(run, tool, arguments):
    assert ask(run, tool, **arguments).startswith("Error: ")
    assert run.changes() == () and run.events[-1].kind == "refused"


def test_a_booking_is_charged_stored_and_seats_stay(run):
    made = ask(run, "book_reservation", **BOOK)
    assert made["reservation_id"] == "HATHAT" and made["created_at"] == "2024-05-15T15:00:00"
    assert made["payment_history"] == BOOK["payment_methods"]
    assert made["flights"] == [
        {
            "flight_number": "F1",
            "date": NEXT,
            "price": 100,
            "origin": "SFO",
            "destination": "JFK",
        }
    ]
    user = ask(run, "get_user_details", user_id="ann")
    assert user["reservations"] == ["R1", "HATHAT"] and "user_id" not in user
    assert user["payment_methods"]["gift"]["amount"] == 320
    assert {change.entity for change in run.changes()} == {"users", "reservations"}
    again = ask(run, "book_reservation", **{**BOOK, **pay("cert", 180)})
    assert again["reservation_id"] == "HATHAU"
    assert "cert" not in ask(run, "get_user_details", user_id="ann")["payment_methods"]


def test_searches(run):
    direct = ask(run, "search_direct_flight", origin="SFO", destination="JFK", date=NEXT)
    assert [one["flight_number"] for one in direct] == ["F1", "F3"]
    assert "dates" not in direct[0] and direct[0]["prices"] == DAY["prices"]
    assert ask(run, "search_direct_flight", origin="SFO", destination="JFK", date=GONE) == []
    pairs = ask(run, "search_onestop_flight", origin="SFO", destination="BOS", date=NEXT)
    told = [[(one["flight_number"], one["date"]) for one in pair] for pair in pairs]
    assert told == [[("F1", NEXT), ("F2", NEXT)], [("F3", NEXT), ("F4", GONE)]]


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        *(("2 + 2", "4.0"), ("(3 * 4) / 7", "1.71"), ("-5", "-5.0"), ("10 - 2.345", "7.65")),
        *((" 8 - 2 - 1 ", "5.0"), ("2 ** 3 ** 2", "512.0"), ("7 // 2 * 2", "6.0"), (".5", "0.5")),
        *(("+".join("1" * 900), "900.0"), ("-(2 - (3 - 4)) * 2", "-6.0")),
    ],
)
def test_sums(run, expression, value):
    assert ask(run, "calculate", expression=expression) == value


def test_an_update_keeps_the_price_of_a_kept_flight_and_never_the_new_cabin(run):
    same = ask(run, "update_reservation_flights", **UPDATE)
    assert same["flights"][0]["price"] == 80 and len(same["payment_history"]) == 1
    up = ask(run, "update_reservation_flights", **{**UPDATE, "cabin": "business"})
    assert up["flights"][0]["price"] == 300 and up["cabin"] == "economy"
    assert up["payment_history"][-1] == {"payment_id": "card", "amount": 440}


def test_a_kept_flight_is_not_checked_again_and_others_are_priced_anew(run):
    full = {**DAY, "available_seats": {**DAY["available_seats"], "economy": 0}}
    flight_row = run.world.row("flights", "F1")
    run.world.put_row("flights", {**flight_row, "dates": {NEXT: full}})
    two = {"flights": [{"flight_number": one, "date": NEXT} for one in ("F1", "F3")]}
    kept = ask(run, "update_reservation_flights", **{**UPDATE, **two})
    assert [one["price"] for one in kept["flights"]] == [80, 100]
    assert kept["payment_history"][-1] == {"payment_id": "card", "amount": 200}
    back = ask(run, "update_reservation_flights", **{**UPDATE, "payment_id": "gift"})
    assert back["payment_history"][-1] == {"payment_id": "gift", "amount": -200}
    user = ask(run, "get_user_details", user_id="ann")
    assert user["payment_methods"]["gift"]["amount"] == 700


def test_bags_that_are_free_or_fewer_cost_nothing_and_a_card_has_no_balance(run):
    free = ask(run, "update_reservation_baggages", **{**BAGS, "nonfree_baggages": 0})
    assert (free["total_baggages"], free["nonfree_baggages"]) == (3, 0)
    assert len(free["payment_history"]) == 1
    paid = ask(run, "update_reservation_baggages", **{**BAGS, "payment_id": "card"})
    assert paid["payment_history"][-1] == {"payment_id": "card", "amount": 150}
    user = ask(run, "get_user_details", user_id="ann")
    assert user["payment_methods"]["gift"]["amount"] == 500


def test_a_cancelled_booking_gives_back_every_entry_and_again(run):
    once = ask(run, "cancel_reservation", reservation_id="R1")
    assert [one["amount"] for one in once["payment_history"]] == [160, -160]
    twice = ask(run, "cancel_reservation", reservation_id="R1")
    assert [one["amount"] for one in twice["payment_history"]] == [160, -160, -160, 160]


def test_a_connection_leaves_after_it_has_landed_and_both_legs_show_the_first_day(run):
    late = flight("F5", "JFK", "BOS", "09:00:00", "10:00:00")
    early = flight("F6", "JFK", "BOS", "08:59:59", "10:00:00")
    run.world.put_row("flights", late)
    run.world.put_row("flights", early)
    pairs = ask(run, "search_onestop_flight", origin="SFO", destination="BOS", date=NEXT)
    numbers = [[one["flight_number"] for one in pair] for pair in pairs]
    assert ["F1", "F5"] in numbers and ["F1", "F6"] not in numbers
    assert all(one["prices"] == DAY["prices"] for pair in pairs for one in pair)
    assert ask(run, "search_onestop_flight", origin="BOS", destination="SFO", date=NEXT) == []


def test_texts(run):
    assert ask(run, "think", thought="hm") == ""
    assert ask(run, "transfer_to_human_agents", summary="s") == "Transfer successful"
    names = [f"certificate_322132{number}" for number in (2, 3, 4)]
    for name in names:
        said = ask(run, "send_certificate", user_id="ann", amount=50)
        assert said == f"Certificate {name} added to user ann with amount 50."
    ask(run, "send_certificate", user_id="ann", amount=50)
    assert run.events[-1].kind == "gap"  # nobody said what comes after the third
    assert ask(run, "list_all_airports")["LGA"] == "LaGuardia"


ACTS = st.lists(
    st.sampled_from(
        [
            ("book_reservation", BOOK),
            ("book_reservation", {**BOOK, **pay("cert", 180)}),
            ("cancel_reservation", {"reservation_id": "R1"}),
            ("cancel_reservation", {"reservation_id": "HATHAT"}),
            ("update_reservation_flights", {**UPDATE, "payment_id": "gift", **on("F3")}),
            ("update_reservation_flights", UPDATE),
            ("update_reservation_baggages", BAGS),
            ("update_reservation_passengers", {"reservation_id": "R1", "passengers": [{}, {}]}),
        ]
    ),
    max_size=6,
)


@settings(max_examples=50, deadline=None)
@given(ACTS)
def test_laws(twin, acts):
    run = Episode(twin, World(twin.declaration), Setting())
    for tool, arguments in acts:
        before = {row["reservation_id"]: row for row in run.world.rows("reservations")}
        gift = run.world.row("users", "ann")["payment_methods"]["gift"]["amount"]
        answer = ask(run, tool, **arguments)
        after = {row["reservation_id"]: row for row in run.world.rows("reservations")}
        user = run.world.row("users", "ann")
        if run.events[-1].kind in ("refused", "gap"):  # a gap: ids have run out
            assert before == after
            continue
        name = answer["reservation_id"]
        entries = answer["payment_history"][len(before.get(name, {}).get("payment_history", ())) :]
        if tool == "cancel_reservation":
            assert answer["status"] == "cancelled"
            assert [one["amount"] for one in entries] == [
                -one["amount"] for one in before[name]["payment_history"]
            ]
            assert sum(one["amount"] for one in answer["payment_history"]) == 0
        else:
            paid = sum(one["amount"] for one in entries if one["payment_id"] == "gift")
            assert user["payment_methods"]["gift"]["amount"] == gift - paid >= 0
        assert set(user["reservations"]) == set(after)
    assert not [one for one in run.changes() if one.entity == "flights"]  # seats never change
    assert run.close()
