"""How likely a rare failure is: importance sampling over the probabilities that faults declare.

**Rules**
1. Episodes are drawn with faults more likely than declared, and each weighs by the exact ratio of
   both likelihoods: the mean of the weights of those that fail is unbiased for the probability.
2. One episode in ten is drawn as declared, three with every fault alike likely, the others as was
   learned; the weight is that of the whole mixture. So no weight is above ten, however unlikely the
   episode was (defensive mixture, Hesterberg 1995), and what was learned of the commonest failure
   does not hide a rarer one.
3. How much likelier faults are made is learned in pilot rounds (cross-entropy, Rubinstein 1999);
   no pilot episode is part of the estimate.
4. A draw counts wherever a call was made that the rule may strike, whether or not it was looked at:
   those that were not have ratios of mean one and change no expectation.
5. An episode of which nothing can be concluded fails and passes nothing; its share is told.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import exp, log, sqrt
from typing import Final, Literal

from msgspec import Struct

AS_DECLARED: Final = 0.1
"""The share of episodes that are drawn as declared; no weight is above its inverse."""
_BROAD: Final = 0.3
_START, _LEAST, _MOST = 0.25, 0.02, 0.8
_ROUNDS: Final = 3
_PILOT: Final = 0.1
_FAILURES_LEAST: Final = 20
_WORTH_LEAST: Final = 10.0
Method = Literal["log-t", "bound"]
Probabilities = Mapping[str, float]
Part = tuple[float, Probabilities]


class Drawn(Struct, frozen=True, kw_only=True):
    """One episode: each draw of a rule with whether it fired, and what came of it.

    ``failure`` names what failed, None where nothing did; ``void``: nothing can be concluded.
    """

    draws: tuple[tuple[str, bool], ...]
    failure: str | None = None
    void: bool = False


Simulate = Callable[[Probabilities, int], Drawn]
"""The episode of a number, with these probabilities of the rules in place of those declared."""


class Tilt(Struct, frozen=True, kw_only=True):
    """A rule's probability as declared, and as it was drawn."""

    rule: str
    declared: float
    drawn: float


class Failure(Struct, frozen=True, kw_only=True):
    """One kind of failure, its share of the probability, and in how many episodes it was met."""

    name: str
    probability: float
    episodes: int


class Estimate(Struct, frozen=True, kw_only=True):
    """``probability`` of a failure in an episode as declared, with a 95 % interval.

    ``method``: ``log-t`` Student's on the logarithm, ``bound`` where too few failed for it: exact
    for their number, times the largest weight. ``worth``: how many failing episodes as declared the
    failing ones are worth; ``plain``: how many episodes as declared would tell as much.
    """

    probability: float
    lower: float
    upper: float
    method: Method
    episodes: int
    pilot: int
    failed: int
    worth: float
    plain: float
    void: float
    tilts: tuple[Tilt, ...]
    failures: tuple[Failure, ...]


def estimate(
    simulate: Simulate, declared: Probabilities, *, episodes: int, chance: Callable[[int], float]
) -> Estimate:
    """The probability of a failure. ``episodes`` are all that may be run, the pilot's included.

    ``chance(n)`` is the n-th of independent draws in [0, 1) that choose the mixture's part;
    ``simulate`` is asked for each number once.
    """
    each = max(1, int(episodes * _PILOT))
    broad = {rule: max(p, _START) for rule, p in declared.items()}
    tilted: Probabilities = broad
    number = 0
    for _ in range(_ROUNDS):
        made = []
        for _ in range(each):
            made.append(simulate(tilted, number))
            number += 1
        tilted = _learned(made, declared, tilted)
    parts: tuple[Part, ...] = (
        (AS_DECLARED, declared),
        (_BROAD, broad),
        (1 - AS_DECLARED - _BROAD, tilted),
    )
    pilot, values = number, list[float]()
    void = 0.0
    shares: dict[str, list[float]] = {}
    while number < max(episodes, pilot + 1):
        drawn = simulate(_part(parts, chance(number)), number)
        number += 1
        weight = mixed(drawn.draws, declared, parts)
        void += weight if drawn.void else 0.0
        failed = drawn.failure is not None and not drawn.void
        values.append(weight if failed else 0.0)
        if failed and drawn.failure is not None:
            shares.setdefault(drawn.failure, []).append(weight)
    return _told(values, shares, void, pilot=pilot, tilts=tuple(_tilts(declared, tilted)))


