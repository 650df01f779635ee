"""What an agent did, whatever the order in which things at the same time came to be written.

**Rules**
1. An event without ``cause`` comes after everything its agent did before; one with causes comes
   after those and nothing else. Any order that keeps this is the same behaviour.
2. An event is known by what it is (kind, seam, name or site, projected input, status) and by what
   it comes after, all the way back: a Merkle digest. Numbers (``seq``, ``lam``, ``ord``) are not
   in it.
3. An identifier is called by where it was minted, the event and the place in its output, wherever
   it is used later; of several places the one least by digest among those that come before the use.
"""

import hashlib
import re
from collections.abc import Mapping
from typing import Any, Final

from sidecar.canonical import canonical
from sidecar.tape.model import Event

_DOMAIN: Final = b"agenttwin-tape-behavior/1\n"
_LETTER: Final = "[A-Za-z0-9]"
IDS_MAX: Final = 4096
_WALK_MAX: Final = 10_000
_ID_MIN: Final = 3
_ID_MAX: Final = 512


class _Lane:
    """One agent: its events since its last barrier, and all it did."""

    def __init__(self) -> None:
        self.frontier: list[int] = []
        self.done: list[tuple[int, bytes]] = []


class Behaviour:
    """Fed event by event; ``digest`` is of what it was fed so far."""

    def __init__(self, codecs: Mapping[str, str]) -> None:
        self._codecs = dict(codecs)
        self._lanes: dict[str, _Lane] = {}
        self._known: list[bytes] = []
        self._depths: list[int] = []
        self._agents: list[str] = []
        self._barriers: list[bool] = []
        self._before: list[tuple[int, ...]] = []
        self._minted: dict[str, list[tuple[bytes, str, int]]] = {}
        self._wanted: re.Pattern[str] | None = None

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
        known = hashlib.sha256(
            _DOMAIN
            + hashlib.sha256(label).digest()
            + b"".join(sorted(self._known[seq] for seq in before))
        ).digest()
        if not event.cause:
            lane.frontier.clear()
        lane.frontier.append(len(self._known))
        lane.done.append((depth, known))
        self._known.append(known)
        self._depths.append(depth)
        self._agents.append(event.agent)
        self._barriers.append(not event.cause)
        self._before.append(before)

    def mint(self, place: str, value: Any) -> None:
        """An output of the event added last holds an identifier at ``place``."""
        text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
        if not isinstance(text, str) or not _ID_MIN <= len(text) <= _ID_MAX:
            return
        if text not in self._minted and len(self._minted) >= IDS_MAX:
            return
        seq = len(self._known) - 1
        self._minted.setdefault(text, []).append((self._known[seq], place, seq))
        self._wanted = None

    def mapped(self, value: Any, agent: str, cause: tuple[int, ...]) -> Any:
        """The next event's projected input, with identifiers called by where they were minted."""
        if not self._minted:
            return value
        if self._wanted is None:
            words = "|".join(map(re.escape, sorted(self._minted, key=len, reverse=True)))
            self._wanted = re.compile(f"(?<!{_LETTER})(?:{words})(?!{_LETTER})")
        return self._renamed(value, agent, cause)

    def digest(self) -> str:
        """``sha256:<hex>`` of what all agents did."""
        lanes = {
            agent: [known.hex() for _, known in sorted(lane.done)]
            for agent, lane in self._lanes.items()
        }
        text = canonical({"codecs": self._codecs, "agents": lanes})
        return "sha256:" + hashlib.sha256(_DOMAIN + text).hexdigest()

    def _renamed(self, value: Any, agent: str, cause: tuple[int, ...]) -> Any:
        if isinstance(value, str):
            assert self._wanted is not None
            return self._wanted.sub(lambda found: self._name(found[0], agent, cause), value)
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
        if not cause and self._agents[seq] == agent:
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
            if self._barriers[one] and self._agents[one] == self._agents[seq]:
                return True
            ahead.extend(self._before[one])
        return False
