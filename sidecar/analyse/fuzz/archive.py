"""What guided search goes back to: one best genome a cell, as MAP-Elites keeps them.

Rules
1. A cell is (failure mode, last tool, fault): Mouret and Clune, 2015, with our descriptors.
2. The better genome of a cell brought more that was new, and of two alike the shorter.
3. Cells are taken in turn, the least taken first, ties by name: no dice, nothing starves.
"""

from msgspec import Struct

from sidecar.analyse.fuzz.mutations import Genome

Cell = tuple[str, str, str]


class Elite(Struct, frozen=True, kw_only=True):
    """A genome of the scenario ``base``, and how much was new when it ran."""

    base: str
    genome: Genome
    new: int


class Archive:
    """The elites so far, and every feature ever seen."""

    def __init__(self) -> None:
        self._elites: dict[Cell, Elite] = {}
        self._taken: dict[Cell, int] = {}
        self.seen: set[str] = set()

    def __len__(self) -> int:
        return len(self._elites)

    def add(self, cell: Cell, base: str, genome: Genome, features: frozenset[str]) -> int:
        """Note a run; how many of its features were new."""
        new = len(features - self.seen)
        self.seen |= features
        known = self._elites.get(cell)
        if new and (known is None or (new, -len(genome)) > (known.new, -len(known.genome))):
            self._elites[cell] = Elite(base=base, genome=genome, new=new)
        return new

    def next(self) -> Elite | None:
        """The elite that was taken least; None while there is none."""
        if not self._elites:
            return None
        cell = min(self._elites, key=lambda one: (self._taken.get(one, 0), one))
        self._taken[cell] = self._taken.get(cell, 0) + 1
        return self._elites[cell]
