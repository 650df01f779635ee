"""A bisection in JSON; the keys are fixed (docs/specs/bisect.md)."""

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct, to_builtins

from sidecar.replay.bisect.model import Asked, Conclusion
from sidecar.replay.bisect.question import Question

WHY: Mapping[str, str] = {
    "not_reproduced": "the bad end does not show the behaviour",
    "bad_end_untestable": "the bad end cannot be tested",
    "good_end_bad": "a good end, or where its history and the bad one's part, shows the behaviour",
    "good_end_untestable": "a good end cannot be tested",
    "ends_alike": "the ends show the behaviour at rates that chance could explain",
    "untestable": "what lies between cannot be tested",
    "flaky": "one point was found good and bad; see --method bayes",
    "not_confirmed": "what was found did not show the behaviour again",
    "not_monotone": "a commit that should be good, an ancestor of a good end, shows the behaviour",
    "runs_max": "as many runs were made as --runs-max allows",
    "aborted": "the oracle is at fault",
}


class Told(Struct, frozen=True, kw_only=True):
    """What is told beside the conclusion."""

    question: Question
    asked: Asked
    subjects: Mapping[str, str]
    runs: Sequence[Mapping[str, Any]]
    resumed: int
    dirty: bool
    first_divergence: Any
    repro: Sequence[str]


def told(conclusion: Conclusion, of: Told) -> dict[str, Any]:
    """The result, but for outcome, profile and exit code."""

    def named(point: int) -> dict[str, Any]:
        found = of.question.named(point)
        if "commit" in found:
            found["subject"] = of.subjects.get(found["commit"], "")
        return found

    found = conclusion.culprit
    return {
        "reason": conclusion.reason,
        "why": WHY.get(conclusion.reason, ""),
        "culprit": None if found is None else named(found),
        "last_good": [*map(named, conclusion.last_good)],
        "suspects": [*map(named, conclusion.suspects)],
        "first_divergence": of.first_divergence,
        "posterior": [
            {**named(point), "probability": round(chance, 6)}
            for point, chance in conclusion.posterior
        ],
        "contradictions": [*map(named, conclusion.contradictions)],
        "skipped": [*map(named, conclusion.skipped)],
        "method": of.asked.method,
        "rate": to_builtins(conclusion.rate),
        "points": len(of.question.order) - of.asked.floor.bit_count(),
        "runs": len(of.runs),
        "resumed": of.resumed,
        "probes": [{**named(one["point"]), **{key: one[key] for key in _SHOWN}} for one in of.runs],
        "seed": of.asked.seed,
        "dirty": of.dirty,
        "repro": shlex.join(of.repro) if of.repro else "",
    }


def mentioned(
    question: Question, conclusion: Conclusion, runs: Sequence[Mapping[str, Any]]
) -> list[str]:
    """The commits that a result names."""
    points = {one["point"] for one in runs} | {*conclusion.last_good, *conclusion.suspects}
    points |= {*conclusion.skipped, *conclusion.contradictions}
    points |= {point for point, _ in conclusion.posterior}
    places = (question.place(point).commit for point in points)
    return sorted({one for one in places if one is not None})


_SHOWN = ("verdict", "purpose", "exit_status", "detail", "seconds")
