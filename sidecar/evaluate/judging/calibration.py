"""Calibration: how a judge agrees with people, criterion by criterion, and whether it may decide.

Rules
1. It may decide where n >= 20, agreement >= 80 %, kappa >= 0.6, and the lower end of kappa's 95 %
   interval is >= 0.4 or n >= 100. With one label only, kappa is undefined: it may not.
2. Unclear is an answer of its own, and agrees with nobody.
3. What backs one judge, model and prompt backs no other, nor another criterion or rubric.

Kappa: Cohen 1960; its variance: Fleiss, Cohen and Everitt 1969.
"""

import hashlib
from collections import Counter
from collections.abc import Sequence
from math import sqrt
from typing import Final

from msgspec import Struct

from sidecar.evaluate.opinion import Answer

FORMAT: Final = "agenttwin-calibration/1"
N_LEAST: Final = 20
AGREEMENT_LEAST: Final = 0.8
KAPPA_LEAST: Final = 0.6
LOW_LEAST: Final = 0.4
N_ENOUGH: Final = 100
_Z: Final = 1.959963984540054


class Agreement(Struct, frozen=True, kw_only=True):
    """How a judge agrees with labels; ``confusion`` counts ``label/answer`` pairs, ``prevalence``
    is the share of labels that pass. ``kappa`` and its interval are None where undefined.
    """

    criterion: str
    rubric: str
    n: int
    agreement: float
    kappa: float | None
    low: float | None
    high: float | None
    prevalence: float
    confusion: dict[str, int]

    @property
    def decides(self) -> bool:
        """Whether the judge's word on this criterion may decide."""
        return not self.lacking()

    def lacking(self) -> list[str]:
        """What stands against it."""
        found = []
        if self.n < N_LEAST:
            found.append(f"{self.n} labels, at least {N_LEAST} needed")
        if self.agreement < AGREEMENT_LEAST:
            found.append(f"agreement {self.agreement:.2f}, at least {AGREEMENT_LEAST} needed")
        if self.kappa is None or self.low is None:
            found.append("kappa is undefined: all labels or all answers are alike")
        elif self.kappa < KAPPA_LEAST:
            found.append(f"kappa {self.kappa:.2f}, at least {KAPPA_LEAST} needed")
        elif self.low < LOW_LEAST and self.n < N_ENOUGH:
            found.append(
                f"kappa may be as low as {self.low:.2f}: at least {LOW_LEAST}, or {N_ENOUGH} labels"
            )
        return found


class Calibration(Struct, frozen=True, kw_only=True):
    """The stored document: which judge, and its agreement by criterion."""

    judge: str
    criteria: dict[str, Agreement]
    format: str = FORMAT
    at_ns: int = 0

    def backs(self, judge: str, criterion: str, rubric: str) -> bool:
        """Whether this judge may decide this criterion."""
        found = self.criteria.get(criterion_id(criterion, rubric))
        return judge == self.judge and found is not None and found.decides


def criterion_id(criterion: str, rubric: str) -> str:
    """What a criterion and its rubric are called in a document."""
    return hashlib.sha256(f"{criterion}\n\n{rubric}".encode()).hexdigest()[:32]


def agreement(criterion: str, rubric: str, pairs: Sequence[tuple[Answer, Answer]]) -> Agreement:
    """Labels against answers, as (label, answer). Raises ValueError without any."""
    if not pairs:
        raise ValueError("there are no labels")
    n = len(pairs)
    counts = Counter(pairs)
    kappa, spread = _kappa(counts, n)
    return Agreement(
        criterion=criterion,
        rubric=rubric,
        n=n,
        agreement=sum(label == answer for label, answer in pairs) / n,
        kappa=kappa,
        low=None if kappa is None else max(-1.0, kappa - spread),
        high=None if kappa is None else min(1.0, kappa + spread),
        prevalence=sum(label == "pass" for label, _ in pairs) / n,
        confusion={f"{label}/{answer}": counts[label, answer] for label, answer in sorted(counts)},
    )


def _kappa(counts: Counter[tuple[Answer, Answer]], n: int) -> tuple[float | None, float]:
    """Kappa and the half-width of its 95 % interval."""
    words = sorted({word for pair in counts for word in pair})
    share = {pair: count / n for pair, count in counts.items()}
    rows = {w: sum(share.get((w, other), 0.0) for other in words) for w in words}
    columns = {w: sum(share.get((other, w), 0.0) for other in words) for w in words}
    seen = sum(share.get((w, w), 0.0) for w in words)
    chance = sum(rows[w] * columns[w] for w in words)
    if chance >= 1.0 or max(rows.values()) >= 1.0 or max(columns.values()) >= 1.0:
        return None, 0.0
    kappa = (seen - chance) / (1 - chance)
    agree = sum(
        share.get((w, w), 0.0) * (1 - (rows[w] + columns[w]) * (1 - kappa)) ** 2 for w in words
    )
    differ = (1 - kappa) ** 2 * sum(
        p * (columns[a] + rows[b]) ** 2 for (a, b), p in share.items() if a != b
    )
    variance = (agree + differ - (kappa - chance * (1 - kappa)) ** 2) / (n * (1 - chance) ** 2)
    return kappa, _Z * sqrt(max(0.0, variance))
