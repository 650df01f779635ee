"""Claim, Evidence, Contradiction, Outcome: what an agent said, and what the world shows.

Rules
1. A claim comes from the agent's side (its final answer, ``agenttwin.claim.*``, what a tool's
   result says of itself); it proves nothing.
2. Evidence is independent of the agent: a gateway receipt, a probe, twin state. Anything else is a
   claim.
3. ``held`` is three-valued: True, False, or None when the evidence could not be had (unknown).
4. Only independent evidence raises an outcome; what the agent emits may only lower it.
"""

from typing import Any, Literal

from msgspec import Struct

from processors.model.names import OutcomeStatus

EvidenceSource = Literal["receipt", "probe", "twin", "emitter"]
ClaimStatus = Literal["success", "failure", "unknown"]
ClaimSource = Literal["final_answer", "attribute", "tool_result", "llm"]


class Claim(Struct, frozen=True, kw_only=True):
    """Something the agent's side said is so.

    ``subject`` is a tool or effect name (``issue_refund``), None the run as a whole; ``status`` is
    the claim's polarity. ``action`` is the act in the tool's own word (``refund``), ``objects`` the
    identifiers named, ``amount`` an exact decimal text with an ISO 4217 ``currency``; ``count`` of
    ``total`` where only a part was claimed. ``confidence`` (0 to 1) tells how surely it was said;
    ``language`` is that of the text (ISO 639-1), None where there was no text to read.
    """

    claim_id: str
    subject: str | None
    status: ClaimStatus
    source: ClaimSource
    rule: str
    step_id: str | None = None
    text: str | None = None
    action: str | None = None
    objects: tuple[str, ...] = ()
    amount: str | None = None
    currency: str | None = None
    count: int | None = None
    total: int | None = None
    confidence: float = 1.0
    language: str | None = None


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
    "wrong_amount",
    "wrong_target",
    "duplicate_effect",
    "span_without_receipt",
    "receipt_without_span",
    "span_ok_receipt_error",
]


class Contradiction(Struct, frozen=True, kw_only=True):
    """A claim or span against the world.

    ``detail`` is one plain sentence. ``said`` holds the agent's side: ids of claims or of steps;
    ``evidence`` the world's: ids of evidence, none where the absence of any is the point.
    """

    code: ContradictionCode
    detail: str
    step_id: str | None = None
    evidence: tuple[str, ...] = ()
    said: tuple[str, ...] = ()


class Outcome(Struct, frozen=True, kw_only=True):
    """What may be concluded about the trace."""

    status: OutcomeStatus = "unverified"
    contradictions: tuple[Contradiction, ...] = ()
