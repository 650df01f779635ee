"""MCP for agents: ``/mcp/<server>`` over streamable HTTP, 2025-06-18, 2025-11-25 and 2026-07-28.

**Rules**
1. One body is one message. What it says decides; headers only have to agree with it.
2. A method that is not served here, or for which nothing is registered, is refused. Nothing reaches
   a server but a call that went through ``gateway.call``, and the lists and changes that are looked
   through for each caller (``lists``, ``changes``).
3. No state of a client is kept but what it carries for us, sealed, and the key of a call that waits
   for an approval in a session of before 2026-07-28.
4. A call whose stream closes, or that is cancelled, is given up where it is a read; one that may
   have an effect runs on, and its answer is kept.
5. Browsers are not spoken to: a request with an Origin is refused.
"""

import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import Any

from aiohttp import web

from sidecar import clock
from sidecar.canonical import canonical, sha256
from sidecar.gateway.action import ToolRequest
from sidecar.gateway.content import Headers
from sidecar.gateway.driver import Gateway
from sidecar.gateway.problem import Refusal, Refused
from sidecar.gateway.protocol import CALL, COMPLETE, READ, Kind, kind_of, method_of
from sidecar.gateway.provenance import PROVENANCE
from sidecar.gateway.registry import RegisteredTool, Registry
from sidecar.gateway.request import ToolReply
from sidecar.gateway.rpc import head, message, sealed, wording
from sidecar.gateway.rpc.beside import LISTINGS, READINGS, fits
from sidecar.gateway.rpc.changes.mcp import Changes
from sidecar.gateway.rpc.client import McpUpstreams
from sidecar.gateway.rpc.definition import unusable_name
from sidecar.gateway.rpc.events import event
from sidecar.gateway.rpc.handle import EXTENSION
from sidecar.gateway.rpc.handle import METHODS as TASK_METHODS
from sidecar.gateway.rpc.http import Asked, Talk, json_answer
from sidecar.gateway.rpc.lists.mcp import Lists, claimed_of, unreviewed
from sidecar.gateway.rpc.message import Id, Message, RpcRefused
from sidecar.gateway.rpc.pins import path_of
from sidecar.gateway.rpc.result import tagged
from sidecar.gateway.rpc.tasks.mcp import Tasks
from sidecar.gateway.stream.boundary import EVENTS
from sidecar.gateway.stream.http import AgentStream
from sidecar.telemetry import CANCELLED, log

_LOG = log("gateway")
KEY_META = "agenttwin/idempotencyKey"
APPROVAL_META = "agenttwin/approvalToken"
DISTINCT_META = "agenttwin/confirmDistinct"
WAIT_SECONDS = 20
TASK_SECONDS = 5.0
"""How long a call may take before a client that knows tasks is given one."""
_SESSION_NS = 24 * 3600 * 1_000_000_000
_STATE_NS = 3600 * 1_000_000_000
_PENDING_MAX = 10_000
_TRACING = ("traceparent", "tracestate", "baggage")
_BESIDE_ARGUMENTS = frozenset({"_meta", "inputResponses", "requestState"})
_CALL_MEMBERS = frozenset({"name", "arguments", "_meta", "inputResponses", "requestState"})
_INFO = {"name": "agenttwin-sidecar", "version": "1"}

OpenStream = Callable[[], AgentStream]


