"""Acts: the steps of a trace as they are compared, and the first at which two traces part.

Rules
1. An act is what was done (kind, name), with what (given), what came of it (got), and its status.
2. A model call is compared by what it decided, not by what it was shown: its input repeats earlier
   acts.
3. The first difference is the end of the longest common prefix, per agent; ids and times are none.
4. Bookkeeping (agent spans, policy decisions, unknown spans) is no act.
"""

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct

from processors.model.step import Step
from processors.model.trace import AgentTrace
from sidecar.evaluate.matching import same
from sidecar.replay.scrub import Scrubber

_NO_ACT = frozenset({"agent", "other", "policy_decision"})
DifferenceKind = Literal[
    "insert", "delete", "replaced", "input_changed", "output_changed", "status_changed", "answer"
]


class Act(Struct, frozen=True, kw_only=True):
    """One comparable step."""

    agent: str
    kind: str
    name: str
    given: Any
    got: Any
    status: str
    step_id: str


class Difference(Struct, frozen=True, kw_only=True):
    """Where two traces part. ``index`` counts the agent's acts from 1; the texts are for people.

    ``decided`` when both sides were model calls that decided differently.
    """

    kind: DifferenceKind
    agent: str
    index: int
    baseline: str | None
    candidate: str | None
    pointer: str = ""
    baseline_step: str | None = None
    candidate_step: str | None = None
    decided: bool = False

    def text(self) -> str:
        """One sentence."""
        place = f"step {self.index}" + (f" of {self.agent}" if self.agent else "")
        if self.kind == "insert":
            return f"{place}: the candidate goes on with {self.candidate}, the baseline had ended"
        if self.kind == "delete":
            return f"{place}: the candidate ends, the baseline went on with {self.baseline}"
        where = f" at {self.pointer}" if self.pointer else ""
        words = {
            "replaced": "did",
            "input_changed": f"gave other input{where}:",
            "output_changed": f"got another result{where}:",
            "status_changed": "ended otherwise:",
            "answer": "answered otherwise:",
        }
        if self.decided:
            return (
                f"{place}: the candidate's model {self.candidate}; the baseline's {self.baseline}"
            )
        return f"{place}: candidate {words[self.kind]} {self.candidate}; baseline: {self.baseline}"


def acts(trace: AgentTrace) -> list[Act]:
    """The comparable steps of a trace, in order."""
    answered = {
        item.step_id: item.data.get("status")
        for item in trace.evidence
        if item.source == "receipt" and item.step_id is not None
    }
    return [_act(step, answered) for step in trace.steps if step.kind not in _NO_ACT]


class Told(Struct, frozen=True, kw_only=True):
    """One side of a comparison: its acts, its answer, and how to take ids out."""

    acts: list[Act]
    answer: Any
    scrub: Scrubber


def first_difference(baseline: Told, candidate: Told) -> Difference | None:
    """Where the two part first, or None."""
    found = []
    for agent in dict.fromkeys(act.agent for act in (*candidate.acts, *baseline.acts)):
        one = _per_agent(agent, _scrubbed(baseline, agent), _scrubbed(candidate, agent))
        if one is not None:
            found.append(one)
    if found:
        return min(found, key=lambda difference: _position(difference, baseline, candidate))
    left, right = baseline.scrub(baseline.answer), candidate.scrub(candidate.answer)
    if same(left, right):
        return None
    return Difference(
        kind="answer",
        agent="",
        index=len(candidate.acts) + 1,
        baseline=_short(left),
        candidate=_short(right),
        pointer=pointer(left, right),
    )


def pointer(left: Any, right: Any) -> str:
    """JSON pointer of the first place where two values differ; empty at the root."""
    if isinstance(left, dict) and isinstance(right, dict):
        for name in sorted({*left, *right}, key=str):
            if name not in left or name not in right or not same(left[name], right[name]):
                escaped = str(name).replace("~", "~0").replace("/", "~1")
                return f"/{escaped}" + pointer(left.get(name), right.get(name))
    if isinstance(left, list) and isinstance(right, list):
        for index in range(max(len(left), len(right))):
            there = index < len(left) and index < len(right)
            if not there:
                return f"/{index}"
            if not same(left[index], right[index]):
                return f"/{index}" + pointer(left[index], right[index])
    return ""


