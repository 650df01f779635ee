"""The open episodes of a served group of twins: who may act in which, and what an operator does to
them.

Rules
1. An episode is named by its signed token alone; when it ends, its token opens nothing, not even a
   later episode of the same name.
2. Each episode has a world of its own; whatever one does, another does not see.
3. Nothing here waits: a call is answered whole before the next is looked at.
4. An episode takes calls until it has ``events_max`` events, and there are at most
   ``episodes_max``: a caller without end takes nobody's memory. One whose token has expired ends
   when another is opened.
"""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from processors.model.twin import TwinEvent
from sidecar.errors import Problem
from sidecar.identity.keys import EpisodeClaims, Unauthenticated, mint_episode, read_episode
from sidecar.twins import timeline
from sidecar.twins.group import LEAKED, GroupEpisode, TwinGroup, void
from sidecar.twins.reply import Call, Reply
from sidecar.twins.serving.wanted import Wanted
from sidecar.twins.world import World

PROJECT = "twin"


class NoSuchEpisode(LookupError):
    """There is no open episode of that name."""


class NotOpened(Exception):
    """An episode that cannot be opened: ``code``, and what is wrong."""

    def __init__(self, code: str, detail: str, problems: Sequence[Problem] = ()) -> None:
        self.code = code
        self.detail = detail
        self.problems = tuple(problems)
        super().__init__(detail)


class Full(Exception):
    """The episode takes no more calls."""


class Limits(Struct, frozen=True, kw_only=True):
    """How much is kept in memory."""

    episodes_max: int = 1000
    events_max: int = 100_000


class Seat(Struct, frozen=True, kw_only=True):
    """An open episode: its name for people, its id in tokens, who acts in it."""

    name: str
    id: str
    agent: str
    episode: GroupEpisode
    opened_at_ns: int
    expires_at_ns: int


class Outcome(Struct, frozen=True, kw_only=True):
    """What came of one call: the answer, and why nothing may be concluded from it (a gap of this
    very call), None where something may.
    """

    reply: Reply
    void: str | None


