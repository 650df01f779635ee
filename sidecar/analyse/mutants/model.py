"""Mutant: one thing made wrong on purpose, and what a suite made of it.

**Rules**
1. A mutant is its operator and its place; with the seed it is the same wrong thing every time.
2. *Killed*: a case that passes as it is fails. *Survived*: no case does. *Equivalent*: what it
   changed, the world and the answer do not show. *Void*: nothing could be concluded.
3. The score is killed of killed and survived. It is of the mutants that were made, no others.
"""

from typing import Any, Literal

from msgspec import Struct

Target = Literal["agent", "policy", "twin"]
Ending = Literal["killed", "survived", "equivalent", "void"]


class Operator(Struct, frozen=True, kw_only=True):
    """A way to make something wrong; ``kill`` is what notices it.

    ``harmless``: where effects and answer are as before, nothing is wrong after all.
    """

    name: str
    target: Target
    says: str
    kill: str
    harmless: bool = False


class Mutant(Struct, frozen=True, kw_only=True):
    """An operator at a place: a tool (and argument, or number of a rule or effect there)."""

    operator: str
    target: Target
    tool: str = ""
    place: str = ""
    cases: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        """Its name."""
        return " ".join(filter(None, (self.operator, self.tool, self.place)))


class Heard(Struct, frozen=True, kw_only=True):
    """One call of a run, as the agent made it and was answered."""

    tool: str
    arguments: dict[str, Any]
    key: str
    status: int | None
    value: Any

    @property
    def succeeded(self) -> bool:
        """Whether the agent was told so."""
        return self.status is not None and self.status < 300


class Shown(Struct, frozen=True, kw_only=True):
    """What a run came to: how it was judged, what it did to the world, and what it answered."""

    case: str
    passed: bool
    void: str | None
    effects: tuple[str, ...]
    answer: str
    why: str = ""
    heard: tuple[Heard, ...] = ()
    acted: bool = True


class Judged(Struct, frozen=True, kw_only=True):
    """A mutant and its end. ``by`` is the first case that noticed, ``why`` what it said, or why
    nothing could be concluded; ``runs`` how many were made, ``acted`` in how many it did something.
    """

    mutant: Mutant
    ending: Ending
    by: str = ""
    why: str = ""
    runs: int = 0
    acted: int = 0
