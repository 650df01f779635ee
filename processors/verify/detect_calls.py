"""The tool calls of a run as detectors look at them: one list in causal order, made once.

Rules
1. A call counts once: of calls of one tool with the same arguments inside one another the outer.
2. A call's class is the registry's word, else its receipt's, else what its name says: a reading
   verb reads, a verb of giving away or undoing cannot be taken back, any other may have an effect.
3. Arguments nobody captured are unknown, and equal to nothing.
4. What is looked at of a call is looked at once.
"""

import hashlib
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Final

from processors.model.evidence import Evidence
from processors.model.names import SideEffectClass
from processors.model.step import Step
from processors.model.trace import AgentTrace
from processors.verify.pairing import argument_key
from processors.verify.subjects import (
    is_control,
    is_reading,
    registered,
    same_tool,
    spellings,
    split_words,
    words,
)

_HOPS_MAX: Final = 64
_KEY_CHARACTERS_MAX: Final = 128
_NOT_EXECUTED: Final = ("requested_only", "denied", "deferred")
# Verbs of acts that a second time does not undo: money, messages, deletion, orders.
_GIVING: Final = words(
    "refund pay send transfer wire charge debit credit issue purchase buy order book delete remove"
    " email mail post publish ship dispatch withdraw donate reimburse payout deposit cancel sms"
    " submit transmit remit forward notify escalate"
)
_READ_ONLY_TAILS: Final = words("status history details info policy list")


class ToolUse:
    """One tool call of a run. ``place`` is its index among the trace's steps."""

    __slots__ = (
        *("_key", "_outcome", "_reading", "class_", "executed", "failed"),
        *("name", "place", "receipts", "step"),
    )

    def __init__(
        self,
        place: int,
        step: Step,
        name: str,
        class_: SideEffectClass | None,
        receipts: Sequence[Evidence],
    ) -> None:
        self.place = place
        self.step = step
        self.name = name
        self.class_ = class_
        self.receipts = receipts
        self.executed = step.status not in _NOT_EXECUTED  # as far as telemetry and receipts tell
        self.failed = step.status in ("error", "cancelled")  # as the telemetry says
        self._key: str | None = None
        self._outcome: str | None = None
        self._reading: bool | None = None

    @property
    def key(self) -> str | None:
        """A text equal for equal arguments; None where they are unknown."""
        if self._key is None and self.arguments is not None:
            self._key = digest(self.arguments)
        return self._key

    @property
    def arguments(self) -> Any:
        """The arguments, None where unknown."""
        return self.step.tool.arguments if self.step.tool is not None else None

    @property
    def result(self) -> Any:
        """The result, None where unknown."""
        return self.step.tool.result if self.step.tool is not None else None

    @property
    def reading(self) -> bool:
        """Whether it has no effect."""
        if self.class_ is not None:
            return self.class_ == "read"
        if self._reading is None:
            self._reading = is_reading(self.name) or is_control(self.name) or _tells(self.name)
        return self._reading

    @property
    def irreversible(self) -> bool:
        """Whether its effect cannot be taken back, by registry, receipt or name."""
        if self.class_ is not None:
            return self.class_ == "irreversible"
        return not self.reading and _gives(self.name)

    @property
    def outcome(self) -> str | None:
        """A digest of what came of it, equal for equal outcomes; None where unknown."""
        if self._outcome is None:
            error = self.step.error
            said = digest(self.result)
            if said is None and error is not None:
                said = digest(error.message or error.type)
            self._outcome = f"{self.step.status}:{said}" if said is not None else ""
        return self._outcome or None


def digest(value: Any) -> str | None:
    """A short text equal for equal JSON values; None for None."""
    key = argument_key(value)
    if key is None or len(key) <= _KEY_CHARACTERS_MAX:
        return key
    return hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _gives(name: str) -> bool:
    found = split_words(spellings(name)[-1]) if name else ()
    return bool(_GIVING & frozenset(found[:2])) and not (_READ_ONLY_TAILS & frozenset(found[-1:]))


def _tells(name: str) -> bool:
    found = split_words(spellings(name)[-1]) if name else ()
    return bool(found) and found[-1] in _READ_ONLY_TAILS and not (_GIVING & frozenset(found[:1]))


class Run:
    """A trace and its tool calls. ``uses`` are in causal order."""

    def __init__(self, trace: AgentTrace, tools: Mapping[str, SideEffectClass]) -> None:
        self.trace = trace
        self.tools = tools
        self.uses = self._uses()

    def _uses(self) -> list[ToolUse]:
        calls = [
            (place, step) for place, step in enumerate(self.trace.steps) if step.kind == "tool_call"
        ]
        if not calls:
            return []
        receipts: dict[str | None, list[Evidence]] = {}
        for item in self.trace.evidence:
            if item.source == "receipt":
                receipts.setdefault(item.step_id, []).append(item)
        found, names = [], dict[str, str | None]()
        for place, step in calls:
            own = receipts.get(step.step_id, ())
            name = (step.tool.name if step.tool is not None else None) or step.name
            if name not in names:
                names[name] = registered(name, self.tools) if name else None
            known = names[name]
            class_ = self.tools[known] if known is not None else _receipted(own)
            found.append(ToolUse(place, step, known or name, class_, own))
        return self._outer(found)

    def _outer(self, uses: list[ToolUse]) -> list[ToolUse]:
        """Rule 1; and a call that only runs agents or other tools is theirs, like a read."""
        by_id = {use.step.step_id: use for use in uses}
        if by_id.keys().isdisjoint([step.parent_step_id for step in self.trace.steps]):
            return uses
        above = _tools_above(self.trace.steps, by_id)
        kept = []
        for use in uses:
            outer = above.get(use.step.step_id)
            same = outer is not None and same_tool(outer.name, use.name)
            if outer is not None and same and (outer.key is None or outer.key == use.key):
                continue
            if outer is not None and not same and outer.class_ is None:
                outer.class_ = "read"
            kept.append(use)
        return kept

    @cached_property
    def lanes(self) -> list[list[ToolUse]]:
        """The calls of each agent, in order."""
        found: dict[str, list[ToolUse]] = {}
        for use in self.uses:
            agent = use.step.agent
            found.setdefault((agent.id or agent.name or "") if agent else "", []).append(use)
        return list(found.values())


def _receipted(receipts: Sequence[Evidence]) -> SideEffectClass | None:
    class_ = next((item.data.get("class") for item in receipts), None)
    return class_ if class_ in ("read", "write", "irreversible") else None


def _tools_above(steps: Sequence[Step], uses: Mapping[str, ToolUse]) -> dict[str, ToolUse]:
    """The nearest tool call above each tool call; chains are walked once."""
    parents = {step.step_id: step.parent_step_id for step in steps}
    nearest: dict[str, ToolUse | None] = {}
    found = {}
    for step_id in uses:
        path: list[str] = []
        above = parents.get(step_id)
        use: ToolUse | None = None
        while above is not None and len(path) < _HOPS_MAX:
            if above in uses:
                use = uses[above]
                break
            if above in nearest:
                use = nearest[above]
                break
            path.append(above)
            above = parents.get(above)
        nearest.update((one, use) for one in path)
        if use is not None and use.step.step_id != step_id:
            found[step_id] = use
    return found
