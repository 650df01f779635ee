"""Where the calls of one episode happen: the twin, its world, who calls, and what is recorded."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from processors.model.twin import EventKind, TwinEvent
from sidecar.twins.faults import Rule
from sidecar.twins.reply import Call
from sidecar.twins.rules import Fault
from sidecar.twins.twin import Twin
from sidecar.twins.world import World

EVERYTHING = frozenset({"*"})
FOR_EVER = -1


class Setting(Struct, frozen=True, kw_only=True):
    """What holds for one episode: who calls, which faults may strike, with which seed."""

    agent: str = ""
    permissions: frozenset[str] = EVERYTHING
    faults: tuple[Fault, ...] = ()
    seed: int = 0


class Version(Struct, frozen=True):
    """A state that was replaced at ``at_ns`` of virtual time: what the world held at ``mark``."""

    at_ns: int
    mark: int


class Standing(Struct, frozen=True, kw_only=True):
    """A fault that lasts: its rule, until when (-1: to the end), and the permission it took."""

    fault: Fault
    until_ns: int
    permission: str = ""


class Held(Struct, frozen=True):
    """A call that was answered and whose effects are held back."""

    call: Call
    number: int


class Late(Struct, frozen=True):
    """Effects on their way: of which call, what its expressions saw, and the first how many."""

    call: Call
    number: int
    bindings: dict[str, Any]
    some: int


class Place(Struct, frozen=True, kw_only=True):
    """What all calls of an episode have in common. ``versions`` grows with each change."""

    twin: Twin
    world: World
    setting: Setting
    rules: tuple[Rule, ...]
    events: list[TwinEvent]
    versions: list[Version]

    def write(
        self, kind: EventKind, call: Call, number: int, status: int | None, **more: Any
    ) -> None:
        """Record an event."""
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

    def supersede(self, mark: int) -> None:
        """Remember the state before ``mark`` as one that can be read stale."""
        self.versions.append(Version(self.world.now_ns, mark))

    def older(self, fault: Fault, lag_ns: int) -> int | None:
        """The mark of the state a stale read sees; None where the world has not changed since."""
        if lag_ns:
            since = self.world.now_ns - lag_ns
            return next((one.mark for one in self.versions if one.at_ns > since), None)
        back = fault.versions or 1
        return self.versions[-min(back, len(self.versions))].mark if self.versions else None


def key_cell(call: Call) -> str:
    """Where the answer of a keyed call is kept."""
    return f"{call.tool}\n{call.key}"


def let(
    named: tuple[tuple[str, Any], ...], bindings: dict[str, Any], functions: Mapping[str, Any]
) -> dict[str, Any]:
    """The bindings with the named expressions, each of which sees the ones before."""
    for name, value in named:
        bindings[name] = value.evaluate(bindings, functions)
    return bindings
