"""Discovery curve: how many signatures after how many episodes, and how much is still unseen.

Rules
1. Good and Turing's unseen mass is f1/n over independent draws: only the uniform arm counts, what
   search aimed at would flatter it (Good, 1953).
2. Chao's lower bound of how many signatures there are is over the same draws (Chao, 1984).
3. Both are trends, no guarantee: without a distribution the error at n = 10,000 is still some
   percent.
"""

from collections import Counter

from msgspec import Struct


class Point(Struct, frozen=True, kw_only=True):
    """After ``episodes``: signatures found by any arm, features seen, and of the uniform arm alone
    its draws and its unseen mass (None before its first draw).
    """

    episodes: int
    signatures: int
    features: int
    draws: int
    unseen: float | None


class Discovery:
    """Counts as a campaign goes on."""

    def __init__(self) -> None:
        self._found: Counter[str] = Counter()
        self._drawn: Counter[str] = Counter()
        self.draws = 0
        self.episodes = 0

    def add(self, signature: str | None, *, uniform: bool) -> bool:
        """Note an episode; whether its signature is new."""
        self.episodes += 1
        self.draws += uniform
        if signature is None:
            return False
        self._drawn[signature] += uniform
        self._found[signature] += 1
        return self._found[signature] == 1

    def point(self, features: int) -> Point:
        """Where the curve stands."""
        return Point(
            episodes=self.episodes,
            signatures=len(self._found),
            features=features,
            draws=self.draws,
            unseen=unseen_mass(self._drawn, self.draws),
        )

    def chao1(self) -> float:
        """At least so many signatures are there."""
        return chao1(self._drawn)

    def guided_only(self) -> int:
        """Signatures that uniform draws have not met."""
        return sum(1 for name in self._found if not self._drawn[name])


def unseen_mass(counts: Counter[str], draws: int) -> float | None:
    """f1/n: the share of draws that would be new; None without draws."""
    if draws == 0:
        return None
    return sum(1 for times in counts.values() if times == 1) / draws


def chao1(counts: Counter[str]) -> float:
    """S + f1(f1 - 1) / (2(f2 + 1)), the bias-corrected form."""
    once = sum(1 for times in counts.values() if times == 1)
    twice = sum(1 for times in counts.values() if times == 2)
    seen = sum(1 for times in counts.values() if times > 0)
    return seen + once * (once - 1) / (2 * (twice + 1))