def _per_agent(agent: str, left: list[Act], right: list[Act]) -> Difference | None:
    for index in range(max(len(left), len(right))):
        one = left[index] if index < len(left) else None
        other = right[index] if index < len(right) else None
        kind, where = _parting(one, other)
        if kind is not None:
            return Difference(
                kind=kind,
                agent=agent,
                index=index + 1,
                baseline=_told(one, kind),
                candidate=_told(other, kind),
                pointer=where,
                baseline_step=one.step_id if one else None,
                candidate_step=other.step_id if other else None,
                decided=kind == "output_changed" and one is not None and one.kind == "model_call",
            )
    return None


def _parting(one: Act | None, other: Act | None) -> tuple[DifferenceKind | None, str]:
    if one is None:
        return "insert", ""
    if other is None:
        return "delete", ""
    if (one.kind, one.name) != (other.kind, other.name):
        return "replaced", ""
    # What one side did not record is no difference.
    if one.given is not None and other.given is not None and not same(one.given, other.given):
        return "input_changed", pointer(one.given, other.given)
    if one.got is not None and other.got is not None and not same(one.got, other.got):
        return "output_changed", pointer(one.got, other.got)
    if one.status != other.status:
        return "status_changed", ""
    return None, ""


def _position(difference: Difference, baseline: Told, candidate: Told) -> int:
    for side, step in (
        (candidate, difference.candidate_step),
        (baseline, difference.baseline_step),
    ):
        for index, act in enumerate(side.acts):
            if act.step_id == step:
                return index
    return len(candidate.acts)


def _scrubbed(told: Told, agent: str) -> list[Act]:
    return [
        Act(
            agent=agent,
            kind=act.kind,
            name=act.name,
            given=told.scrub(act.given),
            got=told.scrub(act.got),
            status=act.status,
            step_id=act.step_id,
        )
        for act in told.acts
        if act.agent == agent
    ]


def _act(step: Step, answered: Mapping[str, Any]) -> Act:
    given: Any = None
    got: Any = step.output
    name = step.name
    if step.kind == "tool_call" and step.tool is not None:
        name = step.tool.name or step.name
        given = step.tool.arguments
        got = step.tool.result
    elif step.kind == "model_call":
        name = (step.model.request_model if step.model else None) or ""
        got = _decided(step)
    return Act(
        agent=(step.agent.name if step.agent else None) or "",
        kind=step.kind,
        name=name,
        given=given,
        got=got,
        status=f"{step.status} {answered.get(step.step_id) or ''}".rstrip(),
        step_id=step.step_id,
    )


def _decided(step: Step) -> Any:
    decided: list[Any] = []
    for message in step.messages_out or ():
        for part in message.parts:
            if part.type == "tool_call":
                decided.append({"call": part.name, "arguments": part.content})
            elif part.type == "text" and part.content:
                decided.append({"say": part.content})
    return decided or None


def _told(act: Act | None, kind: DifferenceKind) -> str | None:
    if act is None:
        return None
    if act.kind == "model_call":
        return _short(act.got) if act.got is not None else "decides something that is not recorded"
    said = f"{act.name}({_arguments(act.given)})" if act.kind == "tool_call" else act.name
    if kind == "output_changed":
        return f"{said} -> {_short(act.got)}"
    return f"{said} ({act.status})" if kind == "status_changed" else said


def _arguments(given: Any) -> str:
    if isinstance(given, dict):
        return ", ".join(f"{name}={_short(value, 60)}" for name, value in given.items())
    return "" if given is None else _short(given)


def _short(value: Any, chars: int = 160) -> str:
    if isinstance(value, list) and value and isinstance(value[0], dict):
        text = "; ".join(_decision(item) for item in value)
    else:
        text = value if isinstance(value, str) else repr(value)
    text = " ".join(text.split())
    return text if len(text) <= chars else text[: chars - 1] + "…"


def _decision(item: Any) -> str:
    if isinstance(item, dict) and "call" in item:
        return f"asks for {item['call']}({_arguments(item.get('arguments'))})"
    if isinstance(item, dict) and "say" in item:
        return f"says {item['say']!r}"
    return repr(item)
