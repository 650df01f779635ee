"""Strict replay where call sites may have moved: for a bisection, in which a refactor is no answer.

**Rules**
1. A crossing at a site that the tape does not know is taken to be at a recorded one: that of the
   same agent, kind, seam and name which this run did not come to yet and which the tape came to
   first. What it asks is compared there as ever.
2. Where there are several such sites and it then drifts, or where there is none and what it asks
   stands unasked elsewhere, it cannot be told what moved where: INCOMPARABLE, and no verdict.
3. One live site stands for one recorded site, so each is counted as before. Where the run comes to
   that one too, the other was an extra call.
"""

from msgspec.structs import replace

from sidecar.capture.play import Asked, Drift, Live, Played, StrictPlayer
from sidecar.tape.codec import Codecs
from sidecar.tape.model import Event
from sidecar.tape.redaction import Redacts
from sidecar.tape.tape import Tape

_Words = tuple[str, str, str | None, str]  # agent, kind, seam, name
_Place = tuple[str, str, str | None, str]  # agent, kind, seam, site


class MovedPlayer(StrictPlayer):
    """Mode strict, that finds again what was moved."""

    def __init__(self, tape: Tape, redactor: Redacts, codecs: Codecs) -> None:
        super().__init__(tape, redactor, codecs)
        self._recorded: dict[_Words, list[str]] = {}
        self._known: set[_Place] = set()
        for event in tape.events:
            sites = self._recorded.setdefault(_words(event), [])
            if event.site and event.site not in sites:
                sites.append(event.site)
            self._known.add(_place(event, event.site))
        self._taken: set[_Place] = set()
        self._stood_in: set[_Place] = set()  # recorded places that others stand for
        self._sites: dict[_Place, str] = {}
        self._guessed: set[_Place] = set()

    def decide(self, asked: Asked) -> Played | Live | Drift:
        """Played, a drift, or a drift that says nothing because something moved."""
        place = _place(asked, asked.site)
        if place in self._stood_in:
            return self.drift(asked, None)  # whoever stood in for it was one call too many
        told = self._told(asked, place)
        found = super().decide(told)
        if not isinstance(found, Drift) or place in self._known:
            return found
        unsure = place in self._guessed if place in self._sites else self._elsewhere(told)
        if not unsure:
            return found
        return replace(
            found,
            kind="INCOMPARABLE",
            reason="MOVED: a call site moved, and what moved where cannot be told",
        )

    def _told(self, asked: Asked, place: _Place) -> Asked:
        """The crossing at the recorded site that it stands for."""
        if not asked.site or place in self._known:
            self._taken.add(place)
            return asked
        site = self._sites.get(place)
        if site is None:
            recorded = self._recorded.get(_words(asked), ())
            free = [one for one in recorded if _place(asked, one) not in self._taken]
            if not free:
                return asked
            site = self._sites[place] = free[0]
            self._taken.add(_place(asked, site))
            self._stood_in.add(_place(asked, site))
            if len(free) > 1:
                self._guessed.add(place)
        return replace(asked, site=site)

    def _elsewhere(self, asked: Asked) -> bool:
        """Whether what is asked stands unasked at a recorded site."""
        return any(
            _words(event) == _words(asked) and self.is_asked(asked, event)
            for event in self.cursor.left
        )


def _words(of: Asked | Event) -> _Words:
    return of.agent, of.kind, of.seam, of.name


def _place(of: Asked | Event, site: str) -> _Place:
    return of.agent, of.kind, of.seam, site
