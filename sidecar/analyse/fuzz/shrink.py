"""The least genome that still fails so: typed delta debugging (Zeller and Hildebrandt, 2002).

Rules
1. Faults go first, then turns, rows, other surroundings, other agents; switches last, so that the
   fewest preemptions are left: several are also tried as one; then what stays is made simpler.
2. A genome counts only where the same signature shows in at least ``least`` of ``times`` runs.
3. At most ``replays_max`` runs; what was reached by then is the result, and says so.
"""

from collections.abc import Callable

from msgspec import Struct, structs

from sidecar.analyse.fuzz.mutations import (
    AnyMutation,
    Asks,
    Faulted,
    FlagSet,
    Forbidden,
    Forgot,
    Genome,
    Injected,
    Joined,
    Reseeded,
    RowAdded,
    RowChanged,
    RowGone,
    Speaks,
    Starts,
    Switched,
)

REPLAYS_MAX = 200
SWITCH_PLACES_MAX = 40
Kinds = tuple[type[AnyMutation], ...]
_ORDER: tuple[Kinds, ...] = (
    (Faulted,),
    (Asks, Forgot, Speaks),
    (RowAdded, RowGone, RowChanged, FlagSet),
    (Injected, Starts, Forbidden, Reseeded),
    (Joined,),
    (Switched,),
)


class Shrunk(Struct, frozen=True, kw_only=True):
    """``genome`` is 1-minimal where ``whole``: nothing of it can be left out."""

    genome: Genome
    replays: int
    whole: bool


class _Spent(Exception):
    """No run is left."""


class _Shrinker:
    def __init__(
        self, genome: Genome, fails: Callable[[Genome], bool], *, times: int, replays_max: int
    ) -> None:
        self.best = genome
        self.replays = 0
        self._fails = fails
        self._times = times
        self._most = replays_max
        self._known: dict[str, bool] = {}

    def shrink(self) -> None:
        """Until nothing more can go. Raises _Spent."""
        before: Genome | None = None
        while before != self.best:
            before = self.best
            for kinds in _ORDER:
                self._without(kinds)
            self._one_switch()
            self._simpler()

    def _without(self, kinds: Kinds) -> None:
        size = len(self.best)
        while size >= 1:
            own = [place for place, one in enumerate(self.best) if isinstance(one, kinds)]
            for start in range(0, len(own), size):
                gone = set(own[start : start + size])
                if self._take(tuple(x for n, x in enumerate(self.best) if n not in gone)):
                    break
            else:
                size //= 2

    def _one_switch(self) -> None:
        """One preemption in place of several, wherever it may be."""
        switches = [one for one in self.best if isinstance(one, Switched)]
        if len(switches) < 2:
            return
        others = tuple(one for one in self.best if not isinstance(one, Switched))
        last = max(one.switch.after for one in switches)
        for after in range(min(last, SWITCH_PLACES_MAX) + 1):
            for run in dict.fromkeys(one.switch.run for one in switches):
                switch = structs.replace(switches[0].switch, after=after, run=run)
                if self._take((*others, structs.replace(switches[0], switch=switch))):
                    return

    def _simpler(self) -> None:
        for place in range(len(self.best)):
            for form in self.best[place].simpler():
                if self._take((*self.best[:place], form, *self.best[place + 1 :])):
                    break

    def _take(self, genome: Genome) -> bool:
        """Go on from the genome, where it still fails so."""
        told = str(genome)
        if told not in self._known:
            if self.replays + self._times > self._most:
                raise _Spent
            self.replays += self._times
            self._known[told] = self._fails(genome)
        if self._known[told]:
            self.best = genome
        return self._known[told]


def shrink(
    genome: Genome,
    fails: Callable[[Genome], bool],
    *,
    times: int = 1,
    replays_max: int = REPLAYS_MAX,
) -> Shrunk:
    """Shrink a failing genome; one question costs ``times`` runs."""
    shrinker = _Shrinker(genome, fails, times=times, replays_max=replays_max)
    try:
        shrinker.shrink()
    except _Spent:
        return Shrunk(genome=shrinker.best, replays=shrinker.replays, whole=False)
    return Shrunk(genome=shrinker.best, replays=shrinker.replays, whole=True)
