"""The gateway's driver: feeds calls to their machines and performs what they command, over ports.

**Rules**
1. A call runs on to its end whatever its caller does; ``stop`` waits for the calls on their way.
2. A failing port is an event, never an exception of the call: a store is StoreFailed, policy is a
   denial, an upstream that fails in an unknown way may have been reached. A fault of our own is a
   refusal: ``outcome_unknown`` once the call may have been sent, else ``fail_closed``.
3. Nothing is decided here but that; the rules of a call are ``call``'s.
"""

import asyncio
import hmac
from collections import Counter, deque
from collections.abc import Callable, Mapping
from typing import Any

from prometheus_client import Counter as Counted
from prometheus_client import Histogram as Timed

from processors.model.names import CALL_CLASS, CALL_TOOL, DECISION_EFFECT
from processors.model.principal import Principal
from sidecar import clock
from sidecar.errors import SidecarError, StoreUnavailable
from sidecar.gateway import approval as approvals
from sidecar.gateway import audit, response
from sidecar.gateway.action import ToolRequest, prepare
from sidecar.gateway.asked.driver import Asked, Known
from sidecar.gateway.call import Call
from sidecar.gateway.commands import Reply
from sidecar.gateway.config import Mode
from sidecar.gateway.desk import Desk
from sidecar.gateway.desk import Ports as Ports
from sidecar.gateway.desk import Settings as Settings
from sidecar.gateway.durable.driver import DurableCalls
from sidecar.gateway.events import Malformed
from sidecar.gateway.opening import (
    House,
    crowded,
    hashed_key,
    nameless_call,
    open_call,
    stopped,
    timeless,
    unwitnessed,
)
from sidecar.gateway.outcome import own_fault, store_failed
from sidecar.gateway.performer.driver import Performer
from sidecar.gateway.policy.document import Situation, ToolFacts, list_document
from sidecar.gateway.probing import Probing
from sidecar.gateway.problem import Refused
from sidecar.gateway.reconcile import Ruling
from sidecar.gateway.recovery.driver import keep_recovering, rule, take_orphans
from sidecar.gateway.registry import RegisteredTool, Registry
from sidecar.gateway.request import ToolReply, trace_context
from sidecar.gateway.rotation.driver import SigningKeys
from sidecar.gateway.steady import Steady
from sidecar.gateway.upstream import Audience
from sidecar.store.durable import Disposal
from sidecar.store.envelope import SealBroken
from sidecar.store.ledger import Claim, Scope
from sidecar.store.ports import GatewayLedger
from sidecar.telemetry import CALL_SECONDS, CALLS, OBSERVED, OWN_SPANS, log

_LOG = log("gateway")
_SEEN_AT_ONCE = 8
"""How many questions of what may be seen are before policy at a time, of all lists together."""