class McpWire:
    """Serves the MCP servers of one gateway. ``page`` is the address of the approval page, with
    ``{id}`` in it."""

    def __init__(
        self,
        upstreams: McpUpstreams,
        page: str,
        *,
        wait_seconds: int = WAIT_SECONDS,
        task_seconds: float = TASK_SECONDS,
    ) -> None:
        self._upstreams = upstreams
        self._task_seconds = task_seconds
        self._tasks = Tasks()
        self._calling: set[asyncio.Future[Any]] = set()
        self._lists = Lists(upstreams)
        self._changes = Changes(upstreams, self._lists)
        self._page = page
        self._wait_seconds = wait_seconds
        self._pending: dict[tuple[str, str, str, str], str] = {}
        self._running: dict[tuple[str, str, Id], asyncio.Event] = {}

    async def answer(
        self,
        gateway: Gateway,
        server: str,
        asked: Asked,
    ) -> web.StreamResponse:
        """The answer to one request. Raises Refused where it is no MCP at all."""
        if server not in self._upstreams.servers:
            raise Refused(404, "no_such_server", f"there is no MCP server {server!r} here")
        self._check_http(asked)
        if asked.method != "POST":
            return _empty(204 if asked.method == "DELETE" else 405)
        identity: Id | None = None
        version = head.MODERN
        try:
            said = message.read_message(asked.body)
            identity = said.id
            version = head.version_of(asked.headers, said)
            head.check(asked.headers, said, version)
            talk = Talk(gateway=gateway, server=server, asked=asked, said=said, version=version)
            if said.id is None:
                self._notified(talk)
                return _empty(202)
            return await self._dispatch(talk)
        except RpcRefused as error:
            body = message.error(identity, error.code, error.message, error.data)
            status = error.status if identity is None or version == head.MODERN else 200
            return json_answer(body, status if error.status != 200 else 200)

    async def vouched(self, registry: Registry, request: ToolRequest) -> ToolRequest:
        """A call that did not come as a message of MCP, with what would be said of it if it had."""
        return await self._lists.vouched(registry, request)

    def _check_http(self, asked: Asked) -> None:
        if asked.one("origin") is not None:
            raise Refused(403, "origin_refused", "pages in browsers are not served here")
        kind = (asked.one("content-type") or "").partition(";")[0].strip().lower()
        if asked.method == "POST" and kind != "application/json":
            raise Refused(415, "media_type", "send one JSON-RPC message as application/json")

    async def _dispatch(self, talk: Talk) -> web.StreamResponse:
        modern, method = talk.version == head.MODERN, talk.said.method
        if method == "tools/call":
            return await self._call(talk)
        if method == "tools/list":
            self._session(talk)
            return talk.result(await self._lists.tools(talk))
        listing = LISTINGS.get(method)
        if listing is not None and listing.kind in _kinds(talk):
            self._session(talk)
            return talk.result(await self._lists.beside(talk, listing))
        if method in READINGS and _reads(method) & _kinds(talk):
            return await self._call(talk)
        if method in TASK_METHODS and modern:
            return await self._tasks.answer(talk)
        if method == "subscriptions/listen" and modern:
            return await self._changes.listen(talk)
        if method == "ping" and not modern:
            return talk.result({})
        if method == "initialize" and not modern:
            return self._initialize(talk)
        if method == "server/discover" and modern:
            return talk.result(_discovered(talk))
        what = f"{method[:60]} is not served by this gateway"
        raise RpcRefused(message.METHOD_NOT_FOUND, what, status=404)

    def _initialize(self, talk: Talk) -> web.StreamResponse:
        wanted = talk.said.params.get("protocolVersion")
        version = wanted if wanted in head.SESSION_VERSIONS else head.SESSION_VERSIONS[-1]
        carried = {
            "sub": talk.asked.principal.id,
            "exp": clock.now_ns() + _SESSION_NS,
            "sid": clock.new_id(),
            "url": _has_url(talk.said.params.get("capabilities")) and version >= "2025-11-25",
        }
        answer = talk.result(
            {
                "protocolVersion": version,
                "capabilities": _capabilities(talk),
                "serverInfo": {**_INFO, "name": f"agenttwin-sidecar/{talk.server}"},
            }
        )
        secret = talk.gateway.secret("mcp")
        answer.headers["Mcp-Session-Id"] = sealed.seal(secret, "session", carried)
        return answer

    def _session(self, talk: Talk) -> dict[str, Any]:
        """What the client's session carries; empty where it has none. Raises Refused."""
        text = talk.asked.one("mcp-session-id")
        if text is None or talk.version == head.MODERN:
            return {}
        secret, sub = talk.gateway.secret("mcp"), talk.asked.principal.id
        found = sealed.unseal(secret, "session", text, principal=sub, now_ns=clock.now_ns())
        if found is None:
            raise Refused(404, "no_such_session", "this is no session of yours; initialize anew")
        return found

    def _notified(self, talk: Talk) -> None:
        if talk.said.method != "notifications/cancelled":
            return
        identity, sid = talk.said.params.get("requestId"), self._session(talk).get("sid")
        if sid and isinstance(identity, int | str):  # without a session ids are not told apart
            running = self._running.get((talk.asked.principal.id, sid, identity))
            if running is not None:
                running.set()

    async def _call(self, talk: Talk) -> web.StreamResponse:
        session = self._session(talk)
        call = _Call(talk, session)
        state = self._state(call)
        key = self._key(call, state)
        registered = call.registered
        refusal, claimed = await self._standing(talk, call, registered)
        waits = state is not None or (key is not None and key == self._pending.get(call.place))

        def request(key: str | None) -> ToolRequest:
            return ToolRequest(
                upstream=talk.server,
                method="POST",
                raw_path=call.path,
                headers=self._headers(talk, registered, key, waits=waits),
                body=call.body,
                refusal=refusal,
                client_ip=talk.asked.client_ip,
                claimed=claimed,
            )

        listener = _Listener(talk, call.token)
        assert talk.said.id is not None
        running = (talk.asked.principal.id, session.get("sid", ""), talk.said.id)
        self._running[running] = listener.cancelled
        task = self._tasks.offer(talk, registered, key)
        calling = asyncio.ensure_future(listener.hear(self._made(talk, request, key, listener)))
        self._calling.add(calling)
        calling.add_done_callback(self._calling.discard)
        try:
            while task is not None and not calling.done():
                await asyncio.wait({calling}, timeout=self._task_seconds)
                created = None if calling.done() else self._tasks.created(talk, task)
                if created is not None:  # it runs on, and is asked after by its handle
                    return await listener.leave(created)
            reply, key = await calling
        finally:
            if self._running.get(running) is listener.cancelled:
                del self._running[running]
        if listener.left:
            class_ = registered.config.class_ if registered else "irreversible"
            outcome = "given_up" if class_ == "read" else "ran_on"
            CANCELLED.labels(class_, outcome).inc()
            _LOG.info("cancel_requested", call_class=class_, outcome=outcome)
        return await listener.end(self._worded(call, key, reply))

    @staticmethod
    async def _made(
        talk: Talk,
        request: Callable[[str | None], ToolRequest],
        key: str | None,
        listener: "_Listener",
    ) -> tuple[ToolReply, str | None]:
        """The reply of a call; one that cannot be approved without a key is given one."""
        reply = await talk.gateway.call(request(key), talk.asked.principal, listener)
        failed = wording.failure(reply) if key is None else None
        if failed is None or failed.data.get("code") != "idempotency_key_required":
            return reply, key
        key = f"mcp-{clock.new_id()}"
        return await talk.gateway.call(request(key), talk.asked.principal, listener), key

    def _state(self, call: "_Call") -> dict[str, Any] | None:
        """What the client carried for us since the call was asked to wait. Raises RpcRefused."""
        text = call.talk.said.params.get("requestState")
        if text is None:
            return None
        principal = call.talk.asked.principal.id
        secret, now_ns = call.talk.gateway.secret("mcp"), clock.now_ns()
        found = sealed.unseal(secret, "state", text, principal=principal, now_ns=now_ns)
        bound = (call.talk.said.method, call.talk.server, call.name, call.digest)
        if found is None or tuple(found.get("for", ())) != bound:
            data = {"code": "request_state_invalid"}
            what = "requestState is not of this call: send the call again without it"
            raise RpcRefused(message.INVALID_PARAMS, what, status=400, data=data)
        responses = call.talk.said.params.get("inputResponses")
        answered = responses.get("approve") if isinstance(responses, dict) else None
        if isinstance(answered, dict) and answered.get("action") in ("decline", "cancel"):
            data = {"code": "approval_declined"}
            raise RpcRefused(message.DENIED, "the approval page was not opened", data=data)
        return found

    def _key(self, call: "_Call", state: dict[str, Any] | None) -> str | None:
        """The key of a call: the client's own, or that of the call it waits for."""
        if state is not None:
            return str(state["key"])
        given = head.carried(call.talk.asked.headers, call.talk.said, KEY_META, "idempotency-key")
        if given is not None:
            return given
        return self._pending.get(call.place) if call.session else None

    async def _standing(
        self, talk: Talk, call: "_Call", tool: RegisteredTool | None
    ) -> tuple[Refusal | None, dict[str, bool]]:
        """Why the tool's definition lets no call of it pass, or None; and what its server claims of
        it. Raises RpcRefused."""
        if talk.said.method != CALL:
            return None, {}  # it has no definition that could be reviewed
        found = await self._lists.definitions(talk.server)
        if tool is None:
            return None, {}  # the registry refuses it, with a receipt
        schema = found.get(call.name, {}).get("inputSchema")
        head.check_parameters(talk.asked.headers, schema, call.arguments)
        return unreviewed(tool, found), claimed_of(tool, found)

    def _headers(
        self, talk: Talk, tool: RegisteredTool | None, key: str | None, *, waits: bool
    ) -> Headers:
        found = [("content-type", "application/json")]
        if key is not None:
            field = tool.config.idempotency.header if tool is not None else "Idempotency-Key"
            quoted = key.replace("\\", "\\\\").replace('"', '\\"')
            found.append((field.lower(), f'"{quoted}"'))
        elif talk.said.meta.get(DISTINCT_META) is True:
            found.append(("confirm-distinct", "?1"))
        for name in _TRACING:
            value = talk.asked.one(name) or talk.said.meta.get(name)
            if isinstance(value, str):
                found.append((name, value))
        found += [pair for pair in talk.asked.headers if pair[0].lower() == PROVENANCE]
        token = head.carried(talk.asked.headers, talk.said, APPROVAL_META, "approval-token")
        if token is not None:
            found.append(("approval-token", token))
        if waits:
            found.append(("prefer", f"wait={self._wait_seconds}"))
        return tuple(found)

    def _worded(self, call: "_Call", key: str | None, reply: ToolReply) -> bytes:
        identity = call.talk.said.id
        assert identity is not None
        failed = wording.failure(reply)
        if failed is None:
            self._pending.pop(call.place, None)
            raw, error = wording.kept_answer(reply)
            if raw is None:
                failed = wording.of_server(error or {})
                return message.error(identity, failed.code, failed.message, failed.data or None)
            modern, private = call.talk.version == head.MODERN, call.talk.said.method == READ
            told = tagged(raw, reply.headers, modern=modern, private=private)
            return message.result(identity, told)
        approval = failed.awaits
        if approval is None or key is None:
            self._pending.pop(call.place, None)
            return message.error(identity, failed.code, failed.message, failed.data)
        return self._waits(call, key, failed, approval)

    def _waits(
        self, call: "_Call", key: str, failed: wording.Failure, approval: dict[str, Any]
    ) -> bytes:
        """A call that a person has to approve: the client is led to the page, if it can be."""
        identity, talk = call.talk.said.id, call.talk
        assert identity is not None
        url = self._page.replace("{id}", str(approval["id"]))
        if talk.version == head.MODERN and _has_url(talk.said.meta.get(head.CAPABILITIES_META)):
            carried = {
                "sub": talk.asked.principal.id,
                "exp": clock.now_ns() + _STATE_NS,
                "for": [talk.said.method, talk.server, call.name, call.digest],
                "key": key,
                "apr": approval["id"],
            }
            state = sealed.seal(talk.gateway.secret("mcp"), "state", carried)
            params = wording.visit(url, approval)
            asked = {"approve": {"method": "elicitation/create", "params": params}}
            result = {"resultType": "input_required", "inputRequests": asked, "requestState": state}
            return message.result(identity, json.dumps(result).encode())
        if call.session.get("url"):
            if len(self._pending) >= _PENDING_MAX:
                del self._pending[next(iter(self._pending))]
            self._pending[call.place] = key
            visit = {**wording.visit(url, approval), "elicitationId": str(approval["id"])}
            data = {**failed.data, "elicitations": [visit]}
            return message.error(identity, message.URL_ELICITATION, failed.message, data)
        data = {**failed.data, "url": url, "idempotency_key": key}
        return message.error(identity, message.DENIED, failed.message, data)


