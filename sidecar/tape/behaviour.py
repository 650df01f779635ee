"""What an agent did, whatever the order in which things at the same time came to be written.

**Rules**
1. An event without ``cause`` comes after everything its agent did before; one with causes comes
   after those and nothing else. Any order that keeps this is the same behaviour.
2. An event is known by what it is (kind, seam, name or site, projected input, status) and by what
   it comes after, all the way back: a Merkle digest. Numbers (``seq``, ``lam``, ``ord``) are not
   in it.
3. An identifier is called by where it was minted, the event and the place in its output, wherever
   it is used later; of several places the one least by digest among those that come before the use.
   In a text it begins and ends with a letter or digit and has at most 16 runs of them. The first
   4096 of a tape count.
"""

import hashlib
import re
from array import array
from collections.abc import Mapping
from itertools import islice
from typing import Any, Final

from msgspec import Struct

from sidecar.canonical import canonical
from sidecar.tape.model import Event

_DOMAIN: Final = b"agenttwin-tape-behavior/1\n"
_PIECE: Final = re.compile(r"[^\W_]+")
PIECES_MAX: Final = 16
IDS_MAX: Final = 4096
_WALK_MAX: Final = 10_000
_ID_MIN: Final = 3
_ID_MAX: Final = 512


class _Lane:
    """One agent: its events since its last barrier, and all it did."""

    def __init__(self) -> None:
        self.frontier: list[int] = []
        self.done = array("q")


class _Past(Struct, frozen=True, gc=False):
    """What must be known of an event to tell what comes before it."""

    agent: str
    barrier: bool
    before: tuple[int, ...]


class Behaviour:
    """Fed event by event; ``digest`` is of what it was fed so far."""

    def __init__(self, codecs: Mapping[str, str]) -> None:
        self._codecs = dict(codecs)
        self._lanes: dict[str, _Lane] = {}
        self._known = bytearray()
        self._depths = array("q")
        self._last: _Past | None = None
        self._first = 0
        self._pasts: list[_Past] = []  # from the first event on that minted something
        self._minted: dict[str, list[tuple[bytes, str, int]]] = {}
        self._pieces_max = 0

    def add(self, event: Event) -> None:
        """One more event; ``seq`` counts from 0 and causes are earlier ones."""
        lane = self._lanes.setdefault(event.agent, _Lane())
        before = event.cause or tuple(lane.frontier)
        depth = 1 + max((self._depths[seq] for seq in before), default=0)
        label = canonical(
            [
                event.kind,
                event.seam,
                event.name or event.site,
                event.in_b or event.in_n or event.in_,
                event.st,
            ]
        )
        known = hashlib.sha256(_DOMAIN + hashlib.sha256(label).digest())
        for one in sorted(map(self._digest, before)):
            known.update(one)
        seq = len(self._depths)
        if not event.cause:
            lane.frontier.clear()
        lane.frontier.append(seq)
        lane.done.append(seq)
        self._known += known.digest()
        self._depths.append(depth)
        self._last = _Past(event.agent, not event.cause, before)
        if self._minted:
            self._pasts.append(self._last)

    def mint(self, place: str, value: Any) -> None:
        """An output of the event added last holds an identifier at ``place``."""
        text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
        if not isinstance(text, str) or not _ID_MIN <= len(text) <= _ID_MAX:
            return
        if text not in self._minted and len(self._minted) >= IDS_MAX:
            return
        seq = len(self._depths) - 1
        if not self._minted:
            assert self._last is not None
            self._first, self._pasts = seq, [self._last]
        self._minted.setdefault(text, []).append((self._digest(seq), place, seq))
        pieces = sum(1 for _ in islice(_PIECE.finditer(text), PIECES_MAX))
        self._pieces_max = max(self._pieces_max, pieces)

    def mapped(self, value: Any, agent: str, cause: tuple[int, ...]) -> Any:
        """The next event's projected input, with identifiers called by where they were minted."""
        if not self._minted:
            return value
        return self._renamed(value, agent, cause)

    def digest(self) -> str:
        """``sha256:<hex>`` of what all agents did."""
        found = hashlib.sha256(_DOMAIN + canonical(self._codecs) + b"\n")
        for agent in sorted(self._lanes):
            done = self._lanes[agent].done
            found.update(canonical([agent, len(done)]) + b"\n")
            keys = [self._depths[seq].to_bytes(8, "big") + self._digest(seq) for seq in done]
            keys.sort()
            for key in keys:
                found.update(key[8:])
        return f"sha256:{found.hexdigest()}"

    def _digest(self, seq: int) -> bytes:
        return bytes(self._known[32 * seq : 32 * seq + 32])

    def _renamed(self, value: Any, agent: str, cause: tuple[int, ...]) -> Any:
        if isinstance(value, str):
            return self._text(value, agent, cause)
        if isinstance(value, int) and not isinstance(value, bool):
            name = self._name(str(value), agent, cause)
            return value if name == str(value) else name
        if isinstance(value, list):
            return [self._renamed(item, agent, cause) for item in value]
        if isinstance(value, dict):
            return {
                self._renamed(key, agent, cause): self._renamed(item, agent, cause)
                for key, item in value.items()
            }
        return value

    def _text(self, text: str, agent: str, cause: tuple[int, ...]) -> str:
        """A text that is an identifier, or with those that stand in it as words; longest first."""
        if text in self._minted:
            return self._name(text, agent, cause)
        pieces = [found.span() for found in _PIECE.finditer(text)]
        parts: list[str] = []
        place = first = 0
        while first < len(pieces):
            start = pieces[first][0]
            for last in range(min(first + self._pieces_max, len(pieces)) - 1, first - 1, -1):
                word = text[start : pieces[last][1]]
                if word in self._minted:
                    parts += (text[place:start], self._name(word, agent, cause))
                    place, first = pieces[last][1], last
                    break
            first += 1
        return "".join((*parts, text[place:])) if parts else text

    def _name(self, text: str, agent: str, cause: tuple[int, ...]) -> str:
        places = [
            (known, place)
            for known, place, seq in self._minted.get(text, ())
            if self._precedes(seq, agent, cause)
        ]
        if not places:
            return text
        known, place = min(places)
        return "id:" + hashlib.sha256(known + place.encode()).hexdigest()[:16]

    def _precedes(self, seq: int, agent: str, cause: tuple[int, ...]) -> bool:
        """Whether an event comes before the next one of an agent with these causes."""
        minter = self._pasts[seq - self._first].agent
        if not cause and minter == agent:
            return True
        lane = self._lanes.get(agent)
        ahead = list(cause) or list(lane.frontier if lane else ())
        seen: set[int] = set()
        while ahead and len(seen) < _WALK_MAX:
            one = ahead.pop()
            if one == seq:
                return True
            if one < seq or one in seen:
                continue
            seen.add(one)
            past = self._pasts[one - self._first]
            if past.barrier and past.agent == minter:
                return True
            ahead.extend(past.before)
        return False
