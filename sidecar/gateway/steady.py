"""Whether the wall clock goes as time does: measured against a clock nobody can set.

**Rules**
1. A wall clock that has left the steady one by more than ``SKEW_NS`` since the start proves no
   lifetime: a token that has run out may look fresh, and one to come valid.
2. It counts again when it has come back, or after a restart.
"""

from msgspec import Struct

SKEW_NS = 30_000_000_000


class Steady(Struct, frozen=True, kw_only=True):
    """Both clocks at one moment, in nanoseconds."""

    wall_ns: int
    steady_ns: int

    def agree(self, wall_ns: int, steady_ns: int) -> bool:
        """Whether the wall clock has gone as far as the steady one since."""
        return abs((wall_ns - self.wall_ns) - (steady_ns - self.steady_ns)) <= SKEW_NS
