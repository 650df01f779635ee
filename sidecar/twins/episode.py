"""One episode of calls on a world of a twin: the pipeline of a call.

Rules
1. receive, permission, schema, fault before, idempotency key, let, preconditions, effects, fault
   after, response: in this order, and the effects of one call happen all or not at all.
2. The twin answers only what it declares. Anything else is a gap: 501, an event, and a void
   episode.
3. Every call writes its event, every fired fault one before it. The caller cannot write any.
4. ``close`` takes everything back and tells whether something leaked.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from processors.model.twin import Change, EventKind, TwinEvent
from sidecar.evaluate.matching import same
from sidecar.expression.cel import ExpressionFailed
from sidecar.twins import effects, timeline
from sidecar.twins.behaviour import Asked, Behaviour, Performed, TwinFailed
from sidecar.twins.declaration import Fault
from sidecar.twins.faults import Strike, fired, named
from sidecar.twins.twin import CompiledTool, Twin
from sidecar.twins.value import Template
from sidecar.twins.world import World

_BEFORE = frozenset({"timeout_before", "http_429", "http_500_before"})
EVERYTHING = frozenset({"*"})


class Reply(Struct, frozen=True, kw_only=True):
    """A twin's answer; ``status`` None means that none came in time.

    ``raw`` are the bytes that go out in place of ``value``.
    """

    status: int | None
    value: Any = None
    has_body: bool = False
    headers: tuple[tuple[str, str], ...] = ()
    raw: bytes | None = None

    def body(self) -> bytes:
        """The answer's bytes, JSON unless it is text; nothing where it has no body."""
        if self.raw is not None:
            return self.raw
        return msgspec.json.encode(self.value, order="sorted") if self.has_body else b""


class Call(Struct, frozen=True, kw_only=True):
    """One call of a declared tool, its arguments read."""

    tool: str
    arguments: dict[str, Any]
    key: str = ""
    call_id: str = ""


class Setting(Struct, frozen=True, kw_only=True):
    """What holds for one episode: who calls, which faults may strike, with which seed."""

    agent: str = ""
    permissions: frozenset[str] = EVERYTHING
    faults: tuple[Fault, ...] = ()
    seed: int = 0


class _Gap(Exception):
    """The twin's declaration ends here."""


