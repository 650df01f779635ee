"""Which recorded answer a call gets: by tool and arguments, each answer once, and no other.

Rules
1. Recorded calls are used up in order: the first unused one with these arguments answers. What was
   recorded twice answers twice; a third time is a miss.
2. An identifier the agent itself made (a request id, a moment) is another one in each run. It
   stands for the recorded one where the recording minted it there too, one for one, from then on:
   in later calls, and in what the tape answers.
3. Numbers and texts that are spelt alike (``7``, ``"7"``) are equal: a path says all as text.
4. A miss tells the nearest recorded call and where it differs; it never answers.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

_ID = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
    r"|[0-9A-HJKMNP-TV-Z]{26}|[0-9a-f]{16,64}"
    r"|\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:\d\d)?"
    r"|(?=[A-Za-z0-9_-]*\d)(?=[A-Za-z0-9_-]*[A-Za-z])[A-Za-z0-9_-]{16,128}",
    re.IGNORECASE,
)
_SHOWN = 80


class Answer(Struct, frozen=True, kw_only=True):
    """One recorded call: ``minted`` are identifiers in its arguments that nothing before it told
    the agent. ``kept``: whether its result was."""

    tool: str
    arguments: dict[str, Any]
    result: Any = None
    status: int = 200
    minted: tuple[str, ...] = ()
    kept: bool = True


class Found(Struct, frozen=True, kw_only=True):
    """The answer's place, and the identifiers as they are now called, by recorded identifier."""

    place: int
    names: dict[str, str]


class Miss(Struct, frozen=True, kw_only=True):
    """No answer is left; ``detail`` says which was nearest."""

    detail: str


def minted(arguments: Any, told: str) -> tuple[str, ...]:
    """Identifiers in arguments that do not stand in what the agent was told before."""
    return tuple(
        dict.fromkeys(
            text
            for _, text in leaves(arguments)
            if isinstance(text, str) and _ID.fullmatch(text) and text not in told
        )
    )


def look_up(
    answers: Sequence[Answer],
    used: Sequence[int],
    names: Mapping[str, str],
    tool: str,
    arguments: Mapping[str, Any],
) -> Found | Miss:
    """The answer that this call gets. ``used`` are the places that have answered, ``names`` what
    recorded identifiers are called now."""
    own = [place for place, one in enumerate(answers) if one.tool == tool]
    free = [place for place in own if place not in used]
    for place in free:
        if not _differences(answers[place], arguments, names):
            return Found(place=place, names=dict(names))
    for place in free:
        called = _renamed(answers[place], arguments, names)
        if called is not None:
            return Found(place=place, names=called)
    return Miss(detail=_missed(answers, own, free, names, tool, arguments))


def told_now(value: Any, names: Mapping[str, str]) -> Any:
    """A recorded value with its identifiers called as they are now."""
    if not names:
        return value
    if isinstance(value, dict):
        return {name: told_now(one, names) for name, one in value.items()}
    if isinstance(value, list):
        return [told_now(one, names) for one in value]
    if not isinstance(value, str):
        return value
    return names[value] if value in names else _words(names).sub(lambda m: names[m[0]], value)


def leaves(value: Any, pointer: str = "") -> Iterator[tuple[str, Any]]:
    """Every value that holds no other, with its JSON Pointer; empty containers among them."""
    pairs: Iterator[tuple[str, Any]] = iter(())
    if isinstance(value, dict) and value:
        pairs = ((str(name), one) for name, one in value.items())
    elif isinstance(value, list) and value:
        pairs = ((str(place), one) for place, one in enumerate(value))
    else:
        yield pointer, value
    for name, one in pairs:
        yield from leaves(one, f"{pointer}/{name.replace('~', '~0').replace('/', '~1')}")


def _differences(
    answer: Answer, arguments: Mapping[str, Any], names: Mapping[str, str]
) -> list[tuple[str, Any, Any]]:
    """Where a call differs from a recorded one: pointer, recorded (as it is called now), asked."""
    before = dict(leaves(told_now(answer.arguments, names)))
    now = dict(leaves(dict(arguments)))
    return [
        (pointer, before.get(pointer), now.get(pointer))
        for pointer in sorted({*before, *now})
        if pointer not in before or pointer not in now or not _alike(before[pointer], now[pointer])
    ]


def _renamed(
    answer: Answer, arguments: Mapping[str, Any], names: Mapping[str, str]
) -> dict[str, str] | None:
    """The names, should the call differ from a recorded one in identifiers of its own alone."""
    called = dict(names)
    for _, before, now in _differences(answer, arguments, names):
        ours = isinstance(before, str) and before in answer.minted and before not in called
        theirs = isinstance(now, str) and _ID.fullmatch(now) and now not in called.values()
        if not ours or not theirs:
            return None
        called[before] = now
    return None if _differences(answer, arguments, called) else called


def _alike(one: Any, other: Any) -> bool:
    if isinstance(one, bool) or isinstance(other, bool) or one is None or other is None:
        return one is other
    if isinstance(one, dict | list) or isinstance(other, dict | list):
        return bool(one == other)
    return bool(one == other) or str(one) == str(other)


def _words(names: Mapping[str, str]) -> re.Pattern[str]:
    some = "|".join(re.escape(one) for one in sorted(names, key=len, reverse=True))
    return re.compile(rf"(?<![0-9A-Za-z_-])(?:{some})(?![0-9A-Za-z_-])")


def _missed(
    answers: Sequence[Answer],
    own: Sequence[int],
    free: Sequence[int],
    names: Mapping[str, str],
    tool: str,
    arguments: Mapping[str, Any],
) -> str:
    asked = f"{tool}({_shown(arguments)})"
    if not own:
        return f"the recording has no call of {tool}"
    again = [place for place in own if not _differences(answers[place], arguments, names)]
    if again:
        times = "once" if len(again) == 1 else f"{len(again)} times"
        return f"{asked} was recorded {times}, and is asked for once more"
    near = min(free or own, key=lambda place: len(_differences(answers[place], arguments, names)))
    differing = _differences(answers[near], arguments, names)
    where = ", ".join(pointer or "/" for pointer, _, _ in differing[:3])
    return (
        f"{asked} was not recorded; nearest is call {near + 1} of the recording,"
        f" {tool}({_shown(answers[near].arguments)}), other at {where}"
    )


def _shown(arguments: Mapping[str, Any]) -> str:
    text = ", ".join(f"{name}={value!r}" for name, value in arguments.items())
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
