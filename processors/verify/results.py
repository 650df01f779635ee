"""Claims that a tool's result makes of itself: ``{"status": "refunded", "refund_id": …}``.

Rules
1. What a tool said happened is the agent side's word, shown by the agent's telemetry: it may lower
   an outcome and never raises one.
2. Only a tool that may have an effect claims one, by a word of state (T1) or an error (T2).
3. A state is success when it is a word of success or the past form of the tool's own act
   (``refunded`` of ``issue_refund``), failure when it is a word of failure, else unknown.
4. A result of text is read when it is one JSON object; nothing else is guessed from words.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from processors.model.evidence import Claim, ClaimStatus
from processors.model.step import Step
from processors.verify.amounts import plain_decimal
from processors.verify.certainty import OF_RULE
from processors.verify.naming import Nameable, named_as
from processors.verify.subjects import is_control, is_past, stem, words

_STATES: Final = ("status", "state", "result", "outcome", "success", "succeeded", "ok")
_ERRORS: Final = ("error", "errors", "isError", "is_error")
_GOOD: Final = words(
    "ok success successful succeeded true done completed complete confirmed executed applied"
    " processed accepted_and_executed finished settled captured"
)
_BAD: Final = words(
    "error failed failure fail false denied declined rejected refused cancelled_by_system blocked"
    " forbidden unauthorized unauthorised invalid not_found expired timeout timed_out aborted"
)
_CHARACTERS_MAX: Final = 20_000
_OBJECTS_MAX: Final = 8


def told(steps: Iterable[Step], known: Sequence[Nameable]) -> Iterator[Claim]:
    """The claims of tool results, in the steps' order."""
    of_name: dict[str, Nameable | None] = {}
    for step in steps:
        if not tells(step) or step.tool is None or not step.tool.name:
            continue
        name = step.tool.name
        if name not in of_name:
            of_name[name] = named_as(name, known)
        tool = of_name[name]
        if tool is None or tool.reading or is_control(tool.name):
            continue
        result = _object(step.tool.result)
        state = _state(result, tool) if result is not None else None
        if result is None or state is None:
            continue
        rule, status = state
        amount, currency = _money(result)
        yield Claim(
            claim_id="",
            subject=tool.name,
            status=status,
            source="tool_result",
            rule=rule,
            step_id=step.step_id,
            action=tool.act,
            objects=_objects(result),
            amount=amount,
            currency=currency,
            confidence=OF_RULE[rule],
        )


def tells(step: Step) -> bool:
    """Whether a step shows the result of a tool that ran."""
    return (
        step.kind == "tool_call"
        and step.tool is not None
        and step.tool.result is not None
        and step.status not in ("requested_only", "denied", "deferred")
    )


def _object(result: Any) -> Mapping[str, Any] | None:
    """The JSON object of a result; of MCP content, that of its only text."""
    if isinstance(result, list) and len(result) == 1:
        result = result[0]
    if isinstance(result, Mapping):
        content = result.get("content")
        if isinstance(content, list) and len(content) == 1 and "structuredContent" not in result:
            inner = _object(content[0].get("text") if isinstance(content[0], Mapping) else None)
            failed = result.get("isError") is True
            return {"isError": True} if failed else inner
        structured = result.get("structuredContent")
        if isinstance(structured, Mapping) and result.get("isError") is not True:
            return structured
        return result
    if isinstance(result, str) and result[:1] == "{" and len(result) <= _CHARACTERS_MAX:
        try:
            read = json.loads(result)
        except (ValueError, RecursionError):
            return None
        return read if isinstance(read, dict) else None
    return None


def _state(result: Mapping[str, Any], tool: Nameable) -> tuple[str, ClaimStatus] | None:
    if any(result.get(key) not in (None, False, "", [], {}, 0) for key in _ERRORS):
        return "T2", "failure"
    for key in _STATES:
        value = result.get(key)
        if isinstance(value, bool):
            return "T1", "success" if value else "failure"
        if isinstance(value, str) and value:
            return "T1", _said(value, tool)
    return None


def _said(value: str, tool: Nameable) -> ClaimStatus:
    word = value.strip().lower().replace(" ", "_").replace("-", "_")
    own_act = is_past(word) and stem(word) in tool.stems
    if word in _GOOD or own_act:
        return "success"
    return "failure" if word in _BAD else "unknown"


def _money(result: Mapping[str, Any]) -> tuple[str | None, str | None]:
    value, currency = result.get("amount"), result.get("currency")
    if isinstance(value, Mapping):
        value, currency = value.get("value", value.get("amount")), value.get("currency", currency)
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None, None
    try:
        exact = Decimal(str(value).strip())
    except InvalidOperation:
        return None, None
    if not exact.is_finite() or abs(exact.adjusted()) >= 40:
        return None, None
    known = isinstance(currency, str) and len(currency) == 3
    return plain_decimal(exact), currency.upper() if known and isinstance(currency, str) else None


def _objects(result: Mapping[str, Any]) -> tuple[str, ...]:
    found = (
        str(value)
        for key, value in result.items()
        if (key == "id" or key.endswith(("_id", "Id", "_number", "reference")))
        and isinstance(value, str | int)
        and not isinstance(value, bool)
        and value != ""
        and len(str(value)) <= 80
    )
    return tuple(dict.fromkeys(found))[:_OBJECTS_MAX]
