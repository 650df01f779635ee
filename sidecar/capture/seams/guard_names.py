"""Names that a loop of asyncio looks up for who asks, in a thread that does not say for whom."""

from typing import Any

from sidecar.capture.seams.guard import heard, is_guarded
from sidecar.capture.seams.install import patch
from sidecar.capture.seams.session import Session


def install(session: Session) -> None:
    """Hear of a lookup where it is asked for, not only where it is done."""
    if not is_guarded(session):
        return
    from asyncio.base_events import BaseEventLoop

    for name in ("getaddrinfo", "getnameinfo"):
        patch(session, BaseEventLoop, name, _asked(f"socket.{name}", getattr(BaseEventLoop, name)))


def _asked(event: str, real: Any) -> Any:
    async def look_up(*args: Any, **kwargs: Any) -> Any:
        heard(event, ())
        return await real(*args, **kwargs)

    return look_up