class _Call:
    """A call of a tool, or the reading of something beside, read. Raises RpcRefused."""

    def __init__(self, talk: Talk, session: dict[str, Any]) -> None:
        self.talk = talk
        self.session = session
        if talk.said.method == CALL:
            self._read_call(talk.said)
        else:
            self._read_reading(talk)
        self.digest = sha256(canonical(self.arguments))
        token = talk.said.meta.get("progressToken")
        self.token = token if isinstance(token, int | str) else None

    def _read_call(self, said: Message) -> None:
        self.name = message.tool_name(said)
        other = sorted(said.params.keys() - _CALL_MEMBERS)
        why = f"params.{other[0][:40]} is not passed on" if other else unusable_name(self.name)
        if why is not None:
            raise RpcRefused(message.INVALID_PARAMS, why, status=400)
        self.arguments: dict[str, Any] = said.params.get("arguments", {})
        self.body, self.path = said.arguments or b"{}", path_of(self.name)
        known = self.talk.registered
        named = (tool for tool in known if tool.config.match.tool == self.name)
        self.registered: RegisteredTool | None = next(named, None)

    def _read_reading(self, talk: Talk) -> None:
        """What is asked for are the parameters themselves; the first entry for them counts."""
        method, params = talk.said.method, talk.said.params
        self.arguments = {key: params[key] for key in params.keys() - _BESIDE_ARGUMENTS}
        self.body = canonical(self.arguments)
        of_method = [t for t in talk.registered if method_of(t.config.match) == method]
        fit = (tool for tool in of_method if fits(tool.config.match, self.arguments))
        self.registered = next(fit, None)
        found = self.registered
        self.path = found.config.match.path if found is not None else f"/{method}/-"
        self.name = found.name if found is not None else method

    @property
    def place(self) -> tuple[str, str, str, str]:
        """Where the key of a call is kept while a person decides on it."""
        return (str(self.session.get("sid", "")), self.talk.server, self.name, self.digest)