class Gateway:
    """Tool calls in, tool answers out. Build from ports, ``start``, ``call``, ``stop``.

    In replay the same class runs with ``Settings(mode="twin")`` and twins as ``upstreams``.
    """

    def __init__(
        self,
        ports: Ports,
        settings: Settings,
        *,
        now_ns: Callable[[], int] = clock.now_ns,
        new_id: Callable[[], str] = clock.new_id,
        steady_ns: Callable[[], int] = clock.steady_ns,
    ) -> None:
        self._ports = ports
        self._settings = settings
        self._now_ns = now_ns
        self._new_id = new_id
        self._steady_ns = steady_ns
        # Where time is played, both clocks are the player's, or neither is compared.
        self._steady: Steady | None = None
        if now_ns is clock.now_ns or steady_ns is not clock.steady_ns:
            self._steady = Steady(wall_ns=now_ns(), steady_ns=steady_ns())
        self._desk: Desk | None = None
        self._asked: Asked | None = None
        self._running: set[asyncio.Task[ToolReply]] = set()
        self._recovering: asyncio.Task[None] | None = None
        self._signing: asyncio.Task[None] | None = None
        self._durable: DurableCalls | None = None
        self._retrying: asyncio.Task[None] | None = None
        self._draining = asyncio.Event()
        self._at_once: Counter[str] = Counter()
        self._looking = asyncio.Semaphore(_SEEN_AT_ONCE)
        self._counters: dict[tuple[str, str, int], tuple[Counted, Timed]] = {}

    @property
    def mode(self) -> Mode:
        """The gateway's mode."""
        return self._settings.mode

    @property
    def registry(self) -> Registry:
        """The tools."""
        return self._ports.registry

    async def start(self) -> None:
        """Load or make keys, check the audit chain's end, recover what a dead process left.

        Raises SidecarError when the chain's end is not as signed; StoreUnavailable; SealBroken.
        """
        ledger = self._ports.ledger
        keys = SigningKeys(ledger, self._now_ns)
        await keys.open()
        _check_end(ledger)  # before anything can be added to it, and signed with it
        keys.begin()
        secret = await ledger.find_or_add_secret("idempotency", clock.random_bytes(32))
        owner = self._new_id()
        ledger.hold_owner(owner)
        self._desk = Desk(
            ports=self._ports,
            settings=self._settings,
            house=House(
                mode=self._settings.mode,
                ephemeral=ledger.ephemeral,
                accept_ephemeral=self._settings.accept_ephemeral_ledger,
                gateway_id=self._settings.gateway_id,
                secret=secret,
                keys=keys.public,
            ),
            signer=keys.signer,
            owner=owner,
            now_ns=self._now_ns,
            new_id=self._new_id,
            draining=self._draining.is_set,
            drained=self._draining.wait,
            probing=Probing(self._settings.probing),
        )
        await self.activate_policy(self._settings.policy_sequence)
        await take_orphans(self._desk)
        self._recovering = asyncio.ensure_future(keep_recovering(self._desk))
        self._signing = asyncio.ensure_future(keys.run())
        self._durable = DurableCalls(self._desk, self._made)
        self._retrying = asyncio.ensure_future(self._durable.run())

    async def resolve(self, ruling: Ruling) -> str | None:
        """Record a person's word on an unknown outcome; None, or the code of why it does not count.

        Raises StoreUnavailable.
        """
        return await rule(self._open_desk, ruling)

    async def activate_policy(self, sequence: int | None = None, *, loosens: bool = False) -> None:
        """From now on only the policy port's present revision authorises calls.

        ``sequence``: the number of its release. Raises SidecarError where a newer one was active,
        or it ``loosens`` and two people have not approved it.
        """
        revision, ledger = self._ports.policy.revision, self._ports.ledger
        if not await ledger.activate_policy(revision, self._now_ns(), sequence, loosens=loosens):
            if loosens:
                raise SidecarError(
                    "the policy is looser than the one that decides, and was not approved by two "
                    "people, or there is a newer one",
                    where="policy.bundle",
                    do="Have two people approve it: sidecar policy approve REVISION --reason …",
                )
            raise SidecarError(
                f"release {sequence} of the policy is not the newest that was active here",
                where="policy.bundle",
                do="Use the newest release, or release the older policy under a higher number.",
            )

    def claimed(self, tool: str, key: str, principal: Principal) -> tuple[Claim | None, bool]:
        """What a principal's key for a tool has become of, and whether somebody is at it.

        Raises StoreUnavailable.
        """
        desk = self._open_desk
        hashed = hashed_key(desk.house, principal, tool, key)
        scope = Scope(project=principal.project, principal=principal.id, tool=tool, key_hash=hashed)
        claim = desk.ports.ledger.find_claim(scope)
        open_ = claim is not None and claim.state in ("claimed", "sent")
        if claim is None or not open_:
            return claim, False
        if desk.runs(claim):
            return claim, True
        return desk.ports.ledger.find_claim(scope), False  # it may have ended before its owner did

    async def drained(self) -> None:
        """Returns once ``drain`` was called."""
        await self._draining.wait()

    def drain(self) -> None:
        """From now on no call waits for a person or for another call. Safe without start."""
        self._draining.set()

    async def stop(self) -> None:
        """Wait for the calls on their way. Safe without start and twice."""
        self.drain()
        if self._recovering is not None:
            self._recovering.cancel()
            await asyncio.gather(self._recovering, return_exceptions=True)
            self._recovering = None
        if self._signing is not None:
            self._signing.cancel()
            await asyncio.gather(self._signing, return_exceptions=True)
            self._signing = None
        if self._durable is not None and self._retrying is not None:
            self._durable.wake()  # on the way out it ends by itself: an attempt is finished
            await asyncio.gather(self._retrying, return_exceptions=True)
            self._retrying = None
        if self._running:
            await asyncio.gather(*self._running, return_exceptions=True)

    async def call(
        self, request: ToolRequest, principal: Principal, audience: Audience | None = None
    ) -> ToolReply:
        """One tool call from request to reply. What is wrong with the call is in the reply.

        ``audience`` is shown an answer that comes in parts; the reply says whether it was.
        """
        task = asyncio.ensure_future(self._call(request, principal, audience))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        if (upload := request.upload) is not None:
            task.add_done_callback(lambda _: upload.close())
        return await asyncio.shield(task)

    async def _made(self, request: ToolRequest, principal: Principal) -> ToolReply:
        """An attempt of a durable call."""
        return await self.call(request, principal)

    @property
    def durable(self) -> DurableCalls:
        """The calls made for agents that do not wait."""
        assert self._durable is not None, "start the gateway first"
        return self._durable

    async def dispose(self, disposal: Disposal) -> bool:
        """Put a dead letter back or away; False when it is none. Raises StoreUnavailable."""
        return await self.durable.dispose(disposal)

    def queued(self, durable_id: str, principal: Principal) -> ToolReply:
        """How a call of this principal stands."""
        try:
            return self.durable.show(durable_id, principal)
        except Refused as refused:
            return response.refused(refused.refusal(), "", "")
        except StoreUnavailable as error:
            _LOG.error("ledger failed", durable_id=durable_id, why=error)
            return response.refused(store_failed(), "", "")

    async def _put_off(self, request: ToolRequest, performer: Performer) -> ToolReply | None:
        """202 for a call that is taken on to be made later; None for one that is made now."""
        if not performer.put_off or self._settings.mode == "twin":
            return None
        call = performer.call
        try:
            return await self.durable.take_on(
                request, performer.principal, call, performer.fingerprint
            )
        except Refused as refused:
            return response.refused(refused.refusal(), "", "")
        except (StoreUnavailable, SealBroken) as error:
            _LOG.error("ledger failed", call_id=call.call_id, why=error)
            return response.refused(store_failed(), "", "")

    @property
    def asked(self) -> Asked:
        """Agents' own requests for approval."""
        if self._asked is None:
            self._asked = Asked(self._open_desk)
        return self._asked

    async def approval(self, approval_id: str, known: Known, wait_s: int = 0) -> ToolReply:
        """The state of a request for the agent that asked, held up to ``wait_s`` while it is
        pending; once approved, the token, once."""
        try:
            return approvals.as_reply(await self.asked.show(approval_id, known, wait_s))
        except Refused as refused:
            return response.refused(refused.refusal(), "", "")
        except (StoreUnavailable, SealBroken) as error:
            _LOG.error("ledger failed", approval_id=approval_id, why=error)
            return response.refused(store_failed(), "", "")

    async def sees(
        self,
        tool: RegisteredTool,
        principal: Principal,
        mcp: Mapping[str, Any] | None = None,
        *,
        claimed: Mapping[str, bool] | None = None,
    ) -> bool:
        """Whether a principal may know that there is this tool: credential and policy say so."""
        return await self.visible(tool, principal, mcp, claimed=claimed) is True

    async def visible(
        self,
        tool: RegisteredTool,
        principal: Principal,
        mcp: Mapping[str, Any] | None = None,
        *,
        claimed: Mapping[str, bool] | None = None,
    ) -> bool | None:
        """The same; None where policy gives no answer, which is no permission either.

        ``mcp``: what stands in which list of an MCP server, where that is no tool; ``claimed``:
        what the server says of its tool.
        """
        if principal.tools and tool.name not in principal.tools:
            return False
        facts = ToolFacts(
            name=tool.name,
            upstream=tool.config.upstream,
            class_=tool.config.class_,
            tool_digest=tool.tool_digest,
            mcp=mcp,
        )
        mode = "twin" if self._settings.mode == "twin" else "live"
        situation = Situation(
            time_ns=self._now_ns(), request_id=self._new_id(), claimed=dict(claimed or {})
        )
        asked = list_document(facts, principal, situation, mode)
        try:
            async with self._looking:  # a long list neither delays the decisions on calls nor
                answer = await self._ports.policy.visible(asked)  # is late by its own length
        except Exception as error:  # whatever went wrong there, it is no permission
            _LOG.error("policy failed", why=error)
            return None
        if answer.error is not None:
            return None
        return answer.effect in ("allow", "allow_with_limits")

    def secret(self, purpose: str) -> bytes:
        """A secret of this ledger's gateways for one purpose."""
        mac = hmac.new(self._open_desk.house.secret, b"agwp/1\n" + purpose.encode(), "sha256")
        return mac.digest()

    async def _call(
        self, request: ToolRequest, principal: Principal, audience: Audience | None
    ) -> ToolReply:
        started_ns = clock.monotonic_ns()
        performer = self.open(request, principal, audience)
        running, tool = self._open_desk.running, performer.call.tool
        running.add(performer.call.call_id)
        self._at_once[tool] += 1
        try:
            reply = await self._put_off(request, performer) or await self._run(performer)
        except Exception as error:
            _LOG.error("call failed", call_id=performer.call.call_id, why=error)
            reply = response.refused(performer.own_fault(), "", "")
        finally:
            running.discard(performer.call.call_id)
            self._at_once[tool] -= 1
        self._count(performer, request, reply, clock.monotonic_ns() - started_ns)
        return reply

    async def _run(self, performer: Performer) -> ToolReply:
        machine = Call()
        waiting = deque(machine.handle(performer.first))
        while waiting:
            command = waiting.popleft()
            if isinstance(command, Reply):
                return performer.reply(command)
            event = await performer.perform(command)
            if event is not None:
                waiting.extend(machine.handle(event))
        raise AssertionError(f"{machine} ended without a reply")

    def open(
        self, request: ToolRequest, principal: Principal, audience: Audience | None = None
    ) -> Performer:
        """The hands of one call, opened or refused; nothing is done yet."""
        desk, call_id, now_ns = self._open_desk, self._new_id(), self._now_ns()
        try:
            prepared = prepare(
                request,
                principal,
                self._ports.registry,
                mode="twin" if self._settings.mode == "twin" else "live",
                body_bytes_max=self._settings.body_bytes_max,
            )
            opening = open_call(
                request, prepared, principal, desk.house, call_id=call_id, now_ns=now_ns
            )
            opening = stopped(opening, desk.ports.ledger.stop_of(opening.call))
            bound = prepared.tool.config.concurrency_max
            full = 0 < bound <= self._at_once[prepared.tool.name]
            opening = crowded(opening, full=full)
            opening = unwitnessed(opening, desk.ports.unanchored())
            if self._steady and not self._steady.agree(now_ns, self._steady_ns()):
                opening = timeless(opening)
        except Refused as refused:
            refusal = request.refusal or refused.refusal()
        except StoreUnavailable as error:  # whether a stop stands cannot be read: then it does
            _LOG.error("ledger failed", call_id=call_id, why=error)
            refusal = store_failed()
        except Exception as error:  # a fault of ours: nothing was sent, and it is a receipt too
            _LOG.error("call not opened", call_id=call_id, why=error)
            refusal = own_fault()
        else:
            opened = (opening.call, opening.received, prepared, opening)
            return Performer(desk, principal, *opened, audience)
        trace_id = trace_context(request.headers).trace_id
        call = nameless_call(principal, call_id=call_id, trace_id=trace_id, now_ns=now_ns)
        return Performer(desk, principal, call, Malformed(refusal=refusal))

    def _count(
        self, performer: Performer, request: ToolRequest, reply: ToolReply, took_ns: int
    ) -> None:
        call = performer.call
        counted = (call.class_, performer.decided, reply.status)
        if (counters := self._counters.get(counted)) is None:
            counters = (
                CALLS.labels(call.class_, performer.decided, str(reply.status)),
                CALL_SECONDS.labels(call.class_),
            )
            self._counters[counted] = counters  # as many as there are statuses, and no more
        counters[0].inc()
        counters[1].observe(took_ns / 1e9)
        if performer.observed:
            OBSERVED.labels(call.class_, performer.decided).inc()
        if not OWN_SPANS.wanted:
            return
        caller = trace_context(request.headers)
        OWN_SPANS.tell(
            "gateway.call",
            parent=(caller.trace_id, caller.span_id),
            started_ns=call.started_at_ns,
            ended_ns=call.started_at_ns + took_ns,
            attributes={
                CALL_TOOL: call.tool,
                CALL_CLASS: call.class_,
                DECISION_EFFECT: performer.decided,
                "http.response.status_code": reply.status,
            },
            failed=reply.status >= 500,
        )

    @property
    def _open_desk(self) -> Desk:
        assert self._desk is not None, "start the gateway first"
        return self._desk


def _check_end(ledger: GatewayLedger) -> None:
    fault = audit.verify_end(*ledger.audit_end(), ledger.public_keys())
    if fault is not None:
        raise SidecarError(
            f"the audit chain is not as it was written, at entry {fault.index}: {fault.what}",
            where=ledger.where,
            do="Run: sidecar audit verify. Restore the ledger from a backup, or start a new store.",
        )
