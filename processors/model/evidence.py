"""Claim, Evidence, Contradiction, Outcome: what an agent said, and what the world shows.

Rules
1. A claim comes from the agent (its final answer, ``agenttwin.claim.*``); it proves nothing.
2. Evidence is independent of the agent: a gateway receipt, a probe, twin state. Anything else is a
   claim.
3. ``held`` is three-valued: True, False, or None when the evidence could not be had (unknown).
4. Only independent evidence raises an outcome; what the agent emits may only lower it.
"""

from typing import Any, Literal

from msgspec import Struct

from processors.model.names import OutcomeStatus

EvidenceSource = Literal["receipt", "probe", "twin", "emitter"]


class Claim(Struct, frozen=True, kw_only=True):
    """Something the agent said is so. ``subject`` is a tool or effect name (``issue_refund``)."""

    claim_id: str
    subject: str | None
    status: Literal["success", "failure", "unknown"]
    source: Literal["final_answer", "attribute"]
    rule: str
    step_id: str | None = None
    text: str | None = None


class Evidence(Struct, frozen=True, kw_only=True):
    """One independent observation about a step or the whole trace."""

    evidence_id: str
    source: EvidenceSource
    name: str
    held: bool | None
    subject: str | None = None
    step_id: str | None = None
    receipt_id: str | None = None
    observed_ns: int = 0
    detail: str | None = None
    data: dict[str, Any] = {}


ContradictionCode = Literal[
    "claimed_success_state_failed",
    "claimed_failure_effect_happened",
    "duplicate_effect",
    "span_without_receipt",
    "receipt_without_span",
    "span_ok_receipt_error",
]


class Contradiction(Struct, frozen=True, kw_only=True):
    """A claim or span against the world; ``evidence`` holds evidence ids."""

    code: ContradictionCode
    detail: str
    step_id: str | None = None
    evidence: tuple[str, ...] = ()


class Outcome(Struct, frozen=True, kw_only=True):
    """What may be concluded about the trace."""

    status: OutcomeStatus = "unverified"
    contradictions: tuple[Contradiction, ...] = ()
