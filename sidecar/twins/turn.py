"""One call through a twin: the pipeline, with a place for faults at each of its steps.

Rules
1. receive, permission, schema, fault before, idempotency key, let, preconditions, effects, fault in
   the middle, commit, fault after, answer, fault on the wire, deliver: in this order, and the
   effects of one call happen all or not at all, unless a fault says otherwise.
2. Every call writes its event, every fired fault one before it. The caller cannot write any.
3. What the declaration does not foresee is a gap (501), what goes wrong in the twin itself an error
   (501): both void the episode, and neither leaves anything behind.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import Struct, structs

from processors.model.twin import Change, EventKind
from processors.value import duration_ns
from sidecar.evaluate.matching import same
from sidecar.expression.cel import ExpressionFailed
from sidecar.twins import chance, effects, hooks, timeline
from sidecar.twins.behaviour import Asked, Behaviour, Performed
from sidecar.twins.faults import Rule, Strike, active, draw
from sidecar.twins.foreign import Foreign
from sidecar.twins.place import FOR_EVER, Held, Late, Place, Standing, key_cell, let
from sidecar.twins.reply import Call, Reply, problem, silence
from sidecar.twins.rules import FOREVER, Fault
from sidecar.twins.timeline import Timer
from sidecar.twins.twin import CompiledTool
from sidecar.twins.value import Lean, Template
from sidecar.twins.world import NoSuchEntity

Functions = Mapping[str, Callable[..., Any]]


class _Gap(Exception):
    """The twin's declaration ends here."""


UNFORESEEN = (_Gap, ExpressionFailed, effects.Unforeseen, NoSuchEntity)


class Done(Struct, frozen=True, kw_only=True):
    """What became of a call: its answer, and its event. ``committed``: its effects happened."""

    reply: Reply
    kind: EventKind
    detail: str = ""
    changes: tuple[Change, ...] = ()
    effect_key: str | None = None
    committed: bool = False


