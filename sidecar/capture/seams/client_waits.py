"""The waits of the openai and anthropic clients before they try again: none where nothing is sent.

The wait is the client's, not the agent's: it is no event, and a tape is not waited for.
"""

import sys
from collections.abc import Callable
from functools import wraps
from typing import Any, Final

from sidecar.capture.seams.install import patch
from sidecar.capture.seams.session import Session, active

CLIENTS: Final = ("openai", "anthropic")
_WAIT: Final = "_calculate_retry_timeout"


def install(session: Session) -> None:
    """Patch whichever of the clients the agent has imported."""
    for name in CLIENTS:
        client: Any = sys.modules.get(f"{name}._base_client")
        kind = getattr(client, "BaseClient", None)
        if kind is not None and not hasattr(vars(kind)[_WAIT], "__agenttwin__"):
            patch(session, kind, _WAIT, _waits(vars(kind)[_WAIT]))


def _waits(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def wait(*args: Any, **kwargs: Any) -> Any:
        session = active()
        if session is not None and not session.live("provider"):
            return 0.0
        return original(*args, **kwargs)

    vars(wait)["__agenttwin__"] = True
    return wait
