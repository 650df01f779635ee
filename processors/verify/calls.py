"""Receipts put together into calls: what the gateway knows of one attempt, as one thing.

Rules
1. ``authorised`` and ``executed`` of one call and attempt are one Call; the last phase speaks.
2. A refusal and a replay are Calls of their own: neither is an effect.
3. An authorisation without an execution is a visible gap: its effect is unknown, whatever it says.
4. The same receipts give the same calls in order of start, however often each one comes.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct

from processors.model.call import EffectKnown, Receipt, ReceiptFact
from processors.model.evidence import Evidence

_PHASES = {"accepted": -1, "authorised": 0, "refused": 1, "replayed": 2, "executed": 3}
_HELD: dict[EffectKnown, bool | None] = {"confirmed": True, "not_executed": False, "unknown": None}


class Call(Struct, frozen=True, kw_only=True):
    """One attempt through the gateway: ``last`` is the receipt that speaks for it."""

    last: Receipt
    receipt_ids: tuple[str, ...]
    arguments: dict[str, Any] | None

    @property
    def has_effect(self) -> bool:
        """Whether the attempt itself may have done something."""
        return self.last.phase in ("authorised", "executed") and self.held is not False

    @property
    def held(self) -> bool | None:
        """Whether the effect is known to be there."""
        return None if self.last.phase == "authorised" else _HELD[self.last.effect]


def calls(facts: Iterable[ReceiptFact]) -> tuple[Call, ...]:
    """The calls that receipts tell of, in order of start."""
    groups: dict[tuple[str, ...], dict[str, ReceiptFact]] = {}
    for fact in facts:
        receipt = fact.receipt
        single = receipt.phase in ("refused", "replayed")
        key = (
            ("one", receipt.receipt_id)
            if single
            else ("call", receipt.call_id, str(receipt.attempt))
        )
        groups.setdefault(key, {}).setdefault(receipt.receipt_id, fact)
    found = [_call(sorted(group.values(), key=_place)) for group in groups.values()]
    return tuple(sorted(found, key=lambda call: (call.last.started_at_ns, call.last.receipt_id)))


def _place(fact: ReceiptFact) -> tuple[int, int, str]:
    receipt = fact.receipt
    return _PHASES[receipt.phase], receipt.finished_at_ns, receipt.receipt_id


def _call(group: Sequence[ReceiptFact]) -> Call:
    arguments = [fact.arguments for fact in group if fact.arguments is not None]
    return Call(
        last=group[-1].receipt,
        receipt_ids=tuple(fact.receipt.receipt_id for fact in group),
        arguments=arguments[-1] if arguments else None,
    )


def evidence(call: Call, step_id: str, now_ns: int) -> Evidence:
    """What a call proves about a step. ``data`` holds what judging needs, and the arguments."""
    receipt = call.last
    data: dict[str, Any] = {
        "effect": "unknown" if receipt.phase == "authorised" else receipt.effect,
        "class": receipt.class_,
        "phase": receipt.phase,
        "status": receipt.status,
        "action": receipt.action_hash,
        "approved": receipt.approval_id is not None,
    }
    if call.arguments is not None:
        data["arguments"] = call.arguments
    return Evidence(
        evidence_id=f"receipt:{receipt.receipt_id}",
        source="receipt",
        name="gateway",
        held=call.held,
        subject=receipt.tool,
        step_id=step_id,
        receipt_id=receipt.receipt_id,
        observed_ns=receipt.finished_at_ns or now_ns,
        detail=receipt.code,
        data=data,
    )
