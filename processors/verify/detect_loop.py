"""Going round in circles: cycles of calls, answers said again, one call made over and over.

Rules
1. A cycle is a block of up to ``period_max`` calls of one agent that repeats without a gap: the
   same tools with the same arguments. Where every round brings the same, fewer rounds are enough.
2. The shortest period tells; a stretch is reported once.
3. A read repeated while nothing else happened brings nothing new; after an effect it may.
4. Answers are alike when their words are, numbers and marks aside.

Cost: linear in calls, times ``period_max``.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from processors.model.detection import Exhibit
from processors.model.step import Step
from processors.verify.detect_calls import Run, ToolUse
from processors.verify.detect_found import Found
from processors.verify.detect_settings import LoopLimits, RepeatLimits

_ANSWER_CHARACTERS_MAX: Final = 4_000
_ANSWER_WORDS_LEAST: Final = 4
_ALIKE: Final = 0.9
_NEAR: Final = 4
_WORD: Final = re.compile(r"\w+")
_NUMBER: Final = re.compile(r"\d+")


def loops(run: Run, limits: LoopLimits) -> Iterator[Found]:
    """Every cycle of calls, and of answers, in order of start."""
    for lane in run.lanes:
        yield from _cycles(lane, limits)
    yield from _answers(run.trace.steps, limits)


def stretches(signs: Sequence[int], period_max: int, repeats_min: int) -> Iterator[tuple[int, ...]]:
    """(first, end, period) of every repetition; equal signs are equal moves, negative ones none.

    ``signs[first:end]`` is made of ``(end - first) // period`` whole rounds or more.
    """
    taken: list[int] = [0] * len(signs)  # by place: the number of the stretch that has it
    number = 0
    for period in range(1, period_max + 1):
        first = -1
        for place in range(period, len(signs) + 1):
            equal = (
                place < len(signs) and signs[place] >= 0 and signs[place] == signs[place - period]
            )
            if equal and first < 0:
                first = place - period
            elif not equal and first >= 0:
                begun, first = first, -1
                if (place - begun) // period < repeats_min:
                    continue
                if taken[begun] and taken[begun] == taken[place - 1]:
                    continue  # a shorter period tells of the same stretch
                number += 1
                taken[begun:place] = [number] * (place - begun)
                yield begun, place, period


def _cycles(lane: Sequence[ToolUse], limits: LoopLimits) -> Iterator[Found]:
    if len(lane) < limits.repeats_min or not limits.repeats_min:
        return
    if max(Counter([use.name for use in lane]).values()) < limits.repeats_min:
        return  # no tool is called often enough
    numbers: dict[tuple[str, str], int] = {}
    signs = [
        -1 if use.key is None else numbers.setdefault((use.name, use.key), len(numbers))
        for use in lane
    ]
    if not _crowded(signs, limits):
        return
    for first, end, period in stretches(signs, limits.period_max, limits.repeats_min):
        part = lane[first:end]
        rounds = len(part) // period
        same = _brings_the_same(part, period)
        if rounds < limits.repeats_min or (same is False and rounds < limits.repeats_changing_min):
            continue
        names = tuple(dict.fromkeys(use.name for use in part[:period]))
        effects = any(not use.reading for use in part[:period])
        what = names[0] if len(names) == 1 else f"the same {period} calls ({', '.join(names)})"
        how = {
            True: "and every round brought the same",
            False: "though the results differed",
            None: "with the same arguments",
        }[same]
        yield Found(
            code="loop",
            severity="major" if same and (effects or rounds >= 2 * limits.repeats_min) else "minor",
            sentence=f"{what} ran {rounds} times in a row {how}",
            remedy="end the run or ask a person after a few rounds without anything new; "
            "tell the model what it has tried",
            steps=[use.step.step_id for use in part],
            subjects=names,
            evidence=[Exhibit(role="repeated", step_id=part[0].step.step_id, field="arguments")],
            measures={"period": period, "repeats": rounds},
        )


def _crowded(signs: Sequence[int], limits: LoopLimits) -> bool:
    """Whether any move is there often enough to be part of a loop."""
    counts: dict[int, int] = {}
    for sign in signs:
        counts[sign] = counts.get(sign, 0) + 1
    return any(sign >= 0 and count >= limits.repeats_min for sign, count in counts.items())


def _brings_the_same(part: Sequence[ToolUse], period: int) -> bool | None:
    """Whether each round has the outcomes of the first; None where none is known."""
    known = False
    for place, use in enumerate(part):
        outcome, before = use.outcome, part[place % period].outcome
        if outcome is None or before is None:
            continue
        if outcome != before:
            return False
        known = known or place >= period
    return True if known else None


def _answers(steps: Sequence[Step], limits: LoopLimits) -> Iterator[Found]:
    """Answers without a call that an agent gives again and again."""
    models = [step for step in steps if step.kind == "model_call" and step.messages_out]
    if len(models) < limits.repeats_min:
        return
    said = [(step, words) for step in models if (words := _said(step)) is not None]
    if len(said) < limits.repeats_min or not limits.repeats_min:
        return
    signs: list[int] = []
    kinds: list[tuple[str, frozenset[str]]] = []
    exact: dict[str, int] = {}
    for _, text in said:
        sign = exact.get(text)
        if sign is None:
            own = frozenset(text.split())
            sign = next(
                (
                    number
                    for number in range(len(kinds) - 1, max(-1, len(kinds) - 1 - _NEAR), -1)
                    if _alike(kinds[number][1], own)
                ),
                len(kinds),
            )
            if sign == len(kinds):
                kinds.append((text, own))
            exact[text] = sign
        signs.append(sign)
    for first, end, period in stretches(signs, limits.period_max, limits.repeats_min):
        part = [step for step, _ in said[first:end]]
        yield Found(
            code="loop",
            severity="minor",
            sentence=f"the model gave near-identical answers {len(part) // period} times in a row",
            remedy="end the run when an answer repeats; tell the model what it has already said",
            steps=[step.step_id for step in part],
            evidence=[Exhibit(role="repeated", step_id=part[0].step_id, field="messages_out")],
            measures={"period": period, "repeats": len(part) // period},
        )


def _said(step: Step) -> str | None:
    """The words of an answer without a call, numbers as one; None for anything else."""
    texts = []
    for message in step.messages_out or ():
        for part in message.parts:
            if part.type in ("tool_call", "server_tool_call"):
                return None
            if part.type == "text" and isinstance(part.content, str):
                texts.append(part.content[:_ANSWER_CHARACTERS_MAX])
    words = _WORD.findall(_NUMBER.sub("0", " ".join(texts).lower()))
    return " ".join(words) if len(words) >= _ANSWER_WORDS_LEAST else None


def _alike(left: frozenset[str], right: frozenset[str]) -> bool:
    if min(len(left), len(right)) < _ALIKE * max(len(left), len(right)):
        return False
    return len(left & right) >= _ALIKE * len(left | right)


def repeats(run: Run, limits: RepeatLimits, looped: Iterable[str]) -> Iterator[Found]:
    """Calls made again that bring nothing new; those of a loop (``looped`` step ids) are told."""
    if not limits.reads_max or len(run.uses) <= limits.reads_max:
        return
    if max(Counter([use.name for use in run.uses]).values()) <= limits.reads_max:
        return
    told = frozenset(looped)
    groups: dict[tuple[int, str, str], list[ToolUse]] = {}
    epoch, last = 0, ("", "")
    for use in run.uses:
        if not use.executed or use.irreversible:  # those are detect_retry's
            epoch, last = epoch + use.executed, ("", "")
            continue
        if use.key is None:
            epoch += not use.reading
            continue
        sign = use.name, use.key
        if not use.reading and sign != last:
            epoch += 1
        last = ("", "") if use.reading else sign
        groups.setdefault((epoch, *sign), []).append(use)
    for group in groups.values():
        if len(group) > limits.reads_max:
            yield from _repeated(group, limits, told)


def _repeated(
    group: Sequence[ToolUse], limits: RepeatLimits, told: frozenset[str]
) -> Iterator[Found]:
    alike: dict[str | None, list[ToolUse]] = {}
    for use in group:
        alike.setdefault(use.outcome, []).append(use)
    most = max(alike.values(), key=len)
    if len(most) <= limits.reads_max or all(use.step.step_id in told for use in most):
        return
    yield Found(
        code="repeated_call",
        severity="minor",
        sentence=f"{most[0].name} was called {len(most)} times with equal arguments and equal "
        "results while nothing else changed",
        remedy="keep the first answer; give the model its earlier results",
        steps=[use.step.step_id for use in most],
        subjects=(most[0].name,),
        evidence=[Exhibit(role="repeated", step_id=most[0].step.step_id, field="arguments")],
        measures={"repeats": len(most)},
    )
