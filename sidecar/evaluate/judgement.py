"""Judgement: what one evaluator found, before it becomes a score."""

from msgspec import Struct

from processors.model.verdict import ScoreStatus


class Judgement(Struct, frozen=True, kw_only=True):
    """``detail`` says what was found, in a sentence; ``step`` is the first offending step."""

    status: ScoreStatus
    detail: str
    step: str | None = None
    evidence: tuple[str, ...] = ()


def passed(detail: str, *evidence: str) -> Judgement:
    """It holds."""
    return Judgement(status="pass", detail=detail, evidence=evidence)


def failed(detail: str, step: str | None = None, *, evidence: tuple[str, ...] = ()) -> Judgement:
    """It does not hold; the step is evidence too."""
    return Judgement(
        status="fail", detail=detail, step=step, evidence=evidence or ((step,) if step else ())
    )


def skipped(detail: str) -> Judgement:
    """It could not be asked here: never a pass."""
    return Judgement(status="skip", detail=detail)
