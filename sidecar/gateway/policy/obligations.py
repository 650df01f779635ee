"""Obligations a policy may answer with: those this gateway can keep, and what they must say.

**Rules**
1. A decision with an obligation this gateway does not know, or cannot read, is a denial (AuthZEN
   obligations): none is passed over.
"""

from typing import Any

from processors.model.call import Decision

TYPES = frozenset({"require_receipt", "mask_response", "quarantine_agent"})
_POINTERS_MAX = 64


def wrong(kind: str, properties: dict[str, Any]) -> str | None:
    """What is wrong with the properties of an obligation of a known type, or None."""
    names = {"mask_response": {"paths"}, "quarantine_agent": {"reason"}}
    unknown = properties.keys() - names.get(kind, set())
    if unknown:
        return f"unknown property {min(map(str, unknown))!r:.60}"
    if kind == "mask_response":
        return _wrong_paths(properties.get("paths"))
    reason = properties.get("reason", "")
    return None if isinstance(reason, str) else "reason is no text"


def _wrong_paths(paths: Any) -> str | None:
    if not isinstance(paths, list) or not 0 < len(paths) <= _POINTERS_MAX:
        return f"paths are not 1 to {_POINTERS_MAX} JSON pointers"
    good = all(isinstance(each, str) and each.startswith("/") for each in paths)
    return None if good else "a path is no JSON pointer such as /customer/iban"


def of_type(decision: Decision | None, kind: str) -> list[dict[str, Any]]:
    """The properties of a decision's obligations of one type."""
    obligations = decision.obligations if decision else ()
    return [each.properties for each in obligations if each.type == kind]
