"""Obligations a policy may answer with: those this gateway can keep, and what they must say.

**Rules**
1. A decision with an obligation this gateway does not know, or cannot read, is a denial (AuthZEN
   obligations): none is passed over. What tells of the decision is done all the same.
2. One that is known and cannot be kept here (nobody to notify, no decision log) denies too, as
   ``obligation_unmet``.
3. A hold has a beginning that nobody can move: the last approving vote, or when a durable call was
   taken on. Without one there is nothing that could be cancelled in time.
"""

import re
from collections.abc import Callable, Iterable
from typing import Any

from processors.model.call import Approval, Decision, Obligation, Reason

TELLING = frozenset({"notify", "log_extra"})
"""What only tells of a decision: done whatever else cannot be."""
HOLDING = frozenset({"cool_off", "delay_until"})
TYPES = TELLING | HOLDING | {"require_receipt", "mask_response", "quarantine_agent", "step_up"}
UNMET = "obligation_unmet"
HOLD_S_MAX = 30 * 86_400
_ITEMS_MAX = 64
_TEXT_MAX = 200
_SECOND_NS = 1_000_000_000
_STEP_UP = frozenset({"acr", "amr", "max_age_s"})
_WORDS_MAX = 16
_WORD = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]{1,128}\Z")
_AGE_S_MAX = 86_400


def wrong(kind: str, properties: dict[str, Any]) -> str | None:
    """What is wrong with the properties of an obligation of a known type, or None."""
    names, check = _SHAPES[kind]
    unknown = properties.keys() - names
    if unknown:
        return f"unknown property {min(map(str, unknown))!r:.60}"
    return check(properties)


def of_type(decision: Decision | None, kind: str) -> list[dict[str, Any]]:
    """The properties of a decision's obligations of one type."""
    obligations = decision.obligations if decision else ()
    return [each.properties for each in obligations if each.type == kind]


def kinds(decision: Decision | None) -> frozenset[str]:
    """The types of a decision's obligations."""
    return frozenset(each.type for each in (decision.obligations if decision else ()))


def telling(obligations: Iterable[Obligation]) -> tuple[Obligation, ...]:
    """Those that only tell of the decision."""
    return tuple(each for each in obligations if each.type in TELLING)


def unmet(kind: str) -> Reason:
    """Why a call is denied whose decision has an obligation that cannot be kept here."""
    return Reason(code=UNMET, message=f"policy asks for {kind}, which cannot be done here")


def extra(decision: Decision | None) -> dict[str, str]:
    """What a decision adds to its entry of the decision log; of one name the last."""
    return {
        name: text
        for each in of_type(decision, "log_extra")
        for name, text in each["fields"].items()
    }


def held_until_ns(
    decision: Decision | None, *, approval: Approval | None, queued_at_ns: int | None
) -> int | None:
    """Until when a call is held, 0 where it is not; None where nothing says since when."""
    until_ns = 0
    for each in of_type(decision, "delay_until"):
        until_ns = max(until_ns, each["time_ns"])
    held_s = max((each["seconds"] for each in of_type(decision, "cool_off")), default=0)
    if not held_s:
        return until_ns
    votes = approval.votes if approval is not None else ()
    began = [each.voted_at_ns for each in votes if each.decision == "approve"]
    began += [queued_at_ns] if queued_at_ns is not None else []
    return max(until_ns, max(began) + held_s * _SECOND_NS) if began else None


def _nothing_wrong(_properties: dict[str, Any]) -> str | None:
    return None


def _wrong_paths(properties: dict[str, Any]) -> str | None:
    paths = properties.get("paths")
    if not isinstance(paths, list) or not 0 < len(paths) <= _ITEMS_MAX:
        return f"paths are not 1 to {_ITEMS_MAX} JSON pointers"
    good = all(isinstance(each, str) and each.startswith("/") for each in paths)
    return None if good else "a path is no JSON pointer such as /customer/iban"


def _wrong_reason(properties: dict[str, Any]) -> str | None:
    return None if isinstance(properties.get("reason", ""), str) else "reason is no text"


def _wrong_webhook(properties: dict[str, Any]) -> str | None:
    name = properties.get("webhook", "all")
    return None if isinstance(name, str) and name else "webhook is no name"


def _wrong_fields(properties: dict[str, Any]) -> str | None:
    fields = properties.get("fields")
    if not isinstance(fields, dict) or not 0 < len(fields) <= _ITEMS_MAX:
        return f"fields are not 1 to {_ITEMS_MAX} names with texts"
    good = all(_is_short(name) and _is_short(text) for name, text in fields.items())
    return None if good else f"a field's name or text has not 1 to {_TEXT_MAX} characters"


def _wrong_seconds(properties: dict[str, Any]) -> str | None:
    return _wrong_number(properties.get("seconds"), "seconds", HOLD_S_MAX)


def _wrong_time(properties: dict[str, Any]) -> str | None:
    return _wrong_number(properties.get("time_ns"), "time_ns", 2**63 - 1)


def wrong_step_up(said: Any) -> str | None:
    """What is wrong with a demand on the approvers' sign-in, or None."""
    if not isinstance(said, dict) or not said:
        return "is no object that demands something"
    unknown = said.keys() - _STEP_UP
    if unknown:
        return f"unknown property {min(map(str, unknown))!r:.60}"
    for key in ("acr", "amr"):
        words = said.get(key, ["-"])
        if not isinstance(words, list) or not 0 < len(words) <= _WORDS_MAX:
            return f"{key} has not 1 to {_WORDS_MAX} values"
        if not all(isinstance(each, str) and _WORD.match(each) for each in words):
            return f"{key} has a value that is no plain word"
    return _wrong_number(said.get("max_age_s", 1), "max_age_s", _AGE_S_MAX)


def _wrong_number(value: Any, name: str, most: int) -> str | None:
    good = isinstance(value, int) and not isinstance(value, bool) and 0 < value <= most
    return None if good else f"{name} is no whole number from 1 to {most}"


def _is_short(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value) <= _TEXT_MAX


_SHAPES: dict[str, tuple[frozenset[str], Callable[[dict[str, Any]], str | None]]] = {
    "require_receipt": (frozenset(), _nothing_wrong),
    "mask_response": (frozenset({"paths"}), _wrong_paths),
    "quarantine_agent": (frozenset({"reason"}), _wrong_reason),
    "notify": (frozenset({"webhook"}), _wrong_webhook),
    "log_extra": (frozenset({"fields"}), _wrong_fields),
    "cool_off": (frozenset({"seconds"}), _wrong_seconds),
    "delay_until": (frozenset({"time_ns"}), _wrong_time),
    "step_up": (_STEP_UP, wrong_step_up),
}
