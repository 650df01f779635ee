"""What a recorded run shows of the world it began in, and the twin does not know.

Rules
1. Only reads before the first call that may have had effects tell how the world was at first, and
   only through the tools' ``observe``.
2. What the twin knows stays as it knows it: a difference there is drift, and is compared. What it
   does not know is given, and the reads that gave it prove nothing of the twin.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from sidecar.expression.cel import ExpressionFailed
from sidecar.replay.import_tape import parsed
from sidecar.replay.taped import TapedCall, TapedRun
from sidecar.twins.group import Beginning, TwinGroup
from sidecar.twins.world import World


class Given(Struct, frozen=True, kw_only=True):
    """The rows to begin with, and the numbers (``seq``) of the calls that showed them."""

    beginning: Beginning
    calls: frozenset[int]


def given(run: TapedRun, group: TwinGroup, worlds: Mapping[str, World]) -> Given:
    """What the run shows and the worlds do not know. The first look at a row counts."""
    rows: dict[str, dict[str, dict[str, Any]]] = {}
    calls: set[int] = set()
    for call in _first_reads(run, group):
        for entity, key, row in _shown(call, group, worlds):
            rows.setdefault(entity, {}).setdefault(key, row)
            calls.add(call.seq)
    return Given(
        beginning=Beginning(rows={name: tuple(some.values()) for name, some in rows.items()}),
        calls=frozenset(calls),
    )


def _first_reads(run: TapedRun, group: TwinGroup) -> Iterator[TapedCall]:
    for call in run.calls:
        if not call.reached:
            continue
        class_ = group.tools.get(call.tool)
        if class_ == "read" and call.ended == "ok" and call.result is not None:
            yield call
        elif class_ != "read" and call.ended != "refused":
            return


def _shown(
    call: TapedCall, group: TwinGroup, worlds: Mapping[str, World]
) -> Iterator[tuple[str, str, dict[str, Any]]]:
    twin = group.owner(call.tool)
    assert twin is not None
    world = worlds[twin.name]
    bindings = {"arguments": call.arguments, "response": parsed(call.result)}
    for one in twin.tools[call.tool].observe:
        if not one.entity:
            continue
        try:
            rows = one.value.evaluate(bindings, world.functions)
            keyed = [(world.key_of(one.entity, row), row) for row in rows]
        except (ExpressionFailed, KeyError, TypeError):
            continue  # it shows something that is no row here: the call itself tells
        for key, row in keyed:
            if world.row(one.entity, key) is None and not twin.row_problems("", one.entity, [row]):
                yield f"{twin.name}.{one.entity}", key, row
