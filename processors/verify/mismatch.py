"""Another amount or another target than was claimed: what a claim names, against what happened.

Rules
1. Only effects that are there are compared, and only when nothing of the subject is unknown.
2. An amount accuses when the arguments have amounts, none of their numbers (nor a sum of theirs) is
   the claimed one, or the one that is has another currency. A whole number may be in minor units.
3. A target accuses when no identifier of the claim is among the arguments, nor in the tool's own
   result, and one is of a kind with an argument: written alike but for its digits, or called by
   the argument's name ("order 17" and ``order_id``).
4. What a tool's result says is compared with nothing: ids and balances in it are its own.
"""

import re
from collections.abc import Iterator, Sequence
from decimal import Decimal, InvalidOperation
from itertools import combinations
from typing import Any, Final

from msgspec import Struct

from processors.model.evidence import Claim, Contradiction
from processors.verify.case import Case, accuses
from processors.verify.effects import Effect
from processors.verify.subjects import split_words, stem, stems, words

_AMOUNT_WORDS: Final = stems(words("amount total sum price cost value payment betrag importe"))
_MINOR_WORDS: Final = words("cents cent minor pence pennies")
_SUMMED_MAX: Final = 6
_LEAVES_MAX: Final = 500
_LABEL = re.compile(r"([^\W\d_]+)(?: (?:number|no|id|nr|numero|número|nummer))?[ .:#（(]*\Z", re.I)
_DIGITS = re.compile(r"\d+")


class Figure(Struct, frozen=True):
    """A number of some arguments; ``money`` where its name says that it is an amount."""

    value: Decimal
    currency: str | None
    money: bool


class Leaf(Struct, frozen=True):
    """A text or number of some arguments, and the stems of its name."""

    text: str
    names: frozenset[str]


def mismatches(case: Case) -> Iterator[Contradiction]:
    """Claims of success of another amount or target than that of what happened."""
    for claim in case.claims:
        if claim.status != "success" or claim.subject is None or claim.source == "tool_result":
            continue
        if not accuses(claim) or not (claim.amount or claim.objects):
            continue
        meant = case.of(claim.subject)
        there = [effect for effect in meant if effect.held]
        if not there or any(effect.held is None for effect in meant):
            continue
        leaves = [_leaves(effect) for effect in there]
        named = [_named(claim, found) for found in leaves]
        if claim.objects and not any(named) and _other_target(case, claim, there, leaves):
            yield _found("wrong_target", "another target", claim, there)
            continue
        own = [effect for effect, match in zip(there, named, strict=True) if match] or there
        if claim.amount is not None and _other_amount(claim, own):
            yield _found("wrong_amount", "another amount", claim, own)


def _found(code: Any, what: str, claim: Claim, effects: Sequence[Effect]) -> Contradiction:
    first = effects[0]
    return Contradiction(
        code=code,
        detail=f"{claim.subject}: the agent named {what} than the one it was done with",
        step_id=first.step_ids[0] if first.step_ids else None,
        evidence=tuple(item for effect in effects for item in effect.evidence_ids),
        said=(claim.claim_id,),
    )


def _other_amount(claim: Claim, effects: Sequence[Effect]) -> bool:
    claimed = Decimal(claim.amount or "0")
    figures = [list(_figures(effect.arguments)) for effect in effects]
    money = [one for found in figures for one in found if one.money]
    if not money:
        return False
    same = [one for found in figures for one in found if _equal(one, claimed)]
    if same:
        currencies = {one.currency for one in same}
        stated = claim.currency is not None and None not in currencies
        return stated and claim.currency not in currencies
    totals = [sum((one.value for one in found if one.money), Decimal()) for found in figures]
    few = totals if len(totals) <= _SUMMED_MAX else []
    sums = {sum(some, Decimal()) for n in range(1, len(few) + 1) for some in combinations(few, n)}
    return claimed not in sums | {sum(totals, Decimal())}


