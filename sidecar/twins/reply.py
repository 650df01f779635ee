"""Call and Reply: what goes into a twin and what comes out of it, whichever way it is served."""

from typing import Any, Literal

import msgspec
from msgspec import Struct

Failure = Literal["", "timeout", "hang", "dropped", "refused", "truncated"]
"""Why no whole answer came: it was late, never came, the connection broke, none was made, or the
body ended early."""


class Call(Struct, frozen=True, kw_only=True):
    """One call of a declared tool, its arguments read. ``agent`` is who calls, where several do."""

    tool: str
    arguments: dict[str, Any]
    key: str = ""
    call_id: str = ""
    agent: str = ""


class Reply(Struct, frozen=True, kw_only=True):
    """A twin's answer; ``status`` None means that none came, and ``failure`` says why.

    ``raw`` are the bytes that go out in place of ``value``: text, or what a fault made of them.
    """

    status: int | None
    value: Any = None
    has_body: bool = False
    headers: tuple[tuple[str, str], ...] = ()
    raw: bytes | None = None
    failure: Failure = ""

    def body(self) -> bytes:
        """The answer's bytes, JSON unless it is text or struck; nothing where it has no body."""
        if self.raw is not None:
            return self.raw
        return msgspec.json.encode(self.value, order="sorted") if self.has_body else b""


def silence(failure: Failure) -> Reply:
    """No answer."""
    return Reply(status=None, failure=failure)


def problem(status: int, code: str, detail: str) -> Reply:
    """An answer that says what is wrong."""
    return Reply(status=status, value={"error": code, "detail": detail}, has_body=True)
