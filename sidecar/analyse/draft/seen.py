"""Recorded calls as drafting reads them: what was asked, what came back, and what nobody knows.

Rules
1. An answer that is the text of a JSON object or list is that object or list.
2. A text in which redaction left a mask says nothing about equality: two masks may stand for two
   values. A token (``tok:…``, ``hmac:…``) stands for one value and is compared as it is.
3. Calls that a gateway kept out, or answered itself, never reached the service and tell nothing.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec
from msgspec import Struct

from sidecar.evaluate.matching import same
from sidecar.replay.import_tape import parsed
from sidecar.replay.taped import TapedCall, TapedRun

_MASK = re.compile(r"\[(?:[a-z_]{1,32}|unreadable JSON)\]")


Reached = Literal["ok", "refused", "unknown"]


class Seen(Struct, frozen=True, kw_only=True):
    """One call that reached the service: ``run`` and ``at`` place it, ``answer`` is what came back.

    ``known``: its answer was kept, and it is certain whether the call had its effect.
    """

    run: int
    at: int
    tool: str
    arguments: dict[str, Any]
    answer: Any
    ended: Reached
    status: int | None
    took_ns: int | None

    @property
    def known(self) -> bool:
        """Whether something may be learnt from it."""
        return self.ended != "unknown" and self.answer is not None

    @property
    def asked(self) -> str:
        """The arguments as one text, whatever their order."""
        return spelled(self.arguments)


def seen(runs: Sequence[TapedRun]) -> list[list[Seen]]:
    """The calls of each run, in order."""
    return [list(_calls(number, run)) for number, run in enumerate(runs)]


def spelled(value: Any) -> str:
    """A JSON-like value as one text; equal numbers have one spelling."""
    return msgspec.json.encode(_plain(value), order="sorted").decode()


def is_masked(value: Any) -> bool:
    """Whether redaction left a mask anywhere in the value."""
    if isinstance(value, str):
        return _MASK.search(value) is not None
    if isinstance(value, Mapping):
        return any(is_masked(name) or is_masked(item) for name, item in value.items())
    return isinstance(value, list) and any(map(is_masked, value))


def equal(left: Any, right: Any) -> bool:
    """Whether two values are known to be equal: a mask is equal to nothing."""
    return same(left, right) and not is_masked(left)


def leaves(value: Any, at: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The scalars of a value with their paths; ``*`` is a place in a list."""
    if isinstance(value, Mapping):
        for name, item in value.items():
            yield from leaves(item, (*at, str(name)))
    elif isinstance(value, list):
        for item in value:
            yield from leaves(item, (*at, "*"))
    else:
        yield at, value


def names_something(value: Any) -> bool:
    """Whether a scalar may be the name of a thing: text without blanks, or a whole number."""
    if isinstance(value, str):
        return 0 < len(value) <= 200 and not any(map(str.isspace, value)) and not is_masked(value)
    return isinstance(value, int) and not isinstance(value, bool)


def _calls(number: int, run: TapedRun) -> Iterator[Seen]:
    for at, call in enumerate(run.calls):
        if call.ended != "kept_out" and not call.repeated:
            yield _seen(number, at, call, call.ended)


def _seen(number: int, at: int, call: TapedCall, ended: Reached) -> Seen:
    readable = isinstance(call.arguments, Mapping)
    return Seen(
        run=number,
        at=at,
        tool=call.tool,
        arguments=dict(call.arguments) if readable else {},
        answer=parsed(call.result),
        # Of a call whose arguments were not kept it is known only that there was one.
        ended=ended if readable else "unknown",
        status=call.http_status,
        took_ns=call.took_ns,
    )


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value
