"""The loop of a bisection: what is wanted next is run, written down, and told.

**Rules**
1. A run is in the journal before the next one begins; runs that are there are not made again.
2. A run whose oracle is at fault is not written down: it is made again once that is mended.
"""

from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct

from sidecar.replay.bisect.answer import Answer
from sidecar.replay.bisect.files import Journal
from sidecar.replay.bisect.model import Asked, Conclusion, Probe, Run
from sidecar.replay.bisect.question import Place, Question
from sidecar.replay.bisect.step import given_up, next_step

Ask = Callable[[Place, int], Answer]
Tell = Callable[[Probe, Answer | None], None]
"""Called before a run (without an answer) and after it."""


class Bisected(Struct, frozen=True, kw_only=True):
    """The conclusion, every run as it is told, and how many of them an earlier start had made."""

    conclusion: Conclusion
    runs: Sequence[dict[str, Any]]
    resumed: int
    aborted: Answer | None = None


def bisect(question: Question, asked: Asked, ask: Ask, journal: Journal, tell: Tell) -> Bisected:
    """Run the oracle until there is a conclusion. Raises SidecarError where it cannot go on."""
    entries = _known(question, journal.entries)
    runs = [_run(one) for one in entries]
    resumed = len(runs)
    while True:
        step = next_step(question.order, asked, runs)
        if isinstance(step, Conclusion):
            return Bisected(conclusion=step, runs=entries, resumed=resumed)
        tell(step, None)
        answer = ask(question.place(step.point), step.point)
        if answer.aborted:
            conclusion = given_up(question.order, asked, runs, "aborted")
            return Bisected(conclusion=conclusion, runs=entries, resumed=resumed, aborted=answer)
        entry = _entry(question, step, answer)
        journal.add(entry)
        entries.append(entry)
        runs.append(_run(entry))
        tell(step, answer)


def _known(question: Question, entries: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The runs of an earlier start, as far as their points are still those."""
    found = []
    for one in entries:
        point = one.get("point")
        if not isinstance(point, int) or not 0 <= point < len(question.order):
            break
        if question.named(point) != one.get("at"):
            break
        found.append(one)
    return found


def _entry(question: Question, step: Probe, answer: Answer) -> dict[str, Any]:
    return {
        "point": step.point,
        "at": question.named(step.point),
        "verdict": answer.verdict,
        "purpose": step.purpose,
        "of": step.of,
        "exit_status": answer.code,
        "detail": answer.detail,
        "seconds": round(answer.seconds, 3),
        **({"divergence": answer.divergence} if answer.divergence else {}),
        **({"failed": [*answer.failed]} if answer.failed else {}),
    }


def _run(entry: dict[str, Any]) -> Run:
    return Run(
        point=entry["point"], verdict=entry["verdict"], purpose=entry["purpose"], of=entry["of"]
    )
