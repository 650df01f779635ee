"""A failure's signature: the same for the same failure, in whichever run and on whichever day.

**Rules**
1. In it: the agent, the rule, the kinds of drift, the offending event's kind, tool and status, and
   where payloads differ.
2. Not in it: seq, times, digests and values, which differ from run to run; a number in a place
   stands for any number.
"""

from collections.abc import Iterable
from typing import Final

from sidecar.canonical import NotCanonical, digest
from sidecar.tape.model import Event

DOMAIN: Final = "agenttwin-failure/1"


def signature(
    rule: str,
    *,
    agent: str = "",
    event: Event | None = None,
    drift: Iterable[str] = (),
    pointers: Iterable[str] = (),
) -> str:
    """32 hex digits."""
    places = sorted({_anywhere(one) for one in pointers})
    what = [] if event is None else [event.kind, event.name, event.st]
    value = [rule, agent, what, sorted(drift), places]
    try:
        made = digest(value, domain=DOMAIN)
    except NotCanonical:  # a lone surrogate; its escape does as well
        made = digest(ascii(value), domain=DOMAIN)
    return made.removeprefix("sha256:")[:32]


def _anywhere(pointer: str) -> str:
    return "/".join("*" if one.isdecimal() else one for one in pointer.split("/"))
