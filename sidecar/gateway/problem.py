"""Refused: the one way a call is turned down, as data for a problem document.

**Rules**
1. ``code`` is stable and machine-readable; ``detail`` says what was wrong, where and what to do,
   and never repeats a credential or a stored answer.
2. ``next_action`` tells an agent what may help: ``request`` (ask for approval or send a changed
   request), ``retry`` (the same again, later), ``none`` (nothing).
"""

from typing import Literal

NextAction = Literal["request", "retry", "none"]


class Refused(Exception):
    """A call that is not sent. ``status`` is the HTTP status, ``retry_after`` whole seconds."""

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        *,
        next_action: NextAction = "none",
        retry_after: int | None = None,
    ) -> None:
        self.status = status
        self.code = code
        self.detail = detail
        self.next_action: NextAction = next_action
        self.retry_after = retry_after
        super().__init__(f"{status} {code}: {detail}")
