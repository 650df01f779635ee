"""Fragments of spans and records become agent traces: the last look before anything is judged.

Rules
1. The result depends on the set of fragments alone: not on order, repetition or how they were
   batched.
2. Every span stands in some step's ``sources``; a span that nobody understands is a step ``other``.
3. Spans whose parent never came hang below a synthetic root where the trace has none of its own
   (completeness ``missing_root``), else they are ``orphans``.
4. A step's agent is its own, else that of the nearest agent above.

``gather`` makes nodes, ``ids`` names calls, ``stitch`` runs, ``tree`` parents and merges,
``functions`` and ``join`` tool calls, ``order`` the order, ``summary`` the totals.
"""

from collections import Counter
from collections.abc import Iterable

import msgspec

from processors.assemble.functions import promote
from processors.assemble.gather import Node, gather
from processors.assemble.ids import named
from processors.assemble.join import Joined, Request, join
from processors.assemble.order import ordered
from processors.assemble.stitch import clues, runs
from processors.assemble.summary import final_output, usage_total
from processors.assemble.told import first_hand
from processors.assemble.tools import differs, executed_tool, judged, requested_tool
from processors.assemble.tree import Tree, build_tree
from processors.model.fragment import Fragment
from processors.model.message import text_of
from processors.model.names import Completeness, ContentState, StepStatus
from processors.model.step import Agent, Source, Step, StepError, Tool
from processors.model.trace import AgentTrace, Service, TraceWarning

_SKEW_NS = 300_000_000_000


def assemble(fragments: Iterable[Fragment], *, project: str, now_ns: int) -> tuple[AgentTrace, ...]:
    """One trace for each run that the fragments tell of, in order of start.

    ``now_ns`` is the time of assembly: a span that starts well after it is warned of
    (``clock_skew``).
    """
    return clued(fragments, project=project, now_ns=now_ns)[0]


def clued(
    fragments: Iterable[Fragment], *, project: str, now_ns: int
) -> tuple[tuple[AgentTrace, ...], frozenset[str]]:
    """The traces, and the words by which what belongs to them elsewhere is found (``stitch``)."""
    nodes = named(gather(fragments))
    traces = tuple(_trace(run, project, now_ns) for run in runs(nodes))
    return traces, clues(nodes)


def clues_of(fragments: Iterable[Fragment]) -> frozenset[str]:
    """Those words alone, of fragments that need not be all of a trace."""
    return clues(named(gather(fragments)))


def _trace(nodes: list[Node], project: str, now_ns: int) -> AgentTrace:
    nodes = first_hand(nodes)
    tree = build_tree(nodes)
    promote(tree)
    joined = join(tree)
    agents = _agents(tree)
    warnings: list[TraceWarning] = []
    steps = [_step(tree, node, joined, agents, warnings) for node in tree.nodes.values()]
    edges = [*_result_edges(joined), *_asked_edges(tree, joined)]
    for request in joined.left:
        step = _requested_step(tree, request, agents)
        steps.append(step)
        if request.answer is not None and request.answer[0] is not request.node:
            edges.append((step.step_id, request.answer[0].key))
    warnings += _skewed(nodes, now_ns)
    completeness, root = _completeness(tree, nodes, steps)
    if root is not None:
        steps = [root, *(_below(root, step) for step in steps)]
    sorted_steps = ordered(steps, edges)
    trace_ids = tuple(dict.fromkeys(node.fragment.trace_id for node in nodes))
    return AgentTrace(
        trace_id=trace_ids[0],
        trace_ids=trace_ids,
        conversation_id=_conversation(nodes),
        service=_service(nodes),
        project=project,
        completeness=completeness,
        warnings=tuple(sorted(warnings, key=lambda w: (w.code, w.detail))),
        steps=sorted_steps,
        final_output=final_output(sorted_steps),
        usage_total=usage_total(sorted_steps),
    )


def _step(
    tree: Tree,
    node: Node,
    joined: Joined,
    agents: dict[str, Agent],
    warnings: list[TraceWarning],
) -> Step:
    reading = node.reading
    kind = reading.kind or "other"
    request = joined.executed.get(node.key)
    status, error = reading.status or "unset", reading.error
    tool: Tool | None = None
    states = _message_states(node) if kind == "model_call" else {}
    if kind == "tool_call":
        tool, states = executed_tool(reading.tool or Tool(), reading.content_state, request)
        status, error = judged(status, error, tool.result, request)
        if differs(tool, request):
            warnings.append(TraceWarning(code="args_mismatch", detail=node.key))
    return Step(
        step_id=node.key,
        kind=kind,
        name=(tool.name if tool and tool.name else None) or node.fragment.name,
        subtype=reading.subtype,
        parent_step_id=tree.parent(node.key),
        agent=agents.get(node.key),
        start_ns=node.start_ns,
        end_ns=node.end_ns,
        status=status,
        error=error,
        model=reading.model if kind == "model_call" else None,
        usage=reading.usage,
        messages_in=reading.messages_in,
        messages_out=reading.messages_out,
        output=_output(node),
        tool=tool,
        decision=reading.decision,
        content_state=states,
        attributes=reading.attributes,
        sources=node.sources,
    )


