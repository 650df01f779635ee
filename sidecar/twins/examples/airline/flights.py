"""Flights of the airline: which there are, on which legs, and what a seat on one costs."""

from collections.abc import Iterator
from typing import Any

from sidecar.twins.coded import Realm
from sidecar.twins.examples.airline.refusing import refused

Row = dict[str, Any]


def search_direct_flight(realm: Realm, origin: str, destination: str, date: str) -> list[Row]:
    """The flights on that leg which can be booked on the date, in world order."""
    leg = {"origin": origin, "destination": destination}
    return [
        {**_fields(flight), **flight["dates"][date]}
        for flight in realm.rows("flights", leg)
        if _available(flight, date)
    ]


def search_onestop_flight(
    realm: Realm, origin: str, destination: str, date: str
) -> list[list[Row]]:
    """Pairs of flights that meet in a city; both legs show the fields of the first date."""
    found = []
    for first, second in _meeting(realm, origin, destination):
        second_date = _second_date(first, date)
        if first["scheduled_arrival_time_est"] > second["scheduled_departure_time_est"]:
            continue
        if _available(first, date) and _available(second, second_date):
            found.append([_leg(first, date, date), _leg(second, date, second_date)])
    return found


def seat(realm: Realm, wanted: Row, cabin: str, passengers: int) -> Row:
    """The wanted flight with its price, origin and destination; refused where it cannot be had."""
    number, date = wanted["flight_number"], wanted["date"]
    hash(number)  # a list or an object is no number at all
    flight = realm.row("flights", number) if isinstance(number, str) else None
    if flight is None:
        raise refused(f"flight {number} not found")
    if date not in flight["dates"]:
        raise refused(f"flight {number} not found on date {date}")
    day = flight["dates"][date]
    if day["status"] != "available":
        raise refused(f"flight {number} not available on date {date}")
    if day["available_seats"][cabin] < passengers:
        raise refused(f"not enough seats on flight {number}")
    return priced(wanted, day["prices"][cabin], flight)


def priced(wanted: Row, price: Any, leg: Row) -> Row:
    """A flight as it stands in a reservation."""
    return {**wanted, "price": price, "origin": leg["origin"], "destination": leg["destination"]}


def _meeting(realm: Realm, origin: str, destination: str) -> Iterator[tuple[Row, Row]]:
    arriving = realm.rows("flights", {"destination": destination})
    for first in realm.rows("flights", {"origin": origin}):
        for second in arriving:
            if second["origin"] == first["destination"]:
                yield first, second


def _second_date(first: Row, date: str) -> str:
    if "+1" not in first["scheduled_arrival_time_est"]:
        return date
    return f"2024-05-{int(date[-2:]) + 1}"


def _available(flight: Row, date: str) -> bool:
    return date in flight["dates"] and flight["dates"][date]["status"] == "available"


def _leg(flight: Row, shown: str, date: str) -> Row:
    return {**_fields(flight), **flight["dates"][shown], "date": date}


def _fields(flight: Row) -> Row:
    return {name: value for name, value in flight.items() if name != "dates"}
