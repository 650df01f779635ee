"""How surely a claim was made: one number for each rule, less where more had to be guessed.

Rules
1. The table is data and is printed in docs/specs/claims.md; a test keeps both equal.
2. A claim below ``ACCUSES`` accuses nobody. It may still lower an outcome.
3. Nothing raises a number: each doubt takes from it.
"""

from typing import Final

ACCUSES: Final = 0.5
"""From here on a claim may contradict evidence."""

POINTED: Final = 0.15  # "it" had to be looked up in the clause before
WHOLE: Final = 0.1  # of the run as a whole: which of its acts is meant is open
HEDGED: Final = 0.4  # the factor of "I think", "probably": such a claim has the status unknown

OF_RULE: Final[dict[str, float]] = {
    "A1": 1.0,
    "A2": 1.0,
    "T1": 0.9,
    "T2": 0.9,
    "L1": 0.6,
    **dict.fromkeys(("F1", "F2", "F3", "F4", "F5", "S1", "S2", "S3"), 0.95),
    **dict.fromkeys(("F6", "F7", "F8", "S4", "S7"), 0.9),
    **dict.fromkeys(("S5", "S6", "S8", "S9"), 0.8),
    **dict.fromkeys(("F0", "S0"), 0.8),
    **dict.fromkeys(("G1", "G4", "G5", "G6", "G7"), 0.9),
    **dict.fromkeys(("G2", "G3", "G8"), 0.85),
    **dict.fromkeys(("G9", "G0"), 0.75),
}


def confidence(
    rule: str, *, hedged: bool = False, pointed: bool = False, whole: bool = False
) -> float:
    """The confidence of a claim by a rule, with its doubts, to two decimals."""
    value = OF_RULE[rule] - POINTED * pointed - WHOLE * whole
    return round(value * HEDGED if hedged else value, 2)
