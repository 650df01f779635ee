"""Policy decisions and guards as others report them: agent-governance-toolkit, ContextForge, plain.

Rules
1. A decision is a step of its own, source ``emitter``; it is never ours and never changes a call.
2. Words of allowance and refusal are mapped; any other word is ``unknown``. Nothing infers
   ``allow``: not a missing refusal, not a guard that ran.
3. ContextForge's ``tool.id`` is the registry's id of the tool, no call id.

Source: microsoft/agent-governance-toolkit agent-mesh/governance/otel_observability.py,
agent-os/otel_audit_backend.py; IBM/mcp-context-forge mcpgateway/observability.py.
"""

from collections.abc import Mapping
from typing import Any

from processors.model.fragment import RANK_DECISION, RANK_TOOL, Reading
from processors.model.records import effect_word
from processors.model.span import Span
from processors.model.step import Agent, StepDecision, Tool
from processors.value import first, first_name, name, parse

DIALECT = "governance"
FAMILIES = frozenset({"agt", "policy", "gen_ai.guardrail", "tool.name"})
EVENTS: frozenset[str] = frozenset()
FIELDS: dict[str, tuple[str, ...]] = {
    "effect": (
        *("agt.policy.action", "agt.approval.outcome", "agt.audit.decision", "policy.decision"),
        *("agt.policy.decision", "gen_ai.guardrail.result.value"),
    ),
    "reason": ("agt.policy.rule", "agt.audit.reason", "policy.reason", "agt.policy.name"),
    "tool": ("agt.tool.name", "agt.audit.action"),
    "agent": ("agt.agent.id",),
}
MAPPED = frozenset(
    key for field in ("effect", "agent") for key in FIELDS[field] if key != "policy.decision"
)
PREFIXES: tuple[str, ...] = ()
_FORGE = "tool.invoke"


def read_span(span: Span) -> Reading | None:
    """What a decision's or a guard's span says; None for any other span."""
    attributes = span.attributes
    written = first_name(attributes, FIELDS["effect"])
    guarded = any(key.startswith("gen_ai.guardrail.") for key in attributes)
    if written is not None or span.name.startswith("agt."):
        return _decision(attributes, written, guarded)
    if guarded:
        return Reading(dialect=DIALECT, kind="guardrail", rank=RANK_DECISION)
    return _forge(attributes) if span.name == _FORGE else None


def _decision(attributes: Mapping[str, Any], written: str | None, guarded: bool) -> Reading:
    reasons = tuple(
        reason for key in FIELDS["reason"] if (reason := name(attributes.get(key))) is not None
    )
    agent = first_name(attributes, FIELDS["agent"])
    tool = first_name(attributes, FIELDS["tool"])
    return Reading(
        dialect=DIALECT,
        kind="guardrail" if guarded else "policy_decision",
        rank=RANK_DECISION,
        agent=Agent(name=agent) if agent else None,
        decision=StepDecision(effect=effect_word(written), reasons=reasons, source="emitter"),
        attributes={"decision.tool": tool} if tool else {},
    )


def _forge(attributes: Mapping[str, Any]) -> Reading:
    arguments, _ = parse(first(attributes, ("tool.arguments", "arguments")))
    return Reading(
        dialect=DIALECT,
        kind="tool_call",
        rank=RANK_TOOL,
        tool=Tool(
            name=name(attributes.get("tool.name")),
            namespace=first_name(attributes, ("server.name", "tool.gateway_id", "server.id")),
            arguments=arguments if isinstance(arguments, dict) else None,
        ),
        status="error" if attributes.get("success") in (False, "false") else None,
    )