def _equal(figure: Figure, claimed: Decimal) -> bool:
    whole = figure.value == figure.value.to_integral_value()
    return figure.value == claimed or (whole and figure.value == claimed * 100)


def _figures(
    value: Any, name: str = "", currency: str | None = None, left: int = 8
) -> Iterator[Figure]:
    """The numbers of some arguments, each with the currency named beside it."""
    if isinstance(value, dict):
        beside = value.get("currency", value.get("currency_code", currency))
        own = beside.upper() if isinstance(beside, str) else currency
        for key, item in value.items():
            if left:
                yield from _figures(item, str(key), own, left - 1)
    elif isinstance(value, list):
        for item in value[:_LEAVES_MAX]:
            if left:
                yield from _figures(item, name, currency, left - 1)
    else:
        number = _number(value)
        if number is not None:
            parts = split_words(name)
            minor = bool(_MINOR_WORDS & set(parts))
            money = bool(_AMOUNT_WORDS & stems(parts)) or minor
            yield Figure(number / 100 if minor else number, currency, money)


def _number(value: Any) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str | Decimal):
        return None
    if isinstance(value, str) and not (
        0 < len(value) <= 40 and value.strip("-+ .,0123456789") == ""
    ):
        return None
    try:
        number = Decimal(str(value).strip())
    except InvalidOperation:
        return None
    return number if number.is_finite() and abs(number.adjusted()) < 40 else None


def _named(claim: Claim, leaves: Sequence[Leaf]) -> bool:
    """Whether one of the claim's identifiers is among the arguments."""
    texts = [leaf.text for leaf in leaves]
    return any(
        one == text or (len(one) >= 4 and one in text) or (len(text) >= 4 and text in one)
        for one in (item.casefold() for item in claim.objects)
        for text in texts
    )


def _other_target(
    case: Case, claim: Claim, effects: Sequence[Effect], leaves: Sequence[Sequence[Leaf]]
) -> bool:
    own = {step_id for effect in effects for step_id in effect.step_ids}
    results = [
        str(step.tool.result).casefold()
        for step in case.trace.steps
        if step.step_id in own and step.tool is not None and step.tool.result is not None
    ]
    every = [leaf for found in leaves for leaf in found]
    return any(
        _alike(one, claim.text, every)
        for one in claim.objects
        if not any(one.casefold() in result for result in results)
    )


def _alike(one: str, text: str | None, leaves: Sequence[Leaf]) -> bool:
    """Whether an identifier is of a kind with an argument (rule 3)."""
    label = _label(one, text)
    if label is not None and any(label in leaf.names for leaf in leaves):
        return any(label in leaf.names and leaf.text != one.casefold() for leaf in leaves)
    shape = _shape(one)
    return shape is not None and any(_shape(leaf.text) == shape for leaf in leaves)


def _label(one: str, text: str | None) -> str | None:
    before = text[: text.index(one)] if text is not None and one in text else ""
    match = _LABEL.search(before)
    return stem(match[1].lower()) if match else None


def _shape(text: str) -> str | None:
    """A text with each digit as 0; all addresses with ``@`` are one shape. None: no identifier."""
    if "@" in text and " " not in text:
        return "@"
    plain = text.casefold()
    digits = any(character.isdigit() for character in plain)
    letters = any(character.isalpha() for character in plain)
    return _DIGITS.sub(lambda found: "0" * len(found[0]), plain) if digits and letters else None


def _leaves(effect: Effect) -> list[Leaf]:
    return [
        leaf for leaf, _ in zip(_walk(effect.arguments, "", 8), range(_LEAVES_MAX), strict=False)
    ]


def _walk(value: Any, name: str, left: int) -> Iterator[Leaf]:
    if isinstance(value, dict) and left:
        for key, item in value.items():
            yield from _walk(item, str(key), left - 1)
    elif isinstance(value, list) and left:
        for item in value:
            yield from _walk(item, name, left - 1)
    elif isinstance(value, str | int) and not isinstance(value, bool) and value != "":
        yield Leaf(str(value).strip().casefold(), stems(split_words(name)))