def _output(node: Node) -> object:
    reading = node.reading
    if reading.output is not None or reading.kind != "agent" or not reading.messages_out:
        return reading.output
    return text_of(reading.messages_out[-1])


def _message_states(node: Node) -> dict[str, ContentState]:
    reading = node.reading
    states: dict[str, ContentState] = {}
    for field, value in (
        ("messages_in", reading.messages_in),
        ("messages_out", reading.messages_out),
    ):
        state = reading.content_state.get(field, "captured" if value else "absent")
        states[field] = "recovered" if value and state not in ("captured", "repr") else state
    return states


def _requested_step(tree: Tree, request: Request, agents: dict[str, Agent]) -> Step:
    """The step of a call that only messages tell of: executed when answered."""
    node = request.node
    tool, states = requested_tool(request)
    status: StepStatus = "unset" if request.served else "requested_only"
    error: StepError | None = None
    end_ns = node.end_ns
    if request.answer is not None:
        status, error = judged("unset", None, tool.result, request)
        end_ns = max(node.end_ns, request.answer[0].start_ns)
    return Step(
        step_id=f"{node.key}:{request.index + 1}",
        kind="tool_call",
        name=tool.name or "",
        parent_step_id=tree.parent(node.key),
        agent=agents.get(node.key),
        start_ns=node.end_ns,
        end_ns=end_ns,
        status=status,
        error=error,
        tool=tool,
        content_state=states,
        sources=(_messages_source(node),),
    )


def _messages_source(node: Node) -> Source:
    return Source(
        kind="messages",
        trace_id=node.fragment.trace_id,
        span_id=node.fragment.span_id,
        dialect=node.reading.dialect,
    )


def _result_edges(joined: Joined) -> Iterable[tuple[str, str]]:
    """An execution comes before the input that shows its result."""
    for key, request in joined.executed.items():
        if request.answer is not None:
            yield key, request.answer[0].key


def _asked_edges(tree: Tree, joined: Joined) -> Iterable[tuple[str, str]]:
    """Calls of one reply that start in the same instant run in the order they were asked for."""
    last: dict[str, tuple[int, str]] = {}
    asked = sorted(
        (request.node.key, request.index, key) for key, request in joined.executed.items()
    )
    for asker, _, key in asked:
        start_ns = tree.nodes[key].start_ns
        before = last.get(asker)
        if before is not None and before[0] == start_ns:
            yield before[1], key
        last[asker] = (start_ns, key)


def _agents(tree: Tree) -> dict[str, Agent]:
    """The agent of each node: its own, else the nearest above."""
    found: dict[str, Agent] = {}
    for key, node in tree.nodes.items():
        own = node.reading.agent
        if own and own.name:
            found[key] = own
            continue
        above = tree.agent_above(key)
        named = tree.nodes[above].reading.agent if above else None
        if named or own:
            found[key] = named or own or Agent()
    return found


def _completeness(
    tree: Tree, nodes: list[Node], steps: list[Step]
) -> tuple[Completeness, Step | None]:
    """How whole the run is, and the synthetic root when it needs one."""
    still_open = any(node.fragment.end_ns == 0 and not node.log_only for node in nodes)
    if not tree.orphans:
        return ("open" if still_open else "complete"), None
    rooted = any(tree.parent(key) is None and key not in tree.orphans for key in tree.nodes)
    if rooted:
        return "orphans", None
    return "missing_root", _synthetic_root(nodes, steps)


def _synthetic_root(nodes: list[Node], steps: list[Step]) -> Step:
    return Step(
        step_id=f"{nodes[0].fragment.trace_id}:root",
        kind="other",
        subtype="synthetic_root",
        name="missing root",
        start_ns=min(step.start_ns for step in steps),
        end_ns=max(step.end_ns for step in steps),
    )


def _below(root: Step, step: Step) -> Step:
    if step.parent_step_id is not None:
        return step
    return msgspec.structs.replace(step, parent_step_id=root.step_id)


def _skewed(nodes: list[Node], now_ns: int) -> list[TraceWarning]:
    ahead = [node.key for node in nodes if node.start_ns > now_ns + _SKEW_NS]
    return [TraceWarning(code="clock_skew", detail=key) for key in ahead]


def _conversation(nodes: list[Node]) -> str | None:
    return next((n.reading.conversation_id for n in nodes if n.reading.conversation_id), None)


def _service(nodes: list[Node]) -> Service:
    """The service of the earliest agent step, else the one most spans come from."""
    for node in nodes:
        if node.reading.kind == "agent" and node.fragment.service.name:
            return node.fragment.service
    named = [node.fragment.service for node in nodes if node.fragment.service.name]
    if not named:
        return Service()
    if all(service is named[0] for service in named):
        return named[0]
    counted = Counter(named)
    return min(counted, key=lambda s: (-counted[s], s.name or "", s.version or ""))
