"""Reservations of the airline: made, changed, paid for and cancelled. Seats never change."""

from collections.abc import Sequence
from typing import Any

from sidecar.twins.coded import Realm
from sidecar.twins.effects import Unforeseen
from sidecar.twins.examples.airline.flights import Row, priced, seat
from sidecar.twins.examples.airline.refusing import refused

_NEW_IDS = ("HATHAT", "HATHAU", "HATHAV")
_CREATED_AT = "2024-05-15T15:00:00"
_INSURANCE, _BAG = 30, 50


def book_reservation(
    realm: Realm,
    user_id: str,
    origin: str,
    destination: str,
    flight_type: str,
    cabin: str,
    flights: list[Row],
    passengers: list[Row],
    payment_methods: list[Row],
    total_baggages: int,
    nonfree_baggages: int,
    insurance: str,
) -> Row:
    """Check flights and payment, charge, and store the reservation with its user."""
    user = found(realm, "users", user_id, "user not found")
    taken = [seat(realm, one, cabin, len(passengers)) for one in flights]
    total = _price(taken, len(passengers))
    total += _INSURANCE * len(passengers) if insurance == "yes" else 0
    total += _BAG * nonfree_baggages
    methods = _paid(user["payment_methods"], payment_methods, total)
    name = free(_NEW_IDS, [one for one in _NEW_IDS if realm.row("reservations", one)])
    reservation = {
        "reservation_id": name,
        "user_id": user_id,
        "origin": origin,
        "destination": destination,
        "flight_type": flight_type,
        "cabin": cabin,
        "flights": taken,
        "passengers": passengers,
        "payment_history": payment_methods,
        "created_at": _CREATED_AT,
        "total_baggages": total_baggages,
        "nonfree_baggages": nonfree_baggages,
        "insurance": insurance,
    }
    realm.insert("reservations", reservation)
    mine = [*user["reservations"], name]
    realm.replace("users", {**user, "payment_methods": methods, "reservations": mine})
    return reservation


def cancel_reservation(realm: Realm, reservation_id: str) -> Row:
    """Give everything back that was paid (again, when it is cancelled again)."""
    row = _reservation(realm, reservation_id)
    paid = row["payment_history"]
    back = [{"payment_id": one["payment_id"], "amount": -one["amount"]} for one in paid]
    return _stored(realm, {**row, "payment_history": [*paid, *back], "status": "cancelled"})


def update_reservation_flights(
    realm: Realm, reservation_id: str, cabin: str, flights: list[Row], payment_id: str
) -> Row:
    """Replace the flights (not the cabin), and charge or give back the difference."""
    row = _reservation(realm, reservation_id)
    people = len(row["passengers"])
    taken = [_kept(row, one, cabin) or seat(realm, one, cabin, people) for one in flights]
    difference = _price(taken, people) - _price(row["flights"], people)
    _charge(realm, row, payment_id, difference)
    return _stored(realm, {**_entered(row, payment_id, difference), "flights": taken})


def update_reservation_baggages(
    realm: Realm, reservation_id: str, total_baggages: int, nonfree_baggages: int, payment_id: str
) -> Row:
    """Set both counts; bags that are not free and new cost."""
    row = _reservation(realm, reservation_id)
    price = _BAG * max(0, nonfree_baggages - row["nonfree_baggages"])
    _charge(realm, row, payment_id, price)
    counts = {"total_baggages": total_baggages, "nonfree_baggages": nonfree_baggages}
    return _stored(realm, {**_entered(row, payment_id, price), **counts})


def update_reservation_passengers(realm: Realm, reservation_id: str, passengers: list[Row]) -> Row:
    """Replace the passengers; there must be as many as before."""
    row = _reservation(realm, reservation_id)
    if len(passengers) != len(row["passengers"]):
        raise refused("number of passengers does not match")
    return _stored(realm, {**row, "passengers": passengers})


def found(realm: Realm, entity: str, key: Any, otherwise: str) -> Row:
    """The row, refused with that reason where it is missing."""
    hash(key)  # a list or an object is no key at all
    row: Row | None = realm.row(entity, key) if isinstance(key, str) else None
    if row is None:
        raise refused(otherwise, 404)
    return row


def free(names: Sequence[str], taken: Sequence[str]) -> str:
    """The first name that is free. Raises Unforeseen where none is."""
    for name in names:
        if name not in taken:
            return name
    raise Unforeseen(f"all of {', '.join(names)} are taken")


def _price(flights: Sequence[Row], people: int) -> Any:
    return sum(one["price"] * people for one in flights)


def _reservation(realm: Realm, reservation_id: Any) -> Row:
    return found(realm, "reservations", reservation_id, "reservation not found")


def _stored(realm: Realm, row: Row) -> Row:
    realm.replace("reservations", row)
    return row


def _kept(row: Row, wanted: Row, cabin: str) -> Row | None:
    """A flight that was in the reservation already, in the same cabin, at its old price."""
    if cabin != row["cabin"]:
        return None
    number, date = wanted["flight_number"], wanted["date"]
    for one in row["flights"]:
        if one["flight_number"] == number and one["date"] == date:
            return priced(wanted, one["price"], one)
    return None


def _paid(methods: Row, payments: Sequence[Row], total: Any) -> Row:
    """The user's payment methods after paying; refused where they do not cover it."""
    for one in payments:
        name, amount = one["payment_id"], one["amount"]
        if name not in methods:
            raise refused(f"payment method {name} not found")
        method = methods[name]
        limited = method["source"] in ("gift_card", "certificate")
        if limited and method["amount"] < amount:
            raise refused(f"not enough balance in payment method {name}")
    paid = sum(one["amount"] for one in payments)
    if paid != total:
        raise refused(f"payment amount does not add up, total price is {total}, but paid {paid}")
    left = dict(methods)
    for one in payments:
        name, method = one["payment_id"], left[one["payment_id"]]
        if method["source"] == "gift_card":
            left[name] = {**method, "amount": method["amount"] - one["amount"]}
        elif method["source"] == "certificate":
            del left[name]
    return left


def _charge(realm: Realm, row: Row, payment_id: Any, amount: Any) -> None:
    """Charge a change of a reservation to one payment method of its user."""
    user = realm.row("users", row["user_id"])
    methods = user["payment_methods"]
    if payment_id not in methods:
        raise refused("payment method not found")
    method = methods[payment_id]
    if method["source"] == "certificate":
        raise refused("certificate cannot be used to update reservation")
    if method["source"] == "gift_card":
        if method["amount"] < amount:
            raise refused("gift card balance is not enough")
        charged = {**method, "amount": method["amount"] - amount}
        realm.replace("users", {**user, "payment_methods": {**methods, payment_id: charged}})


def _entered(row: Row, payment_id: str, amount: Any) -> Row:
    if amount == 0:
        return row
    paid = {"payment_id": payment_id, "amount": amount}
    return {**row, "payment_history": [*row["payment_history"], paid]}
