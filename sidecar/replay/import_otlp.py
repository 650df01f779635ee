"""Agent traces as tapes: what OTLP told of a run, in events.

**Rules**
1. Model calls, tool calls with their results, retrievals (a call of ``retrieve``), decisions,
   guardrails, hand-overs and human input become events; agents and other spans are frames only. An
   agent that failed is an error event, the end of the trace the terminal one.
2. Order is the trace's; a result stands where its call ended. Calls of one parent that overlap are
   concurrent: each comes after what came before the first of them, and no one after another.
3. A first event of an agent comes after what the agent that started it had done.
4. Fidelity is L0 without any content, L2 where every model call has its input and every tool call
   its arguments and result, else L1; a trace with gaps is one lower.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from msgspec.structs import replace

from processors.model.names import Capture
from processors.model.step import Message, Step, Usage
from processors.model.trace import AgentTrace
from sidecar.replay.import_tape import Imported, file_name, lowered
from sidecar.tape.compose import Fact
from sidecar.tape.model import AgentBuild, Fidelity, Header
from sidecar.tape.moment import moment

MAPPING = "agenttwin-normalise/1"
_GAPS = frozenset({"trace_over_limit", "late_after_expiry"})
_CALLS = ("tool_call", "retrieval")
_DECISIONS = ("policy_decision", "guardrail", "handoff")


def taped(trace: AgentTrace, capture: Capture, known: Iterable[str] = ()) -> Imported:
    """The tape of a trace; ``known``: gaps that the telemetry had and a trace does not show."""
    gaps = tuple(sorted({*gaps_of(trace), *known}))
    starts = [step.start_ns for step in trace.steps if step.start_ns]
    header = Header(
        tape_id=f"otlp-{trace.trace_id}",
        trace_ids=trace.trace_ids or (trace.trace_id,),
        source="otlp",
        fidelity=lowered(_fidelity(trace), gaps, capture),
        gaps=gaps,
        mapping=MAPPING,
        agent=AgentBuild(name=trace.service.name, version=trace.service.version),
        models=models_of(trace),
        tenant=trace.project,
        captured_at=moment(min(starts, default=0)),
    )
    facts = Facts(trace).made()
    return Imported(name=file_name(trace.trace_id), header=header, facts=facts)


class Facts:
    """The events of one trace, as they are put in order."""

    def __init__(self, trace: AgentTrace) -> None:
        self._trace = trace
        self._by_id = {step.step_id: step for step in trace.steps}
        self._facts: list[Fact] = []
        self._frontiers: defaultdict[str, list[int]] = defaultdict(list)
        self._open: list[tuple[int, int, Step]] = []
        self._group_of = _groups(trace)
        self._bases: dict[int, tuple[int, ...]] = {}

    def made(self) -> list[Fact]:
        """All of them, the terminal one last."""
        for step in self._trace.steps:
            self._close(step.start_ns)
            self._begin(step)
        self._close(None)
        for step in self._trace.steps:
            if step.kind == "agent" and step.status == "error" and step.error is not None:
                self._add(step, Fact(kind="error", error=_error(step)))
        self._facts.append(self._terminal())
        return self._facts

    def _terminal(self) -> Fact:
        return terminal(self._trace)

    def _begin(self, step: Step) -> None:
        if step.kind in _CALLS:
            self._call(step)
        elif step.kind == "model_call":
            self._add(step, _model_call(step))
        elif step.kind in _DECISIONS:
            self._add(step, _decision(step))
        elif step.kind == "human_input":
            self._add(step, Fact(kind="human_input", seam="human", output=step.output))

    def _call(self, step: Step) -> None:
        if step.decision is not None:
            self._add(step, _decided(step))
        asked = Fact(kind="tool_call", seam="tool", **_given("input", step))
        seq = self._add(step, replace(asked, status="unset", end_ns=None))
        if step.status == "requested_only":
            return
        if step.end_ns > step.start_ns:
            self._open.append((step.end_ns, seq, step))
        else:
            self._result(seq, step)

    def _close(self, now_ns: int | None) -> None:
        """Write the results of calls that had ended by then; None: of all."""
        ended = [one for one in self._open if now_ns is None or one[0] <= now_ns]
        for one in sorted(ended, key=lambda one: one[:2]):
            self._open.remove(one)
            self._result(one[1], one[2])

    def _result(self, seq: int, step: Step) -> None:
        fact = Fact(
            kind="tool_result",
            seam="tool",
            cause=(seq,),
            error=_error(step),
            **_given("output", step),
        )
        self._add(step, fact)

    def _add(self, step: Step, fact: Fact) -> int:
        agent = agent_of(step)
        seq = len(self._facts)
        frontier = self._frontiers[agent]
        cause = fact.cause or self._cause(step, fact, agent)
        self._facts.append(
            replace(
                fact,
                agent=agent,
                name=fact.name or _name(step),
                cause=cause,
                status=step.status
                if fact.status == "unset" and fact.kind != "tool_call"
                else fact.status,
                start_ns=fact.start_ns or step.start_ns or None,
                end_ns=None if fact.kind == "tool_call" else fact.end_ns or step.end_ns or None,
            )
        )
        if not cause:
            frontier.clear()
        frontier.append(seq)
        return seq

    def _cause(self, step: Step, fact: Fact, agent: str) -> tuple[int, ...]:
        group = self._group_of.get(step.step_id)
        if group is not None and fact.kind == "tool_call":
            return self._bases.setdefault(group, tuple(self._frontiers[agent]))
        if self._frontiers[agent]:
            return ()
        parent = self._by_id.get(step.parent_step_id or "")
        for _ in range(len(self._by_id)):
            if parent is None:
                return ()
            known = self._frontiers.get(agent_of(parent))
            if known:
                return tuple(known)
            parent = self._by_id.get(parent.parent_step_id or "")
        return ()


def _groups(trace: AgentTrace) -> dict[str, int]:
    """Step to the number of the overlapping calls of one parent that it belongs to."""
    siblings: defaultdict[str | None, list[Step]] = defaultdict(list)
    for step in trace.steps:
        if step.kind in _CALLS and step.end_ns > step.start_ns > 0:
            siblings[step.parent_step_id].append(step)
    found: dict[str, int] = {}
    number = 0
    for steps in siblings.values():
        steps.sort(key=lambda step: step.start_ns)
        together: list[Step] = []
        end = 0
        for step in steps:
            if step.start_ns >= end:
                together, number = [], number + 1
            together.append(step)
            end = max(end, step.end_ns)
            if len(together) > 1:
                found |= dict.fromkeys((one.step_id for one in together[-2:]), number)
    return found


def _given(side: str, step: Step) -> dict[str, Any]:
    tool = step.tool
    value = (tool.arguments if side == "input" else tool.result) if tool is not None else None
    if value is None and side == "output" and step.kind == "retrieval":
        value = step.output
    return {} if value is None else {side: value}


def _name(step: Step) -> str:
    if step.kind == "retrieval":
        return "retrieve"
    if step.tool is not None and step.tool.name:
        return step.tool.name
    return step.name


def agent_of(step: Step) -> str:
    """The name of a step's agent; empty where nobody says."""
    return (step.agent.name or step.agent.id or "") if step.agent is not None else ""