class Episode:
    """One agent's run over one world of a twin."""

    def __init__(
        self, twin: Twin, world: World, setting: Setting, events: list[TwinEvent] | None = None
    ) -> None:
        self.twin = twin
        self.world = world
        self.setting = setting
        self.events: list[TwinEvent] = [] if events is None else events
        self._faults = (*named(setting.faults), *twin.faults)
        self._clean = world.digest()
        self._opened = world.journal.mark()
        self._started = self._opened

    def begin(
        self,
        rows: Mapping[str, Sequence[dict[str, Any]]],
        *,
        clear: Sequence[str] = (),
        flags: Mapping[str, Any] | None = None,
        now_ns: int | None = None,
    ) -> None:
        """Set the initial state of the episode; changes are counted from here."""
        for entity in clear:
            for key in list(self.world.table(entity)):
                self.world.journal.drop(self.world.table(entity), key)
        for entity, some in rows.items():
            for row in some:
                self.world.put_row(entity, row)
        for name, value in (flags or {}).items():
            self.world.journal.put(self.world.flags, name, value)
        if now_ns is not None:
            self.world.set_time(now_ns)
        self._started = self.world.journal.mark()

    def changes(self) -> tuple[Change, ...]:
        """What differs from the start of the episode."""
        return self.world.changes(self._started)

    def close(self) -> bool:
        """Take everything back; whether the world is as it was before (no leak)."""
        self.world.journal.rollback(self._opened)
        return self.world.digest() == self._clean

    def gap(self, tool: str, detail: str, *, call_id: str = "") -> Reply:
        """Record that something undeclared was asked for; the answer is 501."""
        self._write("gap", Call(tool=tool, arguments={}, call_id=call_id), 0, 501, detail=detail)
        return _problem(501, "twin_gap", detail)

    def call(self, call: Call) -> Reply:
        """Answer one call."""
        tool = self.twin.tools.get(call.tool)
        if tool is None:
            return self.gap(
                call.tool, f"the twin declares no tool {call.tool!r}", call_id=call.call_id
            )
        number = self.world.next_call(call.tool)
        reply = self._answered(tool, call, number)
        passed = tool.latency_ns if reply.status is not None else tool.timeout_ns
        self.world.set_time(self.world.now_ns + passed)
        return reply

    def _answered(self, tool: CompiledTool, call: Call, number: int) -> Reply:
        mark = self.world.journal.mark()
        try:
            refusal = self._refusal(tool, call)
            if refusal is not None:
                self._write("refused", call, number, refusal.status, detail=refusal.value["error"])
                return refusal
            strike = Strike(tool=call.tool, number=number, arguments=call.arguments)
            fault = fired(self._faults, strike, seed=self.setting.seed)
            if fault is not None and fault.fault in _BEFORE:
                return self._struck(fault, call, number)
            return self._performed(tool, call, number, fault)
        except (_Gap, ExpressionFailed, effects.Unforeseen) as error:
            self.world.journal.rollback(mark)
            self._write("gap", call, number, 501, detail=str(error))
            return _problem(501, "twin_gap", str(error))
        except TwinFailed as error:
            self.world.journal.rollback(mark)
            self._write("error", call, number, 501, detail=str(error))
            return _problem(501, "twin_error", str(error))

    def _refusal(self, tool: CompiledTool, call: Call) -> Reply | None:
        needed = tool.declared.permission
        if needed and not self.setting.permissions & {needed, "*"}:
            return _problem(403, "permission_denied", f"the caller lacks {needed}")
        error = next(iter(tool.schema.iter_errors(call.arguments)), None)
        if error is None:
            return None
        place = "/".join(map(str, error.instance_path))
        text = f"arguments at /{place}: {error.message}"
        if tool.declared.arguments.unknown == "gap":
            raise _Gap(text)
        return _problem(422, "invalid_arguments", text)

    def _struck(self, fault: Fault, call: Call, number: int) -> Reply:
        self._fired(fault, call, number)
        if fault.fault == "timeout_before":
            self._write("unanswered", call, number, None, detail="timed out before any effect")
            return Reply(status=None)
        status = 429 if fault.fault == "http_429" else 500
        self._write("answered", call, number, status, detail="failed before any effect")
        headers = (("Retry-After", str(fault.retry_after)),) if status == 429 else ()
        return Reply(
            status=status, value={"error": fault.fault[5:8]}, has_body=True, headers=headers
        )

    def _performed(self, tool: CompiledTool, call: Call, number: int, fault: Fault | None) -> Reply:
        stored = self._stored(tool, call)
        if stored is not None:
            return self._replayed(stored, call, number, fault)
        if tool.code is not None:
            return self._coded(tool.code, tool, call, number, fault)
        mark = self.world.journal.mark()
        bindings = self._bindings(tool, call, number)
        refusal = self._unmet(tool, bindings)
        if refusal is not None:
            self.world.journal.rollback(mark)
            self._write(
                "refused", call, number, refusal.status, detail="a precondition does not hold"
            )
            return refusal
        for effect in tool.effects:
            effects.apply(effect, self.world, self.twin.schemas, bindings)
        reply = self._success(tool, bindings)
        if fault is not None and fault.fault == "lie_success":
            self.world.journal.rollback(mark)
            self._fired(fault, call, number)
            self._write("answered", call, number, reply.status, detail="said success, did nothing")
            return reply
        effect_key = self._effect_key(tool, call, bindings)
        return self._committed(tool, call, number, fault, _Commit(mark, effect_key, reply))

    def _coded(
        self, code: Behaviour, tool: CompiledTool, call: Call, number: int, fault: Fault | None
    ) -> Reply:
        """The same for a tool whose behaviour is code."""
        mark = self.world.journal.mark()
        asked = Asked(
            tool=call.tool,
            arguments=call.arguments,
            number=number,
            key=call.key,
            agent=self.setting.agent,
            permissions=self.setting.permissions,
            seed=self.setting.seed,
        )
        done = code.perform(self.world, asked)
        reply = answered(done)
        if done.refused:
            self.world.journal.rollback(mark)
            self._write("refused", call, number, reply.status, detail="the service refused")
            return reply
        if fault is not None and fault.fault == "lie_success":
            self.world.journal.rollback(mark)
            self._fired(fault, call, number)
            self._write("answered", call, number, reply.status, detail="said success, did nothing")
            return reply
        return self._committed(tool, call, number, fault, _Commit(mark, done.effect_key, reply))

    def _committed(
        self, tool: CompiledTool, call: Call, number: int, fault: Fault | None, commit: "_Commit"
    ) -> Reply:
        changes = self.world.changes(commit.mark)
        if tool.declared.keyed and call.key:
            self.world.journal.put(self.world.keys, _key_cell(call), (call.arguments, commit.reply))
        if fault is not None:
            self._fired(fault, call, number)
        reply = _after(fault, commit.reply)
        kind: EventKind = "answered" if reply.status is not None else "unanswered"
        self._write(kind, call, number, reply.status, changes=changes, effect_key=commit.effect_key)
        return reply

    def _stored(self, tool: CompiledTool, call: Call) -> tuple[dict[str, Any], Reply] | None:
        if not (tool.declared.keyed and call.key):
            return None
        found: tuple[dict[str, Any], Reply] | None = self.world.keys.get(_key_cell(call))
        return found

    def _replayed(
        self, stored: tuple[dict[str, Any], Reply], call: Call, number: int, fault: Fault | None
    ) -> Reply:
        arguments, reply = stored
        if not same(arguments, call.arguments):
            text = "the idempotency key was used with other arguments"
            self._write("refused", call, number, 422, detail=text)
            return _problem(422, "idempotency_key_reused", text)
        if fault is not None and fault.fault in ("timeout_after", "http_500_after"):
            self._fired(fault, call, number)
            reply = _after(fault, reply)
        self._write("replayed", call, number, reply.status)
        return reply

    def _bindings(self, tool: CompiledTool, call: Call, number: int) -> dict[str, Any]:
        bindings: dict[str, Any] = {
            "arguments": call.arguments,
            "call": {"tool": call.tool, "number": number, "key": call.key},
            "caller": {
                "agent": self.setting.agent,
                "permissions": sorted(self.setting.permissions),
            },
            "flags": self.world.flags,
            "now": timeline.text(self.world.now_ns),
        }
        for name, value in tool.let:
            bindings[name] = value.evaluate(bindings, self.world.functions)
        return bindings

    def _unmet(self, tool: CompiledTool, bindings: Mapping[str, Any]) -> Reply | None:
        for one in tool.preconditions:
            if not one.require.holds(bindings, self.world.functions):
                return self._reply(one.status, one.body, one.headers, bindings)
        return None

    def _success(self, tool: CompiledTool, bindings: Mapping[str, Any]) -> Reply:
        response = tool.declared.response
        bindings = {**bindings, "flags": self.world.flags}
        return self._reply(response.status, tool.body, tuple(response.headers.items()), bindings)

    def _reply(
        self,
        status: int,
        body: Template | None,
        headers: tuple[tuple[str, str], ...],
        bindings: Mapping[str, Any],
    ) -> Reply:
        if body is None:
            return Reply(status=status, headers=headers)
        value = body.evaluate(bindings, self.world.functions)
        return Reply(status=status, value=value, has_body=True, headers=headers)

    def _effect_key(
        self, tool: CompiledTool, call: Call, bindings: Mapping[str, Any]
    ) -> str | None:
        if not tool.declared.has_effect:
            return None
        value: Any = call.arguments
        if tool.effect_key is not None:
            value = tool.effect_key.evaluate(bindings, self.world.functions)
        return msgspec.json.encode(value, order="sorted").decode()

    def _fired(self, fault: Fault, call: Call, number: int) -> None:
        self._write("fault_fired", call, number, None, rule=fault.id, fault=fault.fault)

    def _write(
        self, kind: EventKind, call: Call, number: int, status: int | None, **more: Any
    ) -> None:
        self.events.append(
            TwinEvent(
                seq=len(self.events),
                kind=kind,
                twin=self.twin.name,
                tool=call.tool,
                at_ns=self.world.now_ns,
                number=number,
                call_id=call.call_id,
                key=call.key,
                arguments=call.arguments,
                status=status,
                **more,
            )
        )


class _Commit(Struct, frozen=True):
    mark: int
    effect_key: str | None
    reply: Reply


def answered(done: Performed) -> Reply:
    """The answer of a tool whose behaviour is code."""
    if done.text is None:
        return Reply(status=done.status, value=done.value, has_body=True, headers=done.headers)
    headers = (*done.headers, ("Content-Type", "text/plain; charset=utf-8"))
    return Reply(
        status=done.status,
        value=done.text,
        has_body=True,
        headers=headers,
        raw=done.text.encode(),
    )


def _after(fault: Fault | None, reply: Reply) -> Reply:
    if fault is None or fault.fault == "lie_success":
        return reply
    if fault.fault == "timeout_after":
        return Reply(status=None)
    return Reply(status=500, value={"error": "500"}, has_body=True)


def _key_cell(call: Call) -> str:
    return f"{call.tool}\n{call.key}"


def _problem(status: int, code: str, detail: str) -> Reply:
    return Reply(status=status, value={"error": code, "detail": detail}, has_body=True)