class Hall:
    """Opens, serves and ends episodes. ``key`` signs tokens; ids and times are arguments."""

    def __init__(
        self,
        group: TwinGroup,
        key: bytes,
        *,
        new_id: Callable[[], str],
        limits: Limits = Limits(),  # noqa: B008 - frozen
    ) -> None:
        self.group = group
        self._key = key
        self._new_id = new_id
        self._limits = limits
        self._seats: dict[str, Seat] = {}
        self._names: dict[str, str] = {}

    def open(self, wanted: Wanted, now_ns: int) -> tuple[Seat, str]:
        """Open an episode; its seat and its token. Raises NotOpened."""
        problems = list(wanted.problems(self.group))
        if problems:
            raise NotOpened("episode_invalid", "; ".join(map(_told, problems)), problems)
        for seat in [one for one in self._seats.values() if one.expires_at_ns <= now_ns]:
            self.end(seat.name, now_ns, settle=False)
        if wanted.name in self._names:
            raise NotOpened("episode_exists", f"there is an open episode {wanted.name!r}")
        if len(self._seats) >= self._limits.episodes_max:
            raise NotOpened("episodes_full", f"{len(self._seats)} episodes are open; close some")
        identity = self._new_id()
        episode = GroupEpisode(self.group, self._worlds(), wanted.setting)
        episode.begin(wanted.beginning)
        seat = Seat(
            name=wanted.name or identity,
            id=identity,
            agent=wanted.agent,
            episode=episode,
            opened_at_ns=now_ns,
            expires_at_ns=now_ns + wanted.life_ns,
        )
        self._seats[identity] = seat
        self._names[seat.name] = identity
        claims = EpisodeClaims(
            episode=identity, project=PROJECT, agent=seat.agent, expires_at_ns=seat.expires_at_ns
        )
        return seat, mint_episode(claims, key=self._key)

    def of_token(self, token: str, now_ns: int) -> Seat:
        """Whose seat a token is of. Raises Unauthenticated."""
        claims = read_episode(token, key=self._key, now_ns=now_ns)
        seat = self._seats.get(claims.episode)
        if seat is None:
            raise Unauthenticated("the episode has ended")
        return seat

    @property
    def names(self) -> list[str]:
        """The open episodes, in the order they were opened."""
        return list(self._names)

    def seat(self, name: str) -> Seat:
        """The open episode of that name. Raises NoSuchEpisode."""
        try:
            return self._seats[self._names[name]]
        except KeyError:
            raise NoSuchEpisode(name) from None

    def call(self, seat: Seat, call: Call) -> Outcome:
        """One call in an episode. Raises Full."""
        return self._answered(seat, lambda: seat.episode.call(call))

    def gap(self, seat: Seat, what: str, detail: str) -> Outcome:
        """Something no twin declares was asked for: 501, and the episode is void. Raises Full."""
        return self._answered(seat, lambda: seat.episode.gap(what, detail))

    def end(self, name: str, now_ns: int, *, settle: bool) -> dict[str, Any]:
        """End an episode: with ``settle`` what is still on its way happens first; then what came of
        it, after which everything is taken back. Raises NoSuchEpisode.
        """
        seat = self.seat(name)
        if settle:
            seat.episode.finish()
        shown = shown_end(seat, now_ns)
        del self._seats[seat.id], self._names[name]
        clean = seat.episode.close()
        return {**shown, "clean": clean, "void": shown["void"] if clean else LEAKED}

    def _worlds(self) -> dict[str, World]:
        """A new world of each twin. Code may edit a row in place, which no journal takes back: it
        has rows of its own to do that to.
        """
        worlds = self.group.open()
        for name, world in worlds.items():
            if self.group.twins[name].code is not None:
                for table in world.tables.values():
                    table.update(msgspec.json.decode(msgspec.json.encode(table)))
        return worlds

    def _answered(self, seat: Seat, answer: Callable[[], Reply]) -> Outcome:
        events = seat.episode.events
        if len(events) >= self._limits.events_max:
            raise Full
        before = len(events)
        reply = answer()
        fresh = events[before:] if reply.status == 501 else []
        return Outcome(reply=reply, void=void(fresh))


def shown_seat(seat: Seat) -> dict[str, Any]:
    """An episode as an operator sees it."""
    episode = seat.episode
    any_world = next(iter(episode.episodes.values())).world
    return {
        "episode": seat.name,
        "agent": seat.agent,
        "opened_at": timeline.text(seat.opened_at_ns),
        "expires_at": timeline.text(seat.expires_at_ns),
        "now": timeline.text(episode.now_ns),
        "paused": any_world.timeline.paused,
        "timers": len(any_world.timeline.pending()),
        "events": len(episode.events),
        "void": void(episode.events),
    }


def shown_end(seat: Seat, now_ns: int) -> dict[str, Any]:
    """An episode with what differs from its start, the twins it ran on, and whose state they have
    (``TwinGroup.state_of``).
    """
    changes = msgspec.to_builtins(seat.episode.changes())
    twins = {
        twin.name: {"version": twin.declaration.version, "digest": twin.digest()}
        for twin in seat.episode.group.twins.values()
    }
    state = seat.episode.group.state_of(now_ns)
    return {**shown_seat(seat), "changes": changes, "twins": twins, "twin_state": state}


def shown_events(events: Sequence[TwinEvent], after: int, most: int) -> dict[str, Any]:
    """Events from a number on, and where the next begin (None: there are no more now)."""
    some = events[after : after + most]
    further = after + len(some)
    return {
        "events": msgspec.to_builtins(some),
        "next": further if further < len(events) else None,
    }


def _told(problem: Problem) -> str:
    return f"{problem.path} {problem.text}"
