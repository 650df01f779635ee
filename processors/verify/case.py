"""What is judged of a run: its trace, claims and effects, and the registry's classes.

Rules
1. Evidence counts in the order of its time and id, however it came: its order changes nothing.
2. A statement is what one source said in one place: the answer as a whole, one declaration, one
   tool's result. Only what the same statement says as well can excuse it.
"""

from collections.abc import Mapping
from functools import cached_property

from msgspec import Struct

from processors.model.evidence import Claim
from processors.model.names import SideEffectClass
from processors.model.step import Step
from processors.model.trace import AgentTrace
from processors.verify.certainty import ACCUSES
from processors.verify.effects import Effect, same_target
from processors.verify.subjects import registered, same_tool


class Case(Struct, frozen=True, kw_only=True, dict=True):
    """What is judged: the trace, its claims and effects, and the registry's classes."""

    trace: AgentTrace
    claims: tuple[Claim, ...]
    effects: tuple[Effect, ...]
    tools: Mapping[str, SideEffectClass]

    @cached_property
    def executed(self) -> tuple[tuple[Step, str | None], ...]:
        """The tool calls that the agent's own telemetry says were executed, each with the
        registry's name of its tool."""
        names: dict[str | None, str | None] = {None: None, "": None}
        found = []
        for step in self.trace.steps:
            if step.kind != "tool_call" or step.status in ("requested_only", "denied", "deferred"):
                continue
            if any(source.kind != "receipt" for source in step.sources):
                name = step.tool.name if step.tool is not None else None
                if name not in names:
                    names[name] = registered(name or "", self.tools)
                found.append((step, names[name]))
        return tuple(found)

    def of(self, subject: str | None) -> list[Effect]:
        """The effects of a claim's subject; of the run as a whole all but reads."""
        if subject is None:
            return [effect for effect in self.effects if effect.class_ != "read"]
        return [
            effect
            for effect in self.effects
            if effect.subject is not None and same_tool(effect.subject, subject)
        ]

    def claimed(self, subject: str | None, status: str, by: Claim | None = None) -> bool:
        """Whether a claim of this status was made of just this subject, in ``by``'s statement."""
        return any(
            item.status == status
            and (by is None or same_statement(item, by))
            and (
                item.subject == subject
                or (subject and item.subject and same_tool(subject, item.subject))
            )
            for item in self.claims
        )

    def plainly_failed(self, effect: Effect) -> bool:
        """Whether an effect's being absent is the end of it: nothing made it good, all is known.

        Only then may an admission excuse: the run has failed, whatever is said.
        """
        if any(other.proved and other.held is None for other in self.effects):
            return False
        return effect.held is False and not any(
            other.held and same_target(effect, other)
            for other in self.effects
            if other.subject == effect.subject
        )

    def denied(self, effect: Effect) -> bool:
        """Whether the tool's own last result says that an effect failed, which no state proves."""
        if effect.states or not effect.step_ids:
            return False
        said = [
            item.status
            for item in self.claims
            if item.source == "tool_result" and item.step_id in effect.step_ids
        ]
        return bool(said) and said[-1] == "failure"


def same_statement(left: Claim, right: Claim) -> bool:
    """Whether two claims were made in one statement (rule 2)."""
    if left.source != right.source:
        return False
    return left.source in ("final_answer", "llm") or left.step_id == right.step_id


def accuses(claim: Claim) -> bool:
    """Whether a claim was said surely enough to stand against evidence."""
    return claim.confidence >= ACCUSES