class _Listener:
    """The audience of one call: tells the client what the server tells beside the answer."""

    def __init__(self, talk: Talk, token: Id | None) -> None:
        self._talk = talk
        self._token = token
        self._stream = talk.asked.open_stream()
        self._takes_events = EVENTS in (talk.asked.one("accept") or "")
        self.cancelled = asyncio.Event()
        self.left = self._over = False

    async def begin(self, status: int, headers: Headers) -> None:
        """Nothing: the head of an MCP answer is the gateway's own."""

    async def take(self, data: bytes) -> None:
        """Tell the client what belongs to its call."""
        if not self._takes_events or self._over:
            return
        said = json.loads(data)
        if "progressToken" in said["params"]:
            if self._token is None:
                return
            said["params"]["progressToken"] = self._token
        await self._begin()
        body = json.dumps(said, ensure_ascii=False, separators=(",", ":")).encode()
        await self._stream.take(event(body))

    def close(self) -> None:
        """Break the connection off now."""
        self._stream.close()

    def when_gone(self, told: Callable[[], None]) -> Callable[[], object]:
        """Call ``told`` once the client has cancelled the call or left."""

        async def tell() -> None:
            await self.gone()
            told()

        return asyncio.ensure_future(tell()).cancel

    async def gone(self) -> None:
        """Returns once the client has cancelled the call or left."""
        waits = [
            asyncio.ensure_future(self._stream.gone()),
            asyncio.ensure_future(self.cancelled.wait()),
        ]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            self.left = True
        finally:
            for each in waits:
                each.cancel()
            await asyncio.gather(*waits, return_exceptions=True)

    async def hear(
        self, calling: Coroutine[Any, Any, tuple[ToolReply, str | None]]
    ) -> tuple[ToolReply, str | None]:
        """What a call gives; while it is awaited the client is kept from giving up."""
        task = asyncio.ensure_future(calling)
        watch = asyncio.ensure_future(self.gone())
        try:
            await asyncio.wait({task}, timeout=self._stream.keep_alive_seconds)
            if not task.done() and self._takes_events and not self._over:
                await self._begin()
            return await task
        finally:
            watch.cancel()
            await asyncio.gather(watch, return_exceptions=True)
            await self._stream.stop()

    async def leave(self, body: bytes) -> web.StreamResponse:
        """The answer while the call runs on: nothing is told beside it any more."""
        self._over = True
        await self._stream.stop()
        return await self.end(body)

    async def end(self, body: bytes) -> web.StreamResponse:
        """The answer, as the last event where a stream was begun."""
        if not self._stream.begun:
            return json_answer(body, 200)
        await self._stream.take(event(body))
        return await self._stream.end(whole=True)

    async def _begin(self) -> None:
        if not self._stream.begun:
            await self._stream.begin(200, (("content-type", EVENTS),))


