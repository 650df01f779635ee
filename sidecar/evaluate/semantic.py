"""Expectation that a judge answers: what no rule can tell of an answer's meaning.

Rules
1. Here is only what is asked and what an answer comes to; who asks is a driver (``judging``).
2. No answer is never a pass: over budget, or a judge who cannot tell, is a skip; a fault is an
   error.
3. A judge that people's labels do not back decides nothing: what it says is not required.
4. Quotes that do not occur in the material support nothing: a vote with no supported quote is
   unclear. Where samples straddle, the spread is told.
"""

from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec import json

from sidecar.evaluate.expectation import Expectation
from sidecar.evaluate.judgement import Judgement, failed, passed, skipped
from sidecar.evaluate.observed import Observed, tool_calls
from sidecar.evaluate.opinion import Block, Opinion, Question

_SAMPLES_MAX = 15
_BLOCK_CHARACTERS_MAX = 20_000
Shown = Literal["input", "output", "calls", "results"]


class Semantic(Expectation, frozen=True, kw_only=True, tag="semantic"):
    """A judge says that the criterion holds of the material."""

    criterion: str
    rubric: str = ""
    mentions: tuple[str, ...] = ()
    avoids: tuple[str, ...] = ()
    material: tuple[Shown, ...] = ("input", "output")
    samples: int = 1

    def problems(self, tools: Sequence[str]) -> list[str]:
        """A criterion, and an odd number of samples."""
        found = super().problems(tools)
        if not self.criterion.strip():
            found.append("has no criterion")
        if not 1 <= self.samples <= _SAMPLES_MAX or self.samples % 2 == 0:
            found.append(f"samples must be odd, from 1 to {_SAMPLES_MAX}")
        if not self.material:
            found.append("shows no material")
        return found


def question(expected: Semantic, observed: Observed, asked: str) -> Question:
    """What the judge is asked; ``asked`` is what the user said."""
    return Question(
        id=expected.id,
        criterion=expected.criterion,
        rubric=expected.rubric,
        mentions=expected.mentions,
        avoids=expected.avoids,
        material=tuple(_blocks(expected.material, observed, asked)),
        samples=expected.samples,
    )


def questions(
    expected: Sequence[Expectation], observed: Observed, asked: str
) -> tuple[Question, ...]:
    """All that a judge is asked of an episode."""
    return tuple(question(one, observed, asked) for one in expected if isinstance(one, Semantic))


def semantic(expected: Semantic, observed: Observed) -> Judgement:
    """What the judge's opinion comes to."""
    opinion = observed.opinions.get(expected.id)
    if opinion is None:
        return skipped("no judge was asked")
    if opinion.state == "error":
        raise ValueError(f"the judge failed: {opinion.detail}")
    if opinion.state != "answered" or opinion.answer == "unclear":
        return skipped(opinion.detail or "the judge could not tell")
    said = _said(opinion)
    if opinion.answer == "pass":
        return passed(said)
    return failed(said)


def _said(opinion: Opinion) -> str:
    reason = next((v.reason for v in opinion.votes if v.answer == opinion.answer), "")
    text = f"{opinion.judge}: {reason}" if reason else opinion.judge
    if len(opinion.votes) > 1:
        text += f" ({len(opinion.votes)} samples, spread {opinion.spread:.2f})"
    unsupported = sum(len(vote.unsupported) for vote in opinion.votes)
    if unsupported:
        text += f" ({unsupported} quotes not in the material)"
    return text if opinion.calibrated else f"{text} [not calibrated: decides nothing]"


def _blocks(shown: Sequence[Shown], observed: Observed, asked: str) -> Iterator[Block]:
    for name in shown:
        if name == "input":
            yield _block("user", asked)
        elif name == "output":
            yield _block("answer", observed.trace.final_output or "")
        else:
            for number, call in enumerate(tool_calls(observed), 1):
                result = call.step.tool.result if call.step.tool else None
                value = call.arguments if name == "calls" else result
                text = value if isinstance(value, str) else json.encode(value).decode()
                yield _block(f"{name}-{number}-{call.tool}", text)


def _block(name: str, text: str) -> Block:
    if len(text) > _BLOCK_CHARACTERS_MAX:
        text = text[:_BLOCK_CHARACTERS_MAX] + " […]"
    return Block(name=name, text=text)
