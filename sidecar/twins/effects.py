"""The effects: what each does to a world, and when that was not foreseen.

Rules
1. An effect builds a new row and puts it; rows are never edited in place, so that the journal can
   undo.
2. A missing row, an existing key, or a row its schema refuses is Unforeseen: the twin answers a
   gap.
3. Effects of one call see the effects before them.
4. A message's delay is drawn by what put it into its queue (the call or the message before, and the
   place among its effects): other messages never shift it.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, assert_never

import jsonschema_rs
from msgspec import Struct

from sidecar.errors import Problem
from sidecar.twins import decimals
from sidecar.twins.chance import drawn_ns
from sidecar.twins.declaration import (
    AppendEffect,
    Declaration,
    DeleteEffect,
    DequeueEffect,
    Effect,
    EnqueueEffect,
    IncrementEffect,
    InsertEffect,
    MergeEffect,
    Queue,
    RowEffect,
    SetEffect,
)
from sidecar.twins.timeline import Timer
from sidecar.twins.value import Lean, Scope, Template, condition, template
from sidecar.twins.world import World, key_text

SOURCE_MAX = 256


class Unforeseen(Exception):
    """An effect met a world its author did not think of."""


class Compiled(Struct, frozen=True, kw_only=True):
    """An effect with its expressions ready; ``operand`` is what it sets, adds, appends or
    inserts.
    """

    effect: Effect
    when: Lean | None
    key: Template
    operand: Template
    twin: str = ""
    queue: Queue | None = None


Schemas = Mapping[str, jsonschema_rs.Validator]


def compiled(
    effect: Effect, scope: Scope, path: str, problems: list[Problem], declared: Declaration
) -> Compiled:
    """Compile an effect's expressions."""
    name, operand = _operand(effect)
    key = getattr(effect, "key", None)
    return Compiled(
        effect=effect,
        when=condition(effect.when, scope, f"{path}.when", problems) if effect.when else None,
        key=template(key, scope, f"{path}.key", problems),
        operand=template(operand, scope, f"{path}.{name}", problems),
        twin=declared.twin,
        queue=declared.queues.get(effect.queue) if isinstance(effect, EnqueueEffect) else None,
    )


def apply_all(
    some: Sequence[Compiled],
    world: World,
    schemas: Schemas,
    bindings: Mapping[str, Any],
    source: str,
) -> None:
    """Let effects happen in order; ``source`` names the call or message whose effects they are.

    Raises Unforeseen, ExpressionFailed.
    """
    for place, one in enumerate(some):
        _apply(one, world, schemas, bindings, f"{source}|{place}")


def _apply(
    one: Compiled, world: World, schemas: Schemas, bindings: Mapping[str, Any], name: str
) -> None:
    if one.when is not None and not one.when.holds(bindings, world.functions):
        return
    operand = one.operand.said(bindings, world.functions)
    effect = one.effect
    if isinstance(effect, EnqueueEffect):
        _enqueue(one, operand, world, name)
        return
    if isinstance(effect, DequeueEffect):
        _dequeue(effect, world)
        return
    _on_rows(one, effect, operand, world, schemas, bindings)


def _on_rows(
    one: Compiled,
    effect: RowEffect,
    operand: Any,
    world: World,
    schemas: Schemas,
    bindings: Mapping[str, Any],
) -> None:
    if isinstance(effect, SetEffect) and effect.flag:
        world.journal.put(world.flags, effect.flag, operand)
        return
    if isinstance(effect, InsertEffect):
        _insert(effect, operand, world, schemas)
        return
    key = one.key.said(bindings, world.functions)
    row = world.row(effect.entity, key)
    if row is None:
        raise Unforeseen(f"{effect.entity} has no row {key_text(key)!r}")
    if isinstance(effect, DeleteEffect):
        world.journal.drop(world.table(effect.entity), key_text(key))
        return
    changed = _changed(effect, row, operand)
    _check(effect.entity, changed, schemas)
    if world.key_of(effect.entity, changed) != key_text(key):
        raise Unforeseen(f"the key of {effect.entity} {key_text(key)!r} would change")
    world.put_row(effect.entity, changed)


