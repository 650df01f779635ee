"""What an MCP server says back, and what that means for a call.

**Rules**
1. A result without ``isError`` is a success. ``isError`` is the tool's own word that something went
   wrong, not that nothing happened: the effect is unknown.
2. An error of the protocol that names the request as the fault means that nothing was done.
3. A server that wants something of the client first (``input_required``), that gives a task nobody
   asked for or any other result than a complete one, has not answered, and is not given it.
4. A kept answer is ``{"result": …}`` or ``{"error": …}``: the ids of messages are not kept.
"""

import json
from typing import Any

import msgspec
from msgspec import Struct

from sidecar.gateway.rpc.message import (
    DENIED,
    HEADER_MISMATCH,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    UNSUPPORTED_VERSION,
)

NOTHING_DONE = frozenset(
    {
        *(PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS),
        *(HEADER_MISMATCH, -32021, UNSUPPORTED_VERSION),
    }
)
_ABSENT = msgspec.Raw(b"")


class Said(Struct, frozen=True, kw_only=True):
    """One message of a server: a response, a request of its own, or a notification."""

    id: int | str | None = None
    method: str | None = None
    params: dict[str, Any] = {}
    result: msgspec.Raw = _ABSENT
    error: dict[str, Any] | None = None

    @property
    def answers(self) -> bool:
        """Whether it is a response."""
        return self.method is None and (bytes(self.result) != b"" or self.error is not None)


class _Result(Struct, frozen=True):
    isError: bool = False  # noqa: N815 - the protocol's name
    resultType: str = "complete"  # noqa: N815


def read_said(data: bytes) -> Said | None:
    """The message in some bytes; None where they are none."""
    try:
        return msgspec.json.decode(data, type=Said)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def outcome(said: Said | None, http_status: int) -> tuple[int, bytes]:
    """Status and kept body of a call, as the upstream of any other tool would give them."""
    if said is None:
        return http_status, _error(INTERNAL_ERROR, f"the server answered {http_status}")
    if said.error is not None:
        code = said.error.get("code")
        status = 400 if code in NOTHING_DONE else 500
        if http_status >= 400:
            status = http_status
        return status, json.dumps({"error": said.error}, ensure_ascii=False).encode()
    result = bytes(said.result)
    try:
        read = msgspec.json.decode(result, type=_Result)
    except msgspec.DecodeError:
        return 500, _error(INTERNAL_ERROR, "the server's result is malformed")
    if read.resultType == "input_required":
        return 500, _error(DENIED, "the server asks for input, which this gateway does not pass on")
    if read.resultType != "complete":  # what became of the call is not in it
        return 500, _error(INTERNAL_ERROR, "the server's result is not complete")
    return 500 if read.isError else 200, b'{"result":' + result + b"}"


def _error(code: int, text: str) -> bytes:
    return json.dumps({"error": {"code": code, "message": text}}).encode()
