"""The user of a scenario who answers: what the agent's last answer makes them say next.

Rules
1. A scripted user is a list of lines; the first that fits what the agent said, and was not used up,
   is said. None fits: the user has nothing more to say, and the conversation ends.
2. Where a line has several wordings, one is drawn by the scenario's seed and the turn: the same
   seed says the same words.
3. The conversation ends at ``turnsMax`` answers of the agent, whatever is left to say.
"""

import hmac
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import re2
from msgspec import Struct

from sidecar.evaluate.expectation import pattern

TURNS_MAX = 50


class Line(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Said ``times`` times at most, when the agent's answer matches ``when`` (RE2; empty: any)."""

    say: str | tuple[str, ...]
    when: str = ""
    times: int = 1


class User(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """Who answers the agent; ``ends``: an answer that satisfies them (RE2).

    ``scripted`` says ``lines``; ``model`` is played by the configured model, after a ``goal`` that
    the agent is not told, and one of ``traits``.
    """

    type: Literal["scripted", "model"] = "scripted"
    lines: tuple[Line, ...] = ()
    persona: str = ""
    goal: str = ""
    traits: tuple[str, ...] = ()
    ends: str = ""
    turns_max: int = 8

    def problems(self) -> Iterator[tuple[str, str]]:
        """What is wrong: dotted path and words."""
        if self.type == "scripted" and not self.lines:
            yield "lines", "is empty: a user who never answers is no user"
        if self.type == "scripted" and (self.goal or self.traits):
            yield "type", "is scripted: goal and traits are for a model"
        if self.type == "model" and self.lines:
            yield "lines", "are not for a user whom a model plays"
        if self.type == "model" and not (self.goal and self.persona):
            yield "goal", "and persona are needed: the model knows nothing else"
        if not 2 <= self.turns_max <= TURNS_MAX:
            yield "turnsMax", f"must be from 2 to {TURNS_MAX}"
        yield from _pattern_problems("ends", self.ends)
        for number, line in enumerate(self.lines):
            yield from _pattern_problems(f"lines.{number}.when", line.when)
            if line.times < 1:
                yield f"lines.{number}.times", "must be at least 1"
            if not _wordings(line) or not all(_wordings(line)):
                yield f"lines.{number}.say", "says nothing"


class Turn(Struct, frozen=True, kw_only=True):
    """One turn of a conversation: what the user said, and what the agent answered."""

    user: Any
    agent: Any


def is_over(user: User, turns: Sequence[Turn]) -> bool:
    """Whether the conversation ends here, whatever the user would say."""
    if len(turns) >= user.turns_max:
        return True
    return bool(user.ends) and _fits(user.ends, _text(turns[-1].agent))


def next_said(user: User, turns: Sequence[Turn], *, seed: int) -> str | None:
    """What a scripted user says after these turns; None when they have nothing more to say."""
    if is_over(user, turns):
        return None
    text = _text(turns[-1].agent)
    left = [line.times for line in user.lines]
    for turn in turns[:-1]:
        used = _place(user, left, _text(turn.agent))
        if used is not None:
            left[used] -= 1
    place = _place(user, left, text)
    return None if place is None else _worded(user.lines[place], len(turns), seed)


def _text(answer: Any) -> str:
    return answer if isinstance(answer, str) else str(answer)


def _place(user: User, left: Sequence[int], text: str) -> int | None:
    return next(
        (
            place
            for place, line in enumerate(user.lines)
            if left[place] > 0 and (not line.when or _fits(line.when, text))
        ),
        None,
    )


def _worded(line: Line, turn: int, seed: int) -> str:
    wordings = _wordings(line)
    mac = hmac.digest(str(seed).encode(), f"user|{turn}".encode(), "sha256")
    return wordings[int.from_bytes(mac[:4], "big") % len(wordings)]


def _wordings(line: Line) -> tuple[str, ...]:
    return (line.say,) if isinstance(line.say, str) else line.say


def _fits(text: str, answer: str) -> bool:
    return pattern(text).search(answer) is not None


def _pattern_problems(path: str, text: str) -> Iterator[tuple[str, str]]:
    try:
        if text:
            pattern(text)
    except re2.error as error:
        yield path, f"is no pattern: {error}"
