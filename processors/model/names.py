"""The attribute keys of ours, and the closed sets of words that appear in them.

Rules
1. A name of ours is spelt once, here; docs/reference/attributes.md lists the same names.
2. Inbound ``agenttwin.*`` other than ``agenttwin.claim.*`` is stripped: an emitter cannot speak for
   us.
"""

from typing import Literal

PREFIX = "agenttwin."
CLAIM_PREFIX = "agenttwin.claim."

CLAIM_SUBJECT = "agenttwin.claim.subject"
CLAIM_STATUS = "agenttwin.claim.status"
CLAIM_TEXT = "agenttwin.claim.text"
CLAIM_ACTION = "agenttwin.claim.action"
CLAIM_OBJECT = "agenttwin.claim.object"
CLAIM_AMOUNT = "agenttwin.claim.amount"
CLAIM_CURRENCY = "agenttwin.claim.currency"
CLAIM_CONFIDENCE = "agenttwin.claim.confidence"
CLAIM_EVENT = "agenttwin.claim"
CLAIM_EVENT_PREFIX = "agenttwin.claim.event."

OUTCOME_STATUS = "agenttwin.outcome.status"
STEP_KIND = "agenttwin.step.kind"
CALL_TOOL = "agenttwin.call.tool"
CALL_CLASS = "agenttwin.call.class"
DECISION_EFFECT = "agenttwin.decision.effect"
DECISION_ID = "agenttwin.decision.id"
RECEIPT_ID = "agenttwin.receipt.id"
CONTRADICTION_CODES = "agenttwin.contradiction.codes"
DETECTION_CODES = "agenttwin.detection.codes"
DETECTION_SEVERITY = "agenttwin.detection.severity"
TRACE_DIGEST = "agenttwin.trace.digest"
PROJECT = "agenttwin.project"
VIA = "agenttwin.via"

BAGGAGE_EPISODE = "agenttwin-episode"

StepKind = Literal[
    "agent",
    "model_call",
    "tool_call",
    "policy_decision",
    "retrieval",
    "handoff",
    "guardrail",
    "evaluation",
    "human_input",
    "other",
]
StepStatus = Literal["ok", "error", "denied", "cancelled", "deferred", "requested_only", "unset"]
ContentState = Literal[
    "captured",
    "absent",
    "empty",
    "null",
    "redacted",
    "truncated",
    "invalid_json",
    "repr",
    "external_ref",
    "binary",
    "recovered",
]
Completeness = Literal["complete", "open", "missing_root", "orphans", "truncated"]
OutcomeStatus = Literal[
    "verified_success", "verified_failure", "contradicted", "unverified", "indeterminate"
]
Effect = Literal["allow", "allow_with_limits", "require_approval", "deny"]
SideEffectClass = Literal["read", "write", "irreversible"]
Capture = Literal["off", "redacted", "full"]
PrincipalKind = Literal["agent", "approver", "reader", "admin", "episode"]
VerdictStatus = Literal["PASS", "WARN", "BLOCK"]
