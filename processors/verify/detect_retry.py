"""Acts that cannot be taken back and were made again: after a success, or after a failure that may
have been none.

Rules
1. A failure is a refusal only where it says so (invalid, not found, denied, 4xx); a time-out, a
   lost connection, a 5xx and a failure without a word may hide an effect.
2. A second attempt is safe where the arguments carry an idempotency key, where the gateway answered
   it from the first, and where independent evidence says that the first had no effect.
3. An attempt repeats an earlier one when its identifiers, amounts and names are equal; a text that
   was only put into other words is no difference after a failure. After a success all must equal.
"""

import json
from collections.abc import Iterator, Sequence
from decimal import Decimal, InvalidOperation
from itertools import chain, pairwise
from typing import Any, Final

import re2

from processors.model.detection import DetectionSeverity, Exhibit
from processors.verify.detect_calls import Run, ToolUse
from processors.verify.detect_found import Found
from processors.verify.detect_values import leaves
from processors.verify.effects import NO_DUPLICATE

_TEXT_MAX: Final = 2_000
_LEAVES_MAX: Final = 200
_PROSE_WORDS_LEAST: Final = 4
_KEYS = re2.compile(r"(?i)idempot|dedup|request_?id|client_?token|client_?reference|nonce")
_LOST = re2.compile(
    r"(?i)time[d]?[ _-]?out|deadline|connection|reset by|broken pipe|unavailable|unreachable"
    r"|outcome_unknown|unknown (?:outcome|state|result|error)|no (?:whole )?(?:answer"
    r"|response|reply)"
    r"|\b(?:408|50[0-9])\b|http_(?:408|50)|bad gateway|internal (?:server )?error|temporar"
    r"|CancelledError|interrupted|aborted|\beof\b|hang ?up|econn|etimedout|overload"
)
_REFUSED = re2.compile(
    r"(?i)invalid|validation|schema|malformed|missing|required|must be|not (?:found"
    r"|allowed|permitted"
    r"|authori[sz]ed|eligible|refundable|enough|supported)|forbidden|unauthori[sz]ed|denied|declin"
    r"|reject|refus|insufficient|permission|bad request|unprocessable|conflict|already|exceed"
    r"|\b4(?:00|01|02|03|04|05|06|09|10|12|13|15|22|28|29)\b|http_4|too (?:many|large)"
    r"|rate.?limit|TypeError|KeyError"
    r"|does not (?:exist|add|match|equal)|mismatch|incorrect|no such|expired"
    r"|unknown (?:tool|order|customer)"
)


def retries(run: Run) -> Iterator[Found]:
    """Every act made again that should not have been, in order of the second attempt."""
    acts = [
        use for use in run.uses if use.executed and use.arguments is not None and use.irreversible
    ]
    if len(acts) < 2 and not any(len(use.receipts) > 1 for use in acts):
        return
    checked = {
        item.subject
        for item in run.trace.evidence
        if item.name == NO_DUPLICATE and item.held is True and item.source in ("probe", "twin")
    }
    groups: dict[tuple[str, str], list[ToolUse]] = {}
    for use in acts:
        groups.setdefault((use.name, _salient(use.arguments)), []).append(use)
    for (name, _), attempts in groups.items():
        harmless = name in checked
        told: set[str] = set()
        pairs = pairwise(attempts)
        for found in chain(
            (one for use in attempts for one in _within(use, harmless)),
            (one for pair in pairs for one in _again(*pair, attempts, harmless, told)),
        ):
            if found.code not in told:  # further attempts at the same stand in its steps
                told.add(found.code)
                yield found
            if len(told) == 2 or found.code == "unsafe_retry":
                break


def _again(
    earlier: ToolUse,
    later: ToolUse,
    attempts: Sequence[ToolUse],
    harmless: bool,
    told: set[str],
) -> Iterator[Found]:
    if _keyed(later.arguments) or _replayed(later) or _never_happened(earlier):
        return
    if later.failed and is_refusal(later):
        return
    if not earlier.failed:
        if earlier.key == later.key and "repeated_call" not in told:
            yield _repeated(earlier, later, attempts, harmless)
        return
    words = _words(earlier)
    if is_refusal(earlier):
        return
    lost = _LOST.search(words) is not None
    yield Found(
        code="unsafe_retry",
        severity=_severity(later, sure=lost, harmless=harmless),
        sentence=f"{later.name} was called again after an attempt that "
        + ("got no whole answer" if lost else "failed without saying that nothing happened")
        + ", with nothing that makes a second attempt safe",
        remedy="send one idempotency key with every attempt, or look first whether the first "
        "took effect",
        steps=[use.step.step_id for use in attempts],
        subjects=(later.name,),
        evidence=[
            Exhibit(
                role="first attempt", step_id=earlier.step.step_id, field="error", excerpt=words
            ),
            Exhibit(role="second attempt", step_id=later.step.step_id, field="arguments"),
        ],
        measures={"attempts": len(attempts)},
    )


