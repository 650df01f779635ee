"""What a suite made of its mutants: each one's end, and the score with its survivors.

**Rules**
1. A mutant is killed by the first case that passes as it is and fails with it.
2. A case that is void with a mutant shows nothing; a mutant is void where all of them are.
3. Nothing was touched where no case does what the mutant changes: it survived, and is told so.
"""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from sidecar.analyse.mutants.model import Ending, Judged, Mutant, Shown
from sidecar.analyse.mutants.operators import BY_NAME, OPERATORS

UNTOUCHED = "no case does what it changes"


class Tally(Struct, frozen=True, kw_only=True):
    """How many mutants of an operator, or of a target, came to which end."""

    name: str
    killed: int
    survived: int
    equivalent: int
    void: int


class Score(Struct, frozen=True, kw_only=True):
    """A suite's mutants. ``unusable``: cases that do not pass as they are, with the reason.

    ``score`` is killed of killed and survived, None where there are neither.
    """

    suite: str
    cases: int
    unusable: dict[str, str]
    killed: int
    survived: int
    equivalent: int
    void: int
    score: float | None
    targets: tuple[Tally, ...]
    operators: tuple[Tally, ...]
    judged: tuple[Judged, ...]
    runs: int
    notes: tuple[str, ...] = ()


def judged(mutant: Mutant, pairs: Sequence[tuple[Shown, Shown]]) -> Judged:
    """The end of a mutant: the runs as they are, each with the mutant's run of that case."""
    acted = [(own, made) for own, made in pairs if made.acted]
    ending, by, why = _ended(mutant, acted)
    return Judged(mutant=mutant, ending=ending, by=by, why=why, runs=len(pairs), acted=len(acted))


def _ended(mutant: Mutant, acted: Sequence[tuple[Shown, Shown]]) -> tuple[Ending, str, str]:
    killer = next((made for _, made in acted if made.void is None and not made.passed), None)
    if killer is not None:
        return "killed", killer.case, killer.why
    if not acted:
        return "survived", "", UNTOUCHED
    if all(made.void is not None for _, made in acted):
        return "void", "", acted[0][1].void or ""
    same = all((own.effects, own.answer) == (made.effects, made.answer) for own, made in acted)
    if same and BY_NAME[mutant.operator].harmless:
        return "equivalent", "", "effects and answers are as before"
    return "survived", "", ""


def scored(
    suite: str,
    found: Sequence[Judged],
    *,
    cases: int,
    unusable: dict[str, str],
    runs: int,
    notes: Iterable[str] = (),
) -> Score:
    """The score of a suite."""
    whole = _tally("all", found)
    told = whole.killed + whole.survived
    return Score(
        suite=suite,
        cases=cases,
        unusable=unusable,
        killed=whole.killed,
        survived=whole.survived,
        equivalent=whole.equivalent,
        void=whole.void,
        score=whole.killed / told if told else None,
        targets=tuple(
            _tally(name, own)
            for name in ("agent", "policy", "twin")
            if (own := [one for one in found if one.mutant.target == name])
        ),
        operators=tuple(
            _tally(each.name, own)
            for each in OPERATORS
            if (own := [one for one in found if one.mutant.operator == each.name])
        ),
        judged=tuple(found),
        runs=runs,
        notes=tuple(notes),
    )


def _tally(name: str, found: Sequence[Judged]) -> Tally:
    ends = [one.ending for one in found]
    return Tally(
        name=name,
        killed=ends.count("killed"),
        survived=ends.count("survived"),
        equivalent=ends.count("equivalent"),
        void=ends.count("void"),
    )
