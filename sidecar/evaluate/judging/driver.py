"""The judge at work: votes from cache, fake or model, within a budget, made opinions.

Rules
1. A sample is asked once for its judge, model, prompt, criterion, material and number; its vote is
   cached, a failure never is.
2. Before a call its worst cost is held against what is left; past the budget nothing is asked, and
   the opinion says so.
3. Who is asked, and whether people's labels back it, stands in every opinion.
"""

from collections.abc import Sequence
from decimal import Decimal
from typing import Final

from msgspec import structs

from sidecar.canonical import digest
from sidecar.evaluate.judging import fake
from sidecar.evaluate.judging.calibration import Calibration
from sidecar.evaluate.judging.config import Judge as Terms
from sidecar.evaluate.judging.config import dollars
from sidecar.evaluate.judging.files import FileCache
from sidecar.evaluate.judging.llm import VERDICT, Called, Model, Unanswered
from sidecar.evaluate.judging.prompt import PROMPT_HASH, Prompt, Verdict, majority, prompt, vote
from sidecar.evaluate.opinion import Opinion, Question, Vote

_MILLION: Final = Decimal(1_000_000)


class Judge:
    """Answers questions. ``model`` is None for the fake."""

    def __init__(
        self,
        terms: Terms,
        model: Model | None = None,
        *,
        cache: FileCache | None = None,
        calibration: Calibration | None = None,
    ) -> None:
        self._terms = terms
        self._model = model
        self._cache = cache or FileCache(None)
        self._calibration = calibration
        self.calls = 0
        self.spent = Decimal(0)

    @property
    def name(self) -> str:
        """Wire, model and prompt: what a cache and a calibration are of."""
        if self._model is None:
            return "fake/1"
        return f"{self._terms.type}:{self._terms.model}#{PROMPT_HASH[:12]}"

    async def opinions(self, questions: Sequence[Question]) -> dict[str, Opinion]:
        """An opinion on each question, by its id."""
        return {one.id: await self.opinion(one) for one in questions}

    async def opinion(self, question: Question) -> Opinion:
        """What the judge comes to."""
        backed = self._calibration is not None and self._calibration.backs(
            self.name, question.criterion, question.rubric
        )
        votes = []
        for number in range(question.samples):
            try:
                cast = await self._vote(question, number)
            except Unanswered as error:
                return Opinion(state="error", judge=self.name, calibrated=backed, detail=str(error))
            if cast is None:
                return Opinion(
                    state="over_budget",
                    judge=self.name,
                    calibrated=backed,
                    detail=f"over the judge's budget ({self.calls} calls, {self.spent:f} USD)",
                )
            votes.append(cast)
        answer, spread = majority(votes)
        return Opinion(
            state="answered",
            judge=self.name,
            calibrated=backed,
            answer=answer,
            votes=tuple(votes),
            spread=spread,
            detail=votes[0].reason if answer == "unclear" else "",
        )

    async def _vote(self, question: Question, number: int) -> Vote | None:
        """One sample; None where the budget is used up. Raises Unanswered."""
        if self._model is None:
            return fake.judge(question)
        key = self._key(question, number)
        known = self._cache.get(key)
        if known is not None:
            return structs.replace(known, cached=True)
        shown = prompt(question)
        held = self._held(shown)
        if held is None:
            return None
        asked = await self._model.call(
            shown, VERDICT
        )  # what failed may have cost all that was held
        self.spent += self._cost(asked) - held
        made = vote(asked.value, question)
        self._cache.put(key, made)
        return made

    def _held(self, shown: Prompt) -> Decimal | None:
        """The worst cost of a call, held from now on; None where it is not within the budget."""
        terms = self._terms
        # A token is a byte of UTF-8 at least; more it never costs.
        size = len(shown.system.encode()) + len(shown.user.encode())
        worst = self._price(size, terms.tokens_max)
        limit = dollars(terms.budget.usd) if terms.budget.usd else None
        over = limit is not None and self.spent + worst > limit
        if self.calls >= terms.budget.calls or over:
            return None
        self.calls += 1
        self.spent += worst
        return worst

    def _cost(self, asked: Called[Verdict]) -> Decimal:
        return self._price(asked.input_tokens, asked.output_tokens)

    def _price(self, input_tokens: int, output_tokens: int) -> Decimal:
        prices = self._terms.prices
        input_usd = dollars(prices.input) or Decimal(0)
        output_usd = dollars(prices.output) or Decimal(0)
        return (input_tokens * input_usd + output_tokens * output_usd) / _MILLION

    def _key(self, question: Question, number: int) -> str:
        value = {
            "judge": self.name,
            "url": self._terms.target.url,
            "criterion": question.criterion,
            "rubric": question.rubric,
            "material": [[block.name, block.text] for block in question.material],
            "sample_index": number,
        }
        return digest(value, domain="agenttwin-judge/1").removeprefix("sha256:")
