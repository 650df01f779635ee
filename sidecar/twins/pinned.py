"""Tapes that a suite pins: recordings which the candidate must follow in a strict replay.

**Rules**
1. A drift that the change means is declared by its kind; any other blocks.
2. The agent's command is the candidate's, with the arguments and the request that are given here.
"""

from collections.abc import Iterator, Sequence
from typing import Any, get_args

from msgspec import Struct

from sidecar.errors import Problem
from sidecar.tape.drift import Drift


class PinnedTape(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``input`` is what the agent was asked when it was recorded, ``drift`` the kinds of drift that
    are meant; ``tape`` is relative to the suite."""

    tape: str
    input: Any = ""
    arguments: tuple[str, ...] = ()
    drift: tuple[str, ...] = ()

    def request(self) -> dict[str, Any]:
        """What the agent is given."""
        return {"input": self.input, "messages": [], "scenario": self.tape, "seed": 0}


def pinned_problems(tapes: Sequence[PinnedTape]) -> Iterator[Problem]:
    """What is wrong with them."""
    known = get_args(Drift)
    for index, one in enumerate(tapes):
        if not one.tape or any(one.tape == other.tape for other in tapes[:index]):
            yield Problem(f"tapes.{index}.tape", f"{one.tape!r} is empty or stands twice")
        for number, kind in enumerate(one.drift):
            if kind not in known:
                said = f"there is no drift {kind!r}; known: {', '.join(known)}"
                yield Problem(f"tapes.{index}.drift.{number}", said)
