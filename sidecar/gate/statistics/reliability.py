"""pass^k: the chance that k runs of a case all pass."""

import math
from collections.abc import Iterable


def pass_hat(passed: int, runs: int, k: int) -> float:
    """The unbiased estimate C(passed, k) / C(runs, k) of one case (tau-bench). Needs runs >= k."""
    if runs < k:
        raise ValueError(f"pass^{k} needs {k} runs of each case; there are {runs}")
    return math.comb(passed, k) / math.comb(runs, k)


def mean_pass_hat(cases: Iterable[tuple[int, int]], k: int) -> float:
    """The mean over cases of ``(passed, runs)``."""
    found = [pass_hat(passed, runs, k) for passed, runs in cases]
    return math.fsum(found) / len(found)


def bounded_pass_hat(cases: Iterable[tuple[int, int, int]], k: int) -> tuple[float, float]:
    """The mean over cases of ``(passed, judged, made)``, had all runs that could not be judged
    failed, and had all of them passed. Needs made >= k."""
    some = list(cases)
    return (
        mean_pass_hat([(passed, made) for passed, _, made in some], k),
        mean_pass_hat([(passed + made - judged, made) for passed, judged, made in some], k),
    )


def plugged_in(passed: int, runs: int, k: int) -> float:
    """rate^k, which is biased upwards: shown beside others' numbers, never used."""
    return float((passed / runs) ** k)