def mixed(
    draws: Sequence[tuple[str, bool]], declared: Probabilities, parts: Sequence[Part]
) -> float:
    """The weight of an episode: its likelihood as declared over that of the mixture."""
    return 1 / sum(
        share * exp(min(_log_ratio(draws, declared, tilted), 700.0)) for share, tilted in parts
    )


def _part(parts: Sequence[Part], drawn: float) -> Probabilities:
    for share, probabilities in parts[:-1]:
        if drawn < share:
            return probabilities
        drawn -= share
    return parts[-1][1]


def _learned(
    made: Sequence[Drawn], declared: Probabilities, tilted: Probabilities
) -> dict[str, float]:
    """Each rule as often as it fired in episodes that failed, weighed as declared."""
    fired, drawn = dict.fromkeys(declared, 0.0), dict.fromkeys(declared, 0.0)
    for one in made:
        if one.failure is None or one.void:
            continue
        weight = exp(min(-_log_ratio(one.draws, declared, tilted), 700.0))
        for rule, did in one.draws:
            drawn[rule] += weight
            fired[rule] += weight if did else 0.0
    if not any(drawn.values()):  # none failed: further away
        return {rule: min(_MOST, max(p, tilted[rule] * 1.5)) for rule, p in declared.items()}
    return {
        rule: max(p, min(_MOST, max(_LEAST, fired[rule] / drawn[rule] if drawn[rule] else p)))
        for rule, p in declared.items()
    }


def _log_ratio(
    draws: Sequence[tuple[str, bool]], declared: Probabilities, tilted: Probabilities
) -> float:
    """The logarithm of the tilted likelihood over the declared."""
    return sum(
        log(tilted[rule] / declared[rule])
        if fired
        else log((1 - tilted[rule]) / (1 - declared[rule]))
        for rule, fired in draws
    )


def _told(
    values: Sequence[float],
    shares: Mapping[str, Sequence[float]],
    void: float,
    *,
    pilot: int,
    tilts: tuple[Tilt, ...],
) -> Estimate:
    count = len(values)
    mean = sum(values) / count
    error = sqrt(sum((one - mean) ** 2 for one in values) / max(1, count - 1) / count)
    failing = [one for one in values if one > 0]
    squares = sum(one * one for one in failing)
    worth = sum(failing) ** 2 / squares if squares else 0.0
    enough = len(failing) >= _FAILURES_LEAST and worth >= _WORTH_LEAST
    lower, upper = (
        _logarithmic(mean, error, worth) if enough else (0.0, _bound(len(failing), count))
    )
    return Estimate(
        probability=mean,
        lower=lower,
        upper=upper,
        method="log-t" if enough else "bound",
        episodes=count,
        pilot=pilot,
        failed=len(failing),
        worth=worth,
        plain=mean * (1 - mean) / error**2 if error else 0.0,
        void=void / count,
        tilts=tilts,
        failures=tuple(
            Failure(name=name, probability=sum(own) / count, episodes=len(own))
            for name, own in sorted(shares.items(), key=lambda one: -sum(one[1]))
        ),
    )


def _logarithmic(mean: float, error: float, worth: float) -> tuple[float, float]:
    from scipy import stats  # a second, which campaigns need not wait

    reach = float(stats.t.ppf(0.975, max(1.0, worth - 1))) * error / mean
    return mean * exp(-reach), min(1.0, mean * exp(reach))


def _bound(failed: int, count: int) -> float:
    """No weight is above the mixture's bound: so often may it fail, times that."""
    from scipy import stats

    share = float(stats.beta.ppf(0.975, failed + 1, count - failed)) if failed < count else 1.0
    return min(1.0, share / AS_DECLARED)


def _tilts(declared: Probabilities, tilted: Probabilities) -> Iterator[Tilt]:
    for rule, p in declared.items():
        yield Tilt(rule=rule, declared=p, drawn=tilted[rule])
