"""Where the last good run and the culprit's part, in one form, whichever oracle saw it.

**Rules**
1. ``seq`` is of the bad run; so is the side from which ``kind`` is told: what it has more is an
   ``insert``.
2. Places are told, and no content.
"""

from collections.abc import Mapping
from typing import Any, Final

from sidecar.replay.diff.model import Change, Divergence

_KINDS: Final[Mapping[str, Change]] = {
    "PROMPT": "input_changed",
    "PARAMS": "input_changed",
    "TOOLSET": "input_changed",
    "ARGS": "input_changed",
    "ORDER": "reordered",
    "EXTRA_CALL": "delete",
    "MISSING_CALL": "insert",
    "ERROR_KIND": "status_changed",
}


def of_drift(drift: Mapping[str, Any]) -> dict[str, Any]:
    """Of a strict replay of the bad tape at the last good point."""
    kind = str(drift.get("kind"))
    return {
        "seq": drift.get("seq"),
        "agent": drift.get("agent"),
        "name": drift.get("name"),
        "kind": _KINDS.get(kind, "output_changed"),
        "drift": [kind],
        "places": _places(drift),
    }


def of_diff(found: Divergence | None) -> dict[str, Any] | None:
    """Of a recording at the last good point, left, and one at the culprit, right."""
    if found is None:
        return None
    return {
        "seq": found.seq_r if found.seq_r is not None else found.seq_l,
        "agent": found.agent,
        "name": None,
        "kind": found.kind,
        "drift": [*found.drift],
        "places": [f"{one.side}:{one.pointer}" for one in found.places or ()],
    }


def _places(drift: Mapping[str, Any]) -> list[str]:
    for one in drift.get("candidates") or ():
        if isinstance(one, Mapping) and one.get("seq") == drift.get("seq"):
            return [f"in:{place}" for place in one.get("places") or ()]
    return []
