"""Probes of MCP servers: one ``resources/read`` a try, over streamable HTTP, through egress alone.

Rules
1. Only resources are read: no tool is called, nothing is subscribed to.
2. A request that stands for itself is tried first; a server of before 2026-07-28 gets a session,
   which is closed after the read. Which era a server speaks is remembered.
3. Whatever goes wrong is evidence with ``held`` None and a code.
"""

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from processors.model.evidence import Evidence
from sidecar import clock
from sidecar.egress.client import Egress, EgressFailed, EgressReply
from sidecar.egress.rules import Target
from sidecar.probe import messages
from sidecar.probe.extent import TooMuch
from sidecar.probe.http import CredentialUnreadable, credential
from sidecar.probe.messages import NotAnswered, RpcFailed
from sidecar.probe.plan import ProbeRequest, judge_answer, unknown

Headers = tuple[tuple[str, str], ...]
_NOT_FOUND = -32002


class _Status(Exception):
    """An HTTP status that is no answer."""

    def __init__(self, status: int) -> None:
        self.status = status
        super().__init__(str(status))


class McpAsker:
    """Asks MCP servers; paths of credentials start at ``folder``."""

    def __init__(self, egress: Egress, folder: Path) -> None:
        self._egress = egress
        self._folder = folder
        self._sessions: set[str] = set()  # urls of servers that want one
        self._numbers = itertools.count(1)

    async def ask(self, request: ProbeRequest, attempts: int, now: clock.Now) -> Evidence:
        """One try."""
        data = {"attempts": attempts}
        ends_ns = clock.monotonic_ns() + request.deadline_ns
        try:
            response = await self._read(request, ends_ns)
        except CredentialUnreadable:
            return unknown(request, "credential_unreadable", now_ns=now(), data=data)
        except EgressFailed as error:
            code = "no_whole_answer" if error.sent else "unreachable"
            return unknown(request, code, now_ns=now(), data=data)
        except TooMuch:
            return unknown(request, "answer_too_large", now_ns=now(), data=data)
        except NotAnswered as error:
            return unknown(request, str(error), now_ns=now(), data=data)
        except RpcFailed as error:
            code = "no_such_resource" if error.code == _NOT_FOUND else "mcp_error"
            return unknown(request, code, now_ns=now(), data={**data, "rpc_code": error.code})
        except _Status as error:
            return unknown(request, f"http_{error.status}", now_ns=now(), data=data)
        at_ns = now()
        return judge_answer(request, "response", response, at_ns=at_ns, now_ns=at_ns, data=data)

    async def _read(self, request: ProbeRequest, ends_ns: int) -> dict[str, Any]:
        assert request.mcp is not None and request.target is not None
        target, uri = request.target, request.mcp.resource
        headers: Headers = ()
        if request.mcp.credential is not None:
            header, file = request.mcp.credential
            headers = (credential(header, str(self._folder / file)),)
        if target.url not in self._sessions:
            try:
                return await self._alone(target, uri, headers, ends_ns)
            except (_Status, RpcFailed, NotAnswered) as error:
                if not _wants_session(error):
                    raise
        found = await self._in_session(target, uri, headers, ends_ns)
        self._sessions.add(target.url)
        return found

    async def _alone(
        self, target: Target, uri: str, headers: Headers, ends_ns: int
    ) -> dict[str, Any]:
        number = next(self._numbers)
        body = messages.read_request(number, uri, modern=True)
        reply = await self._post(target, body, (*headers, *messages.modern_headers(uri)), ends_ns)
        return messages.resource_of(_result(reply, number), reply.status)

    async def _in_session(
        self, target: Target, uri: str, headers: Headers, ends_ns: int
    ) -> dict[str, Any]:
        number = next(self._numbers)
        opened = await self._post(target, messages.initialize_request(number), headers, ends_ns)
        agreed = _result(opened, number).get("protocolVersion")
        version = agreed if isinstance(agreed, str) and agreed.isascii() else messages.SESSION
        headers = (*headers, ("mcp-protocol-version", version))
        session = dict(opened.headers).get("mcp-session-id")
        if session is not None:
            headers = (*headers, ("mcp-session-id", session))
        try:
            await self._post(target, messages.initialized_notice(), headers, ends_ns)
            number = next(self._numbers)
            body = messages.read_request(number, uri, modern=False)
            reply = await self._post(target, body, headers, ends_ns)
            return messages.resource_of(_result(reply, number), reply.status)
        finally:
            if session is not None:
                await self._close(target, headers, ends_ns)

    async def _close(self, target: Target, headers: Headers, ends_ns: int) -> None:
        """Tell the server that the session is over; that it does not listen changes nothing."""
        try:
            await self._egress.request(
                target, "DELETE", "", headers, deadline_ns=_left(ends_ns), reuse=True
            )
        except EgressFailed:
            pass

    async def _post(
        self, target: Target, body: bytes, headers: Headers, ends_ns: int
    ) -> EgressReply:
        reply = await self._egress.request(
            target,
            "POST",
            "",
            (
                ("content-type", "application/json"),
                ("accept", "application/json, text/event-stream"),
                *headers,
            ),
            body,
            deadline_ns=_left(ends_ns),
            reuse=True,
        )
        if reply.status >= 500 or reply.status in (401, 403, 408, 429):
            raise _Status(reply.status)
        return reply


def _result(reply: EgressReply, number: int) -> Mapping[str, Any]:
    content_type = dict(reply.headers).get("content-type", "")
    try:
        return messages.read_answer(reply.body, content_type, number)
    except NotAnswered:
        if reply.status >= 400:
            raise _Status(reply.status) from None
        raise


def _wants_session(error: Exception) -> bool:
    """Whether a refusal may mean that the server speaks the protocol of before."""
    if isinstance(error, _Status):
        return error.status in (400, 404, 405, 406, 415, 422)
    return not (isinstance(error, RpcFailed) and error.code == _NOT_FOUND)


def _left(ends_ns: int) -> int:
    return max(1, ends_ns - clock.monotonic_ns())