def _enqueue(one: Compiled, message: Any, world: World, source: str) -> None:
    effect = one.effect
    assert isinstance(effect, EnqueueEffect)
    seq = world.timeline.next_seq()
    world.journal.put(world.queue(effect.queue), str(seq), message)
    if one.queue is None or one.queue.handle is None:
        return
    name = f"{one.twin}|{effect.queue}|{_short(source)}"
    delay_ns = drawn_ns(one.queue.delay, world.seed, "queue", name)
    world.timeline.schedule(
        Timer(
            at_ns=world.now_ns + delay_ns,
            agent="",
            seq=seq,
            twin=one.twin,
            kind="message",
            subject=effect.queue,
            payload=name,
        )
    )


def _short(source: str) -> str:
    """A message that a message put in, and so on, would bear all names before it."""
    if len(source) <= SOURCE_MAX:
        return source
    return hashlib.sha256(source.encode("utf-8", "surrogatepass")).hexdigest()


def _dequeue(effect: DequeueEffect, world: World) -> None:
    messages = world.queue(effect.queue)
    oldest = next(iter(messages), None)
    if oldest is None:
        raise Unforeseen(f"the queue {effect.queue} is empty")
    world.journal.drop(messages, oldest)


def _operand(effect: Effect) -> tuple[str, Any]:
    if isinstance(effect, SetEffect):
        return ("value", effect.value) if effect.flag else ("values", effect.values)
    if isinstance(effect, IncrementEffect):
        return "by", effect.by
    if isinstance(effect, AppendEffect):
        return "value", effect.value
    if isinstance(effect, EnqueueEffect):
        return "message", effect.message
    if isinstance(effect, MergeEffect | InsertEffect):
        return "values", effect.values
    return "key", None


def _insert(effect: InsertEffect, row: Any, world: World, schemas: Schemas) -> None:
    if not isinstance(row, dict):
        raise Unforeseen(f"a row of {effect.entity} must be a mapping")
    _check(effect.entity, row, schemas)
    try:
        key = world.key_of(effect.entity, row)
    except KeyError as error:
        raise Unforeseen(f"a row of {effect.entity} has no {error}") from None
    if key in world.table(effect.entity):
        raise Unforeseen(f"{effect.entity} has a row {key!r} already")
    world.put_row(effect.entity, row)


def _changed(
    effect: SetEffect | IncrementEffect | AppendEffect | MergeEffect,
    row: dict[str, Any],
    operand: Any,
) -> dict[str, Any]:
    if isinstance(effect, SetEffect):
        return {**row, **_mapping(effect.entity, operand)}
    if isinstance(effect, IncrementEffect):
        return {**row, effect.field: _exact(decimals.add, row.get(effect.field, 0), operand)}
    if isinstance(effect, AppendEffect):
        items = row.get(effect.field, [])
        if not isinstance(items, list):
            raise Unforeseen(f"{effect.entity}.{effect.field} is no list")
        return {**row, effect.field: [*items, operand]}
    if isinstance(effect, MergeEffect):
        merged: dict[str, Any] = merge_patch(row, _mapping(effect.entity, operand))
        return merged
    assert_never(effect)


def merge_patch(target: Any, patch: Any) -> Any:
    """JSON Merge Patch, RFC 7396 section 2."""
    if not isinstance(patch, Mapping):
        return patch
    result = dict(target) if isinstance(target, Mapping) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merge_patch(result.get(name), value)
    return result


def _mapping(entity: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise Unforeseen(f"values for {entity} must be a mapping")
    return value


def _exact(operation: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
    try:
        return operation(left, right)
    except ValueError as error:
        raise Unforeseen(str(error)) from None


def _check(entity: str, row: Any, schemas: Schemas) -> None:
    error = next(iter(schemas[entity].iter_errors(row)), None)
    if error is not None:
        place = "/".join(map(str, error.instance_path))
        raise Unforeseen(f"a row of {entity} would break its schema at /{place}: {error.message}")