class Turn:
    """One call on its way; ``answer`` once. ``spent_ns`` is how long it took then."""

    def __init__(self, place: Place, tool: CompiledTool, call: Call, number: int) -> None:
        self._place = place
        self._world = place.world
        self._tool = tool
        self._call = call
        self._number = number
        self._rule: Rule | None = None
        self._delivery = 1
        self._name = f"{place.twin.name}|{call.tool}|{number}"
        self.spent_ns = 0

    def answer(self) -> Reply:
        """The answer, and everything that follows from the call, recorded."""
        mark = self._world.journal.mark()
        try:
            done = self._on_the_wire(self._done())
            self._write(done)
            if (done.committed or self._late) and self._is("duplicate_delivery"):
                self._again()
        except UNFORESEEN as error:
            return self._void(mark, "gap", "twin_gap", str(error))
        except Exception as error:  # a twin that fails is no service that fails
            return self._void(mark, "error", "twin_error", f"{type(error).__name__}: {error}")
        return done.reply

    def deliver(self, why: str, again: int = 1) -> None:
        """Let the effects of a call that was answered happen now, as far as they can.

        ``again`` counts the deliveries of one call.
        """
        self._delivery = again
        mark = self._world.journal.mark()
        if self._tool.code is not None:
            done = self._tool.code.perform(self._world, self._asked())
            if done.refused:
                self._world.journal.rollback(mark)
                self._tell("delivered", done.status, detail=f"{why}: the service refused")
            else:
                self._delivered(mark, done.effect_key, done.status, why)
            return
        bindings = self._bindings(self._world.functions)
        refusal = self._unmet(bindings)
        if refusal is not None:
            self._world.journal.rollback(mark)
            self._tell("delivered", refusal.status, detail=f"{why}: a precondition does not hold")
            return
        status = self._tool.declared.response.status
        if self._late:
            self._send_off(bindings, len(self._tool.effects))
            self._delivered(mark, None, status, f"{why}: its effects are on their way")
            return
        self._apply(bindings, len(self._tool.effects))
        self._delivered(mark, self._effect_key(bindings), status, why)

    def arrive(self, late: Late) -> None:
        """Let effects that were on their way happen."""
        mark, all_of_them = self._world.journal.mark(), len(self._tool.effects)
        self._apply({**late.bindings, "flags": self._world.flags}, late.some)
        whole = late.some == all_of_them
        key = self._effect_key(late.bindings) if whole else None
        why = "took effect" if whole else f"{late.some} of {all_of_them} effects took effect"
        self._delivered(mark, key, None, why)

    # -- permission, schema, fault before --

    def _done(self) -> Done:
        refusal = self._refusal()
        if refusal is not None:
            return Done(reply=refusal, kind="refused", detail=refusal.value["error"])
        standing = self._stood() if self._world.standing else None
        if standing is not None:
            return standing
        self._rule = self._chosen() if self._place.rules else None
        struck = hooks.before(self._rule.fault) if self._rule else None
        if struck is not None:
            return self._struck(struck)
        stored = self._stored()
        if stored is not None:
            return self._replayed(*stored)
        if self._is("stale_read"):
            return self._stale()
        if self._is("cross_tenant_row"):
            return self._foreign()
        return self._performed(self._world.functions)

    def _refusal(self) -> Reply | None:
        needed = self._tool.declared.permission
        if needed and not self._place.setting.permissions & {needed, "*"}:
            return problem(403, "permission_denied", f"the caller lacks {needed}")
        error = next(iter(self._tool.schema.iter_errors(self._call.arguments)), None)
        if error is None:
            return None
        place = "/".join(map(str, error.instance_path))
        text = f"arguments at /{place}: {error.message}"
        if self._tool.declared.arguments.unknown == "gap":
            raise _Gap(text)
        return problem(422, "invalid_arguments", text)

    def _stood(self) -> Done | None:
        """What a fault that lasts makes of this call."""
        for one in self._world.standing.values():
            over = one.until_ns != FOR_EVER and self._world.now_ns >= one.until_ns
            if over or not self._under(one):
                continue
            self._fired(one.fault)
            if one.fault.fault == hooks.CRASH:
                return Done(reply=silence("refused"), kind="unanswered", detail="it is down")
            reply = hooks.before(one.fault)
            assert reply is not None
            return Done(reply=reply, kind=_kind(reply), detail="the fault lasts")
        return None

    def _under(self, one: Standing) -> bool:
        fault, tool = one.fault, self._tool.declared
        if fault.fault == hooks.CRASH or fault.tool == "*":
            return True  # the whole service is gone, or what the caller may do in all of it
        if fault.fault == "permission_revoked" and one.permission:
            return tool.permission == one.permission
        return fault.tool == tool.name

    def _chosen(self) -> Rule | None:
        strike = Strike(
            tool=self._call.tool,
            number=self._number,
            arguments=self._call.arguments,
            events=self._place.events,
            holds=self._holds,
        )
        seed = self._place.setting.seed
        for rule in self._place.rules:
            if active(rule, strike, seed=seed) and self._has_target(rule.fault):
                return rule
        return None

    def _holds(self, during: Lean) -> bool:
        return during.holds(self._bound(), self._world.functions)

    def _has_target(self, fault: Fault) -> bool:
        kind, some = fault.fault, len(self._tool.effects)
        if kind == "stale_read":
            older = self._place.older(fault, _lag_ns(fault))
            return not self._tool.declared.has_effect and older is not None
        if kind == "cross_tenant_row":
            return not self._tool.declared.has_effect and self._tool.code is None
        if kind == "partial_write":
            return fault.effects < some
        acts = some > 0 or (self._tool.code is not None and self._tool.declared.has_effect)
        return acts if kind in ("reorder", "duplicate_delivery") else True

    def _struck(self, reply: Reply) -> Done:
        assert self._rule is not None
        self._fired(self._rule.fault)
        self._stand(self._rule.fault)
        if reply.status is None:
            return Done(reply=reply, kind="unanswered", detail="timed out before any effect")
        return Done(reply=reply, kind=_kind(reply), detail="failed before any effect")

    def _stand(self, fault: Fault) -> None:
        if fault.fault not in hooks.STANDING or (
            not fault.window and fault.fault != "permission_revoked"
        ):
            return
        lasts = fault.window not in ("", FOREVER)
        until_ns = self._world.now_ns + duration_ns(fault.window) if lasts else FOR_EVER
        permission = self._tool.declared.permission
        standing = Standing(fault=fault, until_ns=until_ns, permission=permission)
        self._world.journal.put(self._world.standing, fault.id, standing)

    # -- idempotency key --

    def _stored(self) -> tuple[dict[str, Any], Reply] | None:
        if not (self._tool.declared.keyed and self._call.key):
            return None
        found: tuple[dict[str, Any], Reply] | None = self._world.keys.get(key_cell(self._call))
        return found

    def _replayed(self, arguments: dict[str, Any], reply: Reply) -> Done:
        if not same(arguments, self._call.arguments):
            text = "the idempotency key was used with other arguments"
            refusal = problem(422, "idempotency_key_reused", text)
            return Done(reply=refusal, kind="refused", detail=text)
        fault = self._rule.fault if self._rule else None
        if fault is not None and hooks.strikes_after(fault):
            self._fired(fault)
            reply = hooks.after(fault, reply)
        return Done(reply=reply, kind="replayed")

    # -- what is read and done --

    def _stale(self) -> Done:
        assert self._rule is not None
        fault = self._rule.fault
        mark = self._place.older(fault, _lag_ns(fault))
        assert mark is not None
        self._fired(fault)
        at = timeline.text(self._world.now_ns)
        with self._world.journal.rewound(mark):
            return self._performed(self._world.functions, now=at)

    def _foreign(self) -> Done:
        assert self._rule is not None
        foreign = Foreign(self._place.twin.declaration, self._world)
        done = self._performed(foreign.functions)
        if foreign.shown:
            self._fired(self._rule.fault)
        return done

    def _performed(self, functions: Functions, now: str = "") -> Done:
        if self._tool.code is not None:
            return self._coded(self._tool.code)
        mark = self._world.journal.mark()
        bindings = self._bindings(functions, now)
        refusal = self._unmet(bindings, functions)
        if refusal is not None:
            self._world.journal.rollback(mark)
            return Done(reply=refusal, kind="refused", detail="a precondition does not hold")
        fault = self._rule.fault if self._rule else None
        partial = fault is not None and fault.fault == "partial_write"
        some = fault.effects if fault is not None and partial else len(self._tool.effects)
        late = self._late
        if late and not (self._is("lie_success") or self._is("reorder")):
            self._send_off(bindings, some)
        else:
            self._apply(bindings, some)
        reply = self._measured(self._success(bindings, functions))
        if self._is("lie_success"):
            return self._lied(mark, reply)
        if self._is("reorder"):
            return self._held_back(mark, reply)
        effect_key = None if partial or late else self._effect_key(bindings)
        return self._committed(mark, effect_key, reply, whole=not (partial or late))

    def _coded(self, code: Behaviour) -> Done:
        """The same for a tool whose behaviour is code."""
        mark = self._world.journal.mark()
        done = code.perform(self._world, self._asked())
        reply = _answered(done)
        if done.refused:
            self._world.journal.rollback(mark)
            return Done(reply=reply, kind="refused", detail="the service refused")
        reply = self._measured(reply)
        if self._is("lie_success"):
            return self._lied(mark, reply)
        if self._is("reorder"):
            return self._held_back(mark, reply)
        return self._committed(mark, done.effect_key, reply, whole=True)

    def _asked(self) -> Asked:
        setting = self._place.setting
        return Asked(
            tool=self._call.tool,
            arguments=self._call.arguments,
            number=self._number,
            key=self._call.key,
            agent=self._agent,
            permissions=setting.permissions,
            seed=setting.seed,
        )

    def _apply(self, bindings: Mapping[str, Any], some: int) -> None:
        source = f"{self._call.tool}|{self._number}"
        if self._delivery > 1:
            source = f"{source}|{self._delivery}"
        schemas = self._place.twin.schemas
        effects.apply_all(self._tool.effects[:some], self._world, schemas, bindings, source)

    @property
    def _late(self) -> bool:
        return self._tool.declared.effects_after != "" and bool(self._tool.effects)

    def _send_off(self, bindings: dict[str, Any], some: int) -> None:
        delay = self._tool.declared.effects_after
        after_ns = chance.drawn_ns(delay, self._place.setting.seed, "actuator", self._name)
        seen = {**bindings, "flags": dict(self._world.flags)}
        timer = Timer(
            at_ns=self._world.now_ns + after_ns,
            agent=self._agent,
            seq=self._world.timeline.next_seq(),
            twin=self._place.twin.name,
            kind="effects",
            subject=self._call.tool,
            payload=Late(self._call, self._number, seen, some),
        )
        self._world.timeline.schedule(timer)

    def _lied(self, mark: int, reply: Reply) -> Done:
        assert self._rule is not None
        self._world.journal.rollback(mark)
        self._fired(self._rule.fault)
        return Done(reply=reply, kind="answered", detail="said success, did nothing")

    def _held_back(self, mark: int, reply: Reply) -> Done:
        assert self._rule is not None
        self._world.journal.rollback(mark)
        self._fired(self._rule.fault)
        held = Held(self._call, self._number)
        number = self._world.timeline.next_seq()
        self._world.journal.put(self._world.held, str(number), held)
        self._keep(reply)
        return Done(reply=reply, kind="answered", detail="its effects are held back")

    def _committed(self, mark: int, effect_key: str | None, reply: Reply, *, whole: bool) -> Done:
        fault = self._rule.fault if self._rule else None
        changes = self._changed(mark)
        detail = "" if whole else "its effects are on their way"
        if fault is not None and fault.fault == "partial_write":
            self._fired(fault)
            happened = "are on their way" if self._late else "happened"
            detail = f"{fault.effects} of {len(self._tool.effects)} effects {happened}"
            reply = reply if fault.status == 200 else hooks.failed()
            if fault.status == 200:
                self._keep(reply)
        else:
            self._keep(hooks.failed() if self._is("lie_failure") else reply)
        if fault is not None and (
            hooks.strikes_after(fault) or fault.fault == "duplicate_delivery"
        ):
            self._fired(fault)
            self._stand(fault)
            reply = hooks.after(fault, reply)
        return Done(
            reply=reply,
            kind=_kind(reply, said=True),
            detail=detail,
            changes=changes,
            effect_key=effect_key,
            committed=whole,
        )

    def _keep(self, reply: Reply) -> None:
        if self._tool.declared.keyed and self._call.key:
            kept = (self._call.arguments, reply)
            self._world.journal.put(self._world.keys, key_cell(self._call), kept)

    def _again(self) -> None:
        assert self._rule is not None
        times = self._rule.fault.times
        for nth in range(2, times + 1):
            why = f"delivered again ({nth} of {times})"
            stored = self._stored()
            if stored is None:
                self.deliver(why, nth)
            else:
                self._tell("delivered", stored[1].status, detail=f"{why}: answered as before")

    def _delivered(self, mark: int, key: str | None, status: int | None, why: str) -> None:
        changes = self._changed(mark)
        self._tell("delivered", status, detail=why, changes=changes, effect_key=key)

    def _changed(self, mark: int) -> tuple[Change, ...]:
        if self._world.journal.mark() == mark:
            return ()
        changes = self._world.changes(mark)
        if changes:
            self._place.supersede(mark)
        return changes

    # -- the answer --

    def _on_the_wire(self, done: Done) -> Done:
        seed, reply, fault = self._place.setting.seed, done.reply, None
        declared = self._tool.latency
        latency_ns = (
            declared
            if isinstance(declared, int)
            else chance.drawn_ns(declared, seed, "latency", self._name)
        )
        if self._rule is not None:
            fault = self._rule.fault
        if fault is not None and reply.status is not None:
            reply = self._wired(fault, done, reply)
            if fault.fault == "slow":
                self._fired(fault)
                latency_ns += chance.drawn_ns(fault.delay, seed, f"slow|{fault.id}", self._name)
        if reply.status is not None and latency_ns > self._tool.timeout_ns:
            reply = silence("timeout")
            done = structs.replace(done, detail=done.detail or "took longer than its timeout")
        silent = reply.failure in ("timeout", "hang")
        self.spent_ns = self._tool.timeout_ns if silent else latency_ns
        if reply is done.reply:
            return done
        kind: EventKind = "unanswered" if reply.failure else done.kind
        return structs.replace(done, reply=reply, kind=kind)

    def _wired(self, fault: Fault, done: Done, reply: Reply) -> Reply:
        if done.kind not in ("answered", "replayed"):
            return reply
        if fault.fault == "repeated_answer":
            return self._before_this(fault, reply)
        if fault.fault not in hooks.WIRE:
            return reply
        name = f"{fault.id}|field"
        drawn = draw(self._place.setting.seed, name, self._call.tool, self._number)
        struck = hooks.on_the_wire(fault, reply, drawn)
        if struck is None:
            return reply
        self._fired(fault)
        return struck

    def _before_this(self, fault: Fault, reply: Reply) -> Reply:
        earlier: Reply | None = self._world.answers.get(self._call.tool)
        self._world.journal.put(self._world.answers, self._call.tool, reply)
        if earlier is None:
            return reply
        self._fired(fault)
        return earlier

    def _measured(self, reply: Reply) -> Reply:
        """The answer as sensors give it: before it is kept, so that a key gets it again."""
        if not (reply.has_body and self._tool.declared.noise):
            return reply
        value, seen = reply.value, Counter[str]()
        for one in self._tool.declared.noise:
            error = self._error(one.kind, one.sigma, seen[one.field])
            seen[one.field] += 1
            value = hooks.noisy(value, tuple(one.field.split(".")), one.places, error)
        return structs.replace(reply, value=value)

    def _error(self, kind: str, sigma: float, nth: int) -> Callable[[str], float]:
        """``nth`` of the errors of one field: each is drawn for itself."""
        seed = self._place.setting.seed
        suffix = f"#{nth + 1}" if nth else ""

        def drawn(at: str) -> float:
            name = f"{self._name}|{at}{suffix}"
            if kind == "uniform":
                return sigma * (2 * chance.uniform(seed, "noise", name) - 1)
            return sigma * chance.normal(seed, "noise", name)

        return drawn

    def _bound(self) -> dict[str, Any]:
        return {
            "arguments": self._call.arguments,
            "call": {"tool": self._call.tool, "number": self._number, "key": self._call.key},
            "flags": self._world.flags,
            "now": timeline.text(self._world.now_ns),
        }

    def _bindings(self, functions: Functions, now: str = "") -> dict[str, Any]:
        bindings = self._bound()
        bindings["caller"] = {
            "agent": self._agent,
            "permissions": sorted(self._place.setting.permissions),
        }
        if now:
            bindings["now"] = now
        return let(self._tool.let, bindings, functions)

    def _unmet(
        self, bindings: Mapping[str, Any], functions: Functions | None = None
    ) -> Reply | None:
        functions = functions or self._world.functions
        for one in self._tool.preconditions:
            if not one.require.holds(bindings, functions):
                if one.gap:
                    raise _Gap(one.gap)
                return _reply(one.status, one.body, one.headers, bindings, functions)
        return None

    def _success(self, bindings: Mapping[str, Any], functions: Functions) -> Reply:
        declared = self._tool.declared.response
        headers = tuple(declared.headers.items())
        bindings = {**bindings, "flags": self._world.flags}
        return _reply(declared.status, self._tool.body, headers, bindings, functions)

    def _effect_key(self, bindings: Mapping[str, Any]) -> str | None:
        if not self._tool.declared.has_effect:
            return None
        value: Any = self._call.arguments
        if self._tool.effect_key is not None:
            value = self._tool.effect_key.said(bindings, self._world.functions)
        return msgspec.json.encode(value, order="sorted").decode()

    # -- the record --

    @property
    def _agent(self) -> str:
        return self._call.agent or self._place.setting.agent

    def _is(self, kind: str) -> bool:
        return self._rule is not None and self._rule.kind == kind

    def _fired(self, fault: Fault) -> None:
        self._tell("fault_fired", None, rule=fault.id, fault=fault.fault)

    def _tell(self, kind: EventKind, status: int | None, **more: Any) -> None:
        self._place.write(kind, self._call, self._number, status, **more)

    def _write(self, done: Done) -> None:
        self._tell(
            done.kind,
            None if done.reply.failure else done.reply.status,
            detail=done.detail,
            changes=done.changes,
            effect_key=done.effect_key,
        )

    def _void(self, mark: int, kind: EventKind, code: str, detail: str) -> Reply:
        self._world.journal.rollback(mark)
        self._tell(kind, 501, detail=detail)
        return problem(501, code, detail)


def _answered(done: Performed) -> Reply:
    """The answer of a tool whose behaviour is code."""
    if done.text is None:
        return Reply(status=done.status, value=done.value, has_body=True, headers=done.headers)
    kind = ("Content-Type", "text/plain; charset=utf-8")
    return Reply(
        status=done.status,
        value=done.text,
        has_body=True,
        headers=(*done.headers, kind),
        raw=done.text.encode(),
    )


def _reply(
    status: int,
    body: Template | None,
    headers: tuple[tuple[str, str], ...],
    bindings: Mapping[str, Any],
    functions: Functions,
) -> Reply:
    if body is None:
        return Reply(status=status, headers=headers)
    value = body.said(bindings, functions)
    return Reply(status=status, value=value, has_body=True, headers=headers)


def _kind(reply: Reply, *, said: bool = False) -> EventKind:
    """The event of an answer; ``said``: the service itself gave it, whatever its status."""
    if reply.failure or reply.status is None:
        return "unanswered"
    return "answered" if said or reply.status not in (403, 422) else "refused"


def _lag_ns(fault: Fault) -> int:
    return duration_ns(fault.lag) if fault.lag else 0
