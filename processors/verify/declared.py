"""Claims that an agent declares: ``agenttwin.claim.*`` on a span (A1) or in an event of it (A2).

Rules
1. What is declared is the agent's word: it is bound to a tool like a spoken one and proves nothing.
2. An amount is read exactly; what is no number is no amount. A confidence outside 0 to 1 is 1.
3. A declaration without subject and status is none.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from processors.model.evidence import Claim, ClaimStatus
from processors.model.names import (
    CLAIM_ACTION,
    CLAIM_AMOUNT,
    CLAIM_CONFIDENCE,
    CLAIM_CURRENCY,
    CLAIM_EVENT_PREFIX,
    CLAIM_OBJECT,
    CLAIM_STATUS,
    CLAIM_SUBJECT,
    CLAIM_TEXT,
)
from processors.model.step import Step
from processors.verify.amounts import plain_decimal
from processors.verify.naming import Nameable, acting, resolve

STATUS_WORDS: Final[dict[str, ClaimStatus]] = {
    **dict.fromkeys(("success", "succeeded", "successful", "ok", "true", "done"), "success"),
    **dict.fromkeys(("completed", "confirmed"), "success"),
    **dict.fromkeys(("failure", "failed", "fail", "error", "false", "denied"), "failure"),
}


def declares(step: Step) -> bool:
    """Whether a step declares anything."""
    attributes = step.attributes
    if not attributes:
        return False
    if CLAIM_SUBJECT in attributes or CLAIM_STATUS in attributes:
        return True
    if CLAIM_EVENT_PREFIX not in "\0".join(attributes):  # most steps declare nothing
        return False
    return any(key.startswith(CLAIM_EVENT_PREFIX) for key in attributes)


def declared(steps: Iterable[Step], known: Sequence[Nameable]) -> Iterator[Claim]:
    """The claims that steps declare, in their order."""
    for step in steps:
        if not declares(step):
            continue
        if CLAIM_SUBJECT in step.attributes or CLAIM_STATUS in step.attributes:
            yield _claim(step, step.attributes, "A1", known)
        for key in sorted(step.attributes):
            event = step.attributes[key] if key.startswith(CLAIM_EVENT_PREFIX) else None
            if isinstance(event, Mapping) and (CLAIM_SUBJECT in event or CLAIM_STATUS in event):
                yield _claim(step, event, "A2", known)


def _claim(step: Step, said: Mapping[str, Any], rule: str, known: Sequence[Nameable]) -> Claim:
    subject = _text(said.get(CLAIM_SUBJECT))
    meant = resolve(subject, known) if subject else None
    named = said.get(CLAIM_OBJECT)
    objects = named if isinstance(named, list) else [named]
    amount = _amount(said.get(CLAIM_AMOUNT))
    return Claim(
        claim_id="",
        subject=meant,
        status=STATUS_WORDS.get(str(said.get(CLAIM_STATUS, "")).strip().lower(), "unknown"),
        source="attribute",
        rule=rule,
        step_id=step.step_id,
        text=_text(said.get(CLAIM_TEXT)),
        action=_text(said.get(CLAIM_ACTION)) or acting(meant, known),
        objects=tuple(str(one) for one in objects if isinstance(one, str | int) and one != ""),
        amount=amount,
        currency=(_text(said.get(CLAIM_CURRENCY)) or "").upper() or None if amount else None,
        confidence=_confidence(said.get(CLAIM_CONFIDENCE)),
    )


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _amount(value: Any) -> str | None:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        exact = Decimal(str(value).strip())
    except InvalidOperation:
        return None
    return plain_decimal(exact) if exact.is_finite() and abs(exact.adjusted()) < 40 else None


def _confidence(value: Any) -> float:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return round(float(value), 2) if number and 0 <= value <= 1 else 1.0
