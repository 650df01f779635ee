"""Behaviour: what a tool written in Python does to a world, as the pipeline of a call sees it.

Rules
1. The pipeline is that of declared tools: permission, schema, faults, idempotency keys, undo, clock
   and events are the same, and the code between them cannot tell which fault is on.
2. ``perform`` changes the world through its journal alone, and takes nothing back itself: whether
   what it did stays is the pipeline's decision.
3. What was not foreseen is ``effects.Unforeseen`` (a gap); code that breaks is TwinFailed. Both
   void the case.
"""

from typing import Any, Protocol

import msgspec
from msgspec import Struct

from sidecar.twins.world import World


class TwinFailed(Exception):
    """A twin's own code broke: nothing can be concluded from the episode."""


class Asked(Struct, frozen=True, kw_only=True):
    """One call as a behaviour sees it; ``number`` counts the calls of the tool from 1."""

    tool: str
    arguments: dict[str, Any]
    number: int
    key: str = ""
    agent: str = ""
    permissions: frozenset[str] = frozenset()
    seed: int = 0


class Performed(Struct, frozen=True, kw_only=True):
    """What came of it: the answer (``text`` as it is, else ``value`` as JSON) and its status.

    ``refused``: nothing of it may stay. ``effect_key`` names the effect.
    """

    status: int
    value: Any = None
    text: str | None = None
    headers: tuple[tuple[str, str], ...] = ()
    refused: bool = False
    effect_key: str | None = None


class Behaviour(Protocol):
    """What a tool does; immutable, shared by all episodes."""

    def perform(self, world: World, asked: Asked) -> Performed:
        """Do it. Raises Unforeseen, TwinFailed."""
        ...


def named_effect(value: Any) -> str:
    """An effect's name as it stands in events: JSON with sorted keys."""
    return msgspec.json.encode(value, order="sorted").decode()