def _kinds(talk: Talk) -> set[Kind]:
    """What a server has beside tools, as far as it is registered."""
    return {kind for tool in talk.registered if (kind := kind_of(tool.config.match)) is not None}


def _reads(method: str) -> set[Kind]:
    """What a method reads."""
    if method == COMPLETE:
        return {"resource", "prompt"}
    return {"resource"} if method == READ else {"prompt"}


def _capabilities(talk: Talk) -> dict[str, Any]:
    kinds = _kinds(talk)
    changes: dict[str, Any] = {"listChanged": True} if talk.version == head.MODERN else {}
    beside: dict[str, Any] = {f"{kind}s": dict(changes) for kind in sorted(kinds)}
    if "resource" in kinds and changes:
        beside["resources"]["subscribe"] = True
    completions: dict[str, Any] = {"completions": {}} if kinds else {}
    tasks: dict[str, Any] = {"extensions": {EXTENSION: {}}} if changes else {}
    return {"tools": changes, **beside, **completions, **tasks}


def _discovered(talk: Talk) -> dict[str, Any]:
    server = talk.server
    return {
        "resultType": "complete",
        "supportedVersions": list(head.VERSIONS),
        "capabilities": _capabilities(talk),
        "serverInfo": {**_INFO, "name": f"agenttwin-sidecar/{server}"},
        "ttlMs": 0,
        "cacheScope": "private",
        "_meta": {head.SERVER_META: {**_INFO, "name": f"agenttwin-sidecar/{server}"}},
    }


def _has_url(capabilities: Any) -> bool:
    found = capabilities.get("elicitation") if isinstance(capabilities, dict) else None
    return isinstance(found, dict) and isinstance(found.get("url"), dict)


def _empty(status: int) -> web.Response:
    answer = web.Response(status=status)
    if status == 405:
        answer.headers["Allow"] = "POST, DELETE"
    return answer