def _model_call(step: Step) -> Fact:
    model = step.model
    name = (model.request_model or model.response_model if model else None) or step.name
    payloads: dict[str, Any] = {}
    if step.messages_in:
        payloads["input"] = {"messages": _messages(step.messages_in)}
    if step.messages_out:
        payloads["output"] = {"messages": _messages(step.messages_out)}
    elif step.output is not None:
        payloads["output"] = step.output
    return Fact(
        kind="llm_call",
        seam="provider",
        name=name,
        usage=_usage(step.usage),
        error=_error(step),
        **payloads,
    )


def _messages(messages: tuple[Message, ...]) -> list[Any]:
    return [msgspec.to_builtins(message) for message in messages]


def _usage(usage: Usage | None) -> dict[str, int]:
    if usage is None:
        return {}
    said = msgspec.to_builtins(usage)
    return {key: item for key, item in said.items() if isinstance(item, int)}


def _decision(step: Step) -> Fact:
    effect = step.decision.effect if step.decision is not None else None
    said = {"subtype": step.kind, "effect": effect, "output": step.output}
    return Fact(
        kind="decision", output={key: item for key, item in said.items() if item is not None}
    )


def _decided(step: Step) -> Fact:
    assert step.decision is not None
    output = {
        "subtype": "policy_decision",
        "effect": step.decision.effect,
        "reasons": list(step.decision.reasons),
        "source": step.decision.source,
    }
    return Fact(kind="decision", output=output, status="ok")


def _error(step: Step) -> tuple[str, str | None] | None:
    if step.error is None:
        return None
    return step.error.type or "error", step.error.message


def terminal(trace: AgentTrace) -> Fact:
    """How a trace ended."""
    roots = [step for step in trace.steps if step.kind == "agent" and step.parent_step_id is None]
    claimed = sorted({claim.status for claim in trace.claims})
    output = {
        "output": trace.final_output,
        "claimed": claimed or None,
        "verified": trace.outcome.status,
        "reason": "as the trace says",
    }
    ends = [step.end_ns for step in trace.steps if step.end_ns]
    return Fact(
        kind="terminal",
        output={key: item for key, item in output.items() if item is not None},
        status=roots[0].status if roots else "unset",
        end_ns=max(ends, default=None),
    )


def models_of(trace: AgentTrace) -> tuple[str, ...]:
    """The models a trace names, in order of name."""
    named = {
        step.model.response_model or step.model.request_model for step in trace.steps if step.model
    }
    return tuple(sorted(name for name in named if name))


def _fidelity(trace: AgentTrace) -> Fidelity:
    present = list(_present(trace))
    if not any(present):
        return "L0"
    return "L2" if all(present) else "L1"


def _present(trace: AgentTrace) -> Iterator[bool]:
    for step in trace.steps:
        yield from present(step)


def present(step: Step) -> Iterator[bool]:
    """Whether each content that a step should have is there."""
    if step.kind == "model_call":
        yield bool(step.messages_in)
    elif step.kind in _CALLS and step.status != "requested_only":
        yield bool(_given("input", step)) or step.kind == "retrieval"
        if step.status in ("ok", "unset"):
            yield bool(_given("output", step))


def gaps_of(trace: AgentTrace) -> set[str]:
    """What a trace shows to be missing from it."""
    found = {warning.code for warning in trace.warnings if warning.code in _GAPS}
    if trace.completeness != "complete":
        found.add(trace.completeness)
    if any("truncated" in step.content_state.values() for step in trace.steps):
        found.add("truncated_content")
    return found
