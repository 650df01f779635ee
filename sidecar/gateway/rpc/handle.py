"""A call's task as MCP's extension tells of it, from what the ledger knows of the call's key.

**Rules**
1. What a call was claims nothing more: no attempt is made by asking.
2. A task is what its claim is: at work while somebody is, complete once its answer is kept, failed
   where there is none to be given, whatever became of the effect.

Source: io.modelcontextprotocol/tasks (SEP-2663).
"""

from typing import Any, Final

from msgspec import Struct

from sidecar.gateway.approval import instant
from sidecar.gateway.rpc.message import DENIED
from sidecar.store.ledger import Claim

EXTENSION: Final = "io.modelcontextprotocol/tasks"
GET, UPDATE, CANCEL = "tasks/get", "tasks/update", "tasks/cancel"
METHODS: Final = frozenset({GET, UPDATE, CANCEL})
MISSING_CAPABILITY: Final = -32021
POLL_MS: Final = 2_000
_MS_NS = 1_000_000
_SAID = {
    "failed_safe": ("not_executed", "it was not made: call it again with its key"),
    "resolved_not_done": ("not_executed", "it was not made: call it again with its key"),
    "unknown": ("outcome_unknown", "whether it was made is not known: call it again with its key"),
}
_GONE = ("replay_body_unavailable", "it was made, and its answer is not kept")


class Task(Struct, frozen=True, kw_only=True):
    """What a client carries of a task: which call it is of, and since when."""

    task_id: str
    tool: str
    key: str
    at_ns: int
    ends_ns: int

    def document(self, status: str, changed_ns: int) -> dict[str, Any]:
        """The task in a state."""
        return {
            "taskId": self.task_id,
            "status": status,
            "createdAt": instant(self.at_ns),
            "lastUpdatedAt": instant(changed_ns),
            "ttlMs": (self.ends_ns - self.at_ns) // _MS_NS,
            "pollIntervalMs": POLL_MS,
        }


def declares(capabilities: Any) -> bool:
    """Whether a client can be given tasks."""
    found = capabilities.get("extensions") if isinstance(capabilities, dict) else None
    return isinstance(found, dict) and isinstance(found.get(EXTENSION), dict)


def missing() -> dict[str, Any]:
    """What a client has to declare."""
    return {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}


def failed(claim: Claim, *, runs: bool) -> dict[str, Any] | None:
    """The error that a call ended with; None where it is at work, or its answer is kept."""
    if runs or claim.answer is not None:
        return None
    state = "unknown" if claim.state in ("claimed", "sent") else claim.state
    code, text = _SAID.get(state, _GONE)
    return {"code": DENIED, "message": text, "data": {"code": code}}
