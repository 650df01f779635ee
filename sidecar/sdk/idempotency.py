"""Idempotency keys: one for each intended action, the same when the action is tried again.

**Rules**
1. A key follows from the run and from what is to be done, and from nothing that a second try would
   have anew (a trace id, a clock, dice). So a run that is started again after a crash asks with the
   keys it had.
2. The same action meant twice in one run has two keys, told apart by how often it came before.
3. A key tells nothing of the arguments it was made of.
"""

import hashlib
from typing import Any, Final

from sidecar.canonical import canonical
from sidecar.tape.value import encoded

_DOMAIN: Final = b"agenttwin-key/1\n"


def idempotency_key(run: str, tool: str, arguments: Any = None, *, nth: int = 0) -> str:
    """A key of 48 characters for ``Idempotency-Key``.

    ``run`` is what stays when the run is tried again: a ticket, an order, a job's id. ``nth`` tells
    the same action apart where it is meant again. Raises ValueError, NotCanonical for arguments
    that are no JSON-like value.
    """
    if not run or not tool:
        raise ValueError("a key needs a run and a tool")
    said = canonical([run, tool, encoded(arguments), nth])
    return f"ak_{hashlib.sha256(_DOMAIN + said).hexdigest()[:45]}"


class Keys:
    """The keys of one run, in the order in which it acts."""

    def __init__(self, run: str) -> None:
        self._run = run
        self._made: dict[str, int] = {}

    def next(self, tool: str, arguments: Any = None) -> str:
        """The key of an action that is meant now: another one each time, the same in a second try
        of the run that does the same. Keep it for retries of this action."""
        first = idempotency_key(self._run, tool, arguments)
        nth = self._made.get(first, 0)
        self._made[first] = nth + 1
        return first if nth == 0 else idempotency_key(self._run, tool, arguments, nth=nth)