def _repeated(
    earlier: ToolUse, later: ToolUse, attempts: Sequence[ToolUse], harmless: bool
) -> Found:
    return Found(
        code="repeated_call",
        severity=_severity(later, sure=True, harmless=harmless),
        sentence=f"{later.name}, which cannot be taken back, was called again with equal arguments "
        "after it had succeeded",
        remedy="send one idempotency key for one intent; let the model see that the call succeeded",
        steps=[use.step.step_id for use in attempts],
        subjects=(later.name,),
        evidence=[
            Exhibit(role="first call", step_id=earlier.step.step_id, field="arguments"),
            Exhibit(role="second call", step_id=later.step.step_id, field="arguments"),
        ],
        measures={"attempts": len(attempts)},
    )


def _within(use: ToolUse, harmless: bool) -> Iterator[Found]:
    """Attempts that only the gateway tells apart: several receipts of one step."""
    sent = [item for item in use.receipts if item.data.get("phase") in ("executed", "authorised")]
    for earlier, later in pairwise(sent):
        if earlier.held is False or earlier.data.get("action") != later.data.get("action"):
            continue
        yield Found(
            code="unsafe_retry" if earlier.held is None else "repeated_call",
            severity=_severity(use, sure=True, harmless=harmless),
            sentence=f"{use.name} went through the gateway again although the first attempt "
            + ("may have had its effect" if earlier.held is None else "had had its effect"),
            remedy="send one idempotency key with every attempt",
            steps=[use.step.step_id],
            subjects=(use.name,),
            evidence=[
                Exhibit(role="first attempt", step_id=use.step.step_id, field=earlier.evidence_id),
                Exhibit(role="second attempt", step_id=use.step.step_id, field=later.evidence_id),
            ],
            measures={"attempts": len(sent)},
        )


def _severity(use: ToolUse, *, sure: bool, harmless: bool) -> DetectionSeverity:
    """Critical where the tool is declared irreversible; less where a name or silence says so."""
    if harmless:
        return "minor"
    return "critical" if sure and use.class_ == "irreversible" else "major"


def _never_happened(use: ToolUse) -> bool:
    """Whether the gateway knows that an attempt had no effect."""
    return bool(use.receipts) and all(item.held is False for item in use.receipts)


def _replayed(use: ToolUse) -> bool:
    return bool(use.receipts) and all(
        item.data.get("phase") in ("replayed", "refused") for item in use.receipts
    )


def _words(use: ToolUse) -> str:
    """What a failed call says of itself: type, message and result, at most 2,000 characters."""
    error = use.step.error
    said = [error.type or "", error.message or ""] if error is not None else []
    result = use.result
    if isinstance(result, str):
        said.append(result[:_TEXT_MAX])
    elif result is not None:
        said += [
            str(leaf)[:_TEXT_MAX] for _, (_, leaf) in zip(range(20), leaves(result), strict=False)
        ]
    return " ".join(text for text in said if text)[:_TEXT_MAX]


def is_refusal(use: ToolUse) -> bool:
    """Whether a failed call says itself that it did nothing (rule 1)."""
    words = _words(use)
    return _LOST.search(words) is None and _REFUSED.search(words) is not None


def _keyed(arguments: Any) -> bool:
    return isinstance(arguments, dict) and any(
        _KEYS.search(str(name)) is not None and value not in (None, "")
        for name, value in arguments.items()
    )


def _salient(arguments: Any) -> str:
    """The arguments without free text, numbers by value: equal for attempts at one thing."""
    found: list[Sequence[str]] = []
    for number, (place, leaf) in enumerate(leaves(arguments)):
        if number >= _LEAVES_MAX:
            break
        if isinstance(leaf, str):
            text = " ".join(leaf.casefold().split())
            if len(text.split()) < _PROSE_WORDS_LEAST:
                found.append((place, _number(text)))
        else:
            found.append((place, _number(repr(leaf))))
    if not found:
        return json.dumps(str(arguments)[:_TEXT_MAX])
    return json.dumps(sorted(found))


def _number(text: str) -> str:
    if len(text) > 40 or not text[:1].isdigit():
        return text
    try:
        return format(Decimal(text).normalize(), "f")
    except InvalidOperation:
        return text
