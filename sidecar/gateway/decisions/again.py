"""A line of the decision log as a question that can be asked again, and what differs in the answer.

**Rules**
1. Only an input that is told whole is a question: one of which something was erased or masked is
   another document. What cannot be asked again is counted by why, never taken for the same.
2. Compared is all that decides: effect, codes and rules, limits, approval terms, obligations by
   type. Two answers for want of one are the same. Messages are words.

Source: gateway.md §5.4 (5).
"""

import json
from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct

from sidecar.gateway.decisions.event import PATH, result_of
from sidecar.gateway.policy.result import PolicyAnswer

Why = Literal["malformed", "hidden", "other_path"]


class Logged(Struct, frozen=True, kw_only=True):
    """One decision as it was logged; ``result`` None where there was no usable answer."""

    decision_id: str
    revision: str
    document: dict[str, Any]
    result: dict[str, Any] | None


class Differs(Struct, frozen=True, kw_only=True):
    """A decision that the other engine would have taken otherwise: ``logged`` and ``answered`` are
    what each said, by member that differs."""

    decision_id: str
    tool: str
    logged: dict[str, Any]
    answered: dict[str, Any]


def read_line(line: str | bytes) -> Logged | Why:
    """The question a line is, or why it is none."""
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return "malformed"
    if not isinstance(event, dict) or not isinstance(event.get("result"), dict):
        return "malformed"
    if event.get("path") != PATH:
        return "other_path"
    document = event.get("input")
    if event.get("erased") or event.get("masked") or not isinstance(document, dict):
        return "hidden"
    return Logged(
        decision_id=str(event.get("decision_id", "")),
        revision=_revision(event.get("bundles")),
        document=document,
        result=None if "error" in event else event["result"],
    )


def difference(logged: Logged, answer: PolicyAnswer) -> Differs | None:
    """What another engine says otherwise, or None."""
    said = None if answer.error is not None else result_of(answer.decision(""))
    before, after = _comparable(logged.result), _comparable(said)
    names = sorted(
        name for name in before.keys() | after.keys() if before.get(name) != after.get(name)
    )
    if not names:
        return None
    resource = logged.document.get("resource")
    return Differs(
        decision_id=logged.decision_id,
        tool=str(resource.get("id", "")) if isinstance(resource, dict) else "",
        logged={name: before.get(name) for name in names},
        answered={name: after.get(name) for name in names},
    )


def _comparable(result: Mapping[str, Any] | None) -> dict[str, Any]:
    if result is None:
        return {"effect": "policy_error"}
    reasons = [(each.get("code"), each.get("rule", "")) for each in result.get("reasons", ())]
    kinds = [each.get("type") for each in result.get("obligations", ())]
    return {
        "effect": result.get("effect"),
        "reasons": [list(each) for each in reasons],
        "limits": result.get("limits") or {},
        "approval": result.get("approval") or {},
        "obligations": kinds,
    }


def _revision(bundles: Any) -> str:
    ours = bundles.get("agenttwin") if isinstance(bundles, dict) else None
    return str(ours.get("revision", "")) if isinstance(ours, dict) else ""
