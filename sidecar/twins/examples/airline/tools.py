"""The airline's tools by name: arguments in, JSON or text out, ``Error: `` where it says no.

Rules
1. Checks run in the order of the description, and the first that fails answers; nothing has changed
   then.
2. A call that breaks on its arguments (one is missing, mistyped or unknown) answers ``Error: `` and
   the reason, and changes nothing.
"""

import inspect
from collections.abc import Callable
from typing import Any, Final

from sidecar.twins.coded import Answer, Function, Realm, Refusal
from sidecar.twins.effects import Unforeseen
from sidecar.twins.examples.airline import bookings, flights
from sidecar.twins.examples.airline.bookings import found, free
from sidecar.twins.examples.airline.refusing import refused
from sidecar.twins.examples.airline.sums import calculated

_AIRPORTS: Final = {
    "SFO": "San Francisco",
    "JFK": "New York",
    "LAX": "Los Angeles",
    "ORD": "Chicago",
    "DFW": "Dallas",
    "DEN": "Denver",
    "SEA": "Seattle",
    "ATL": "Atlanta",
    "MIA": "Miami",
    "BOS": "Boston",
    "PHX": "Phoenix",
    "IAH": "Houston",
    "LAS": "Las Vegas",
    "MCO": "Orlando",
    "EWR": "Newark",
    "CLT": "Charlotte",
    "MSP": "Minneapolis",
    "DTW": "Detroit",
    "PHL": "Philadelphia",
    "LGA": "LaGuardia",
}
_CERTIFICATES: Final = ("certificate_3221322", "certificate_3221323", "certificate_3221324")


def get_user_details(realm: Realm, user_id: str) -> Any:
    """The user's record, which does not say its own id."""
    user = found(realm, "users", user_id, "user not found")
    return {name: value for name, value in user.items() if name != "user_id"}


def get_reservation_details(realm: Realm, reservation_id: str) -> Any:
    """The reservation's record; the airline says of a missing one that the user is."""
    return found(realm, "reservations", reservation_id, "user not found")


def list_all_airports(realm: Realm) -> Any:  # noqa: ARG001
    """City by airport."""
    return _AIRPORTS


def calculate(realm: Realm, expression: str) -> Answer:  # noqa: ARG001
    """The value of a sum."""
    return Answer(text=calculated(expression))


def think(realm: Realm, thought: str) -> Answer:  # noqa: ARG001
    """Nothing."""
    return Answer(text="")


def transfer_to_human_agents(realm: Realm, summary: str) -> Answer:  # noqa: ARG001
    """Say that it was done."""
    return Answer(text="Transfer successful")


def send_certificate(realm: Realm, user_id: str, amount: Any) -> Answer:
    """Give the user a certificate under the first free id."""
    user = found(realm, "users", user_id, "user not found")
    name = free(_CERTIFICATES, list(user["payment_methods"]))
    given = {"source": "certificate", "amount": amount, "id": name}
    methods = {**user["payment_methods"], name: given}
    realm.replace("users", {**user, "payment_methods": methods})
    return Answer(text=f"Certificate {name} added to user {user_id} with amount {amount}.")


def _tool(does: Callable[..., Any]) -> Function:
    shape = inspect.signature(does)

    def called(realm: Realm, arguments: dict[str, Any]) -> Any:
        try:
            return does(*shape.bind(realm, **arguments).args)
        except (Refusal, Unforeseen):
            raise
        except Exception as error:  # whatever a service makes of arguments it did not expect
            raise refused(str(error), 422) from None

    return called


TOOLS: Final = {
    does.__name__: _tool(does)
    for does in (
        get_user_details,
        get_reservation_details,
        list_all_airports,
        flights.search_direct_flight,
        flights.search_onestop_flight,
        calculate,
        think,
        transfer_to_human_agents,
        bookings.book_reservation,
        bookings.cancel_reservation,
        bookings.update_reservation_flights,
        bookings.update_reservation_baggages,
        bookings.update_reservation_passengers,
        send_certificate,
    )
}
