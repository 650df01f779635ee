"""Tool calls that a model asked for, joined with what was executed and with what a model was shown.

Rules
1. An id on both sides joins; among several askers the last before the execution, each used once.
2. Without an id: same agent, name and arguments; then name and arguments; then same agent and name;
   then name: in order of start. Identical parallel calls pair in order; no id is claimed by that.
3. A request that nothing executed but that a later input answers *was executed*: source
   ``messages``.
4. A request that nothing executed and nothing answers is ``requested_only``.
5. A call the provider carries out itself is executed, answered in the same reply or not at all.
6. The n-th request of an id is answered by the n-th answer of that id: ids restart with every turn.

Source: "Joining and merging" of docs/specs/trace.md.
"""

import re
from collections import defaultdict, deque
from collections.abc import Hashable, Iterable

from msgspec import Struct

from processors.assemble.gather import ANSWERED, Node
from processors.assemble.tree import Tree
from processors.model.names import ContentState
from processors.model.step import Part
from processors.value import canonical, parse

Answer = tuple[Node, Part]


class Request(Struct, frozen=True, kw_only=True):
    """The ``index``-th tool call that the model call ``node`` asked for; ``arguments`` parsed."""

    node: Node
    index: int
    part: Part
    agent: str | None
    arguments: object
    state: ContentState
    answer: Answer | None = None

    @property
    def served(self) -> bool:
        """Whether the provider itself carries the call out."""
        return self.part.type == "server_tool_call"


class Joined(Struct, frozen=True, kw_only=True):
    """Executions (by node key) with their requests, and the requests that nothing executed."""

    executed: dict[str, Request]
    left: tuple[Request, ...]


def join(tree: Tree) -> Joined:
    """Which request each executed tool call answers to, and which requests are left."""
    nodes = sorted(tree.nodes.values(), key=lambda node: (node.start_ns, node.key))
    requests = _requests(tree, nodes)
    executions = [node for node in nodes if node.reading.kind == "tool_call"]
    executed: dict[str, Request] = {}
    free = dict.fromkeys(range(len(requests)))
    _by_id(requests, executions, executed, free)
    for rung in _LADDER:
        _by_key(
            requests, [n for n in executions if n.key not in executed], executed, free, rung, tree
        )
    left = _without_handoffs([requests[number] for number in free], tree)
    return Joined(executed=executed, left=tuple(left))


def _requests(tree: Tree, nodes: list[Node]) -> list[Request]:
    models = [node for node in nodes if node.reading.kind == "model_call"]
    answers = _answers(models)
    asked: dict[str | None, int] = defaultdict(int)
    found: list[Request] = []
    for node in models:
        agent = tree.agent_above(node.key) if node.calls else None
        for index, part in enumerate(node.calls):
            number = asked[part.id]
            asked[part.id] += 1
            answer = _answer(node, part, answers.get((part.id, number)))
            arguments, state = parse(part.content)
            if part.content is None:
                state = "absent"
            found.append(
                Request(
                    node=node,
                    index=index,
                    part=part,
                    agent=agent,
                    arguments=arguments,
                    state=state,
                    answer=answer,
                )
            )
    return found


def _answer(node: Node, part: Part, shown: Answer | None) -> Answer | None:
    """The answer a later input shows, or that the reply itself holds (rule 5)."""
    if part.type == "server_tool_call":
        for message in node.reading.messages_out or ():
            for own in message.parts:
                if own.type in ANSWERED and own.id == part.id:
                    return node, own
    if shown is None or shown[0].key == node.key or shown[0].start_ns < node.start_ns:
        return None
    return shown


def _answers(models: list[Node]) -> dict[tuple[str | None, int], Answer]:
    """The first input that shows the n-th answer to an id. Linear in what the inputs hold."""
    found: dict[tuple[str | None, int], Answer] = {}
    for node in models:
        seen: dict[str | None, int] = defaultdict(int)
        for part in node.answers:
            place = (part.id, seen[part.id])
            seen[part.id] += 1
            found.setdefault(place, (node, part))
    return found


def _by_id(
    requests: list[Request],
    executions: list[Node],
    executed: dict[str, Request],
    free: dict[int, None],
) -> None:
    later: dict[str, deque[int]] = defaultdict(deque)
    asked: dict[str, list[int]] = defaultdict(list)
    for number, request in enumerate(requests):
        if request.part.id:
            later[request.part.id].append(number)
    for node in executions:
        call_id = node.reading.tool.call_id if node.reading.tool else None
        if call_id is None or call_id not in later:
            continue
        queue, stack = later[call_id], asked[call_id]
        while queue and _before(requests[queue[0]], node):
            stack.append(queue.popleft())
        if stack or queue:  # clocks of two hosts may disagree: the id weighs more than the time
            number = stack.pop() if stack else queue.popleft()
            executed[node.key] = requests[number]
            del free[number]


def _before(request: Request, node: Node) -> bool:
    return request.node.start_ns <= node.start_ns


def _answered_before(request: Request, node: Node) -> bool:
    """Whether the model had seen the answer when the execution began.

    A transcript has no times, so that its requests never say.
    """
    if request.node.reading.subtype == "told":
        return False
    return request.answer is not None and request.answer[0].start_ns < node.start_ns


# Rule 2, from the surest: (same agent, same arguments); the name is always the same.
_LADDER = ((True, True), (False, True), (True, False), (False, False))


def _key(
    rung: tuple[bool, bool], agent: str | None, name: str | None, arguments: object
) -> Hashable:
    same_agent, same_arguments = rung
    return (
        agent if same_agent else None,
        name,
        canonical(arguments) if same_arguments else None,
    )


def _by_key(
    requests: list[Request],
    executions: list[Node],
    executed: dict[str, Request],
    free: dict[int, None],
    rung: tuple[bool, bool],
    tree: Tree,
) -> None:
    if not executions or not free:
        return
    waiting: dict[Hashable, deque[int]] = defaultdict(deque)
    for number in free:
        request = requests[number]
        waiting[_key(rung, request.agent, request.part.name, request.arguments)].append(number)
    for node in executions:
        tool = node.reading.tool
        if tool is None:
            continue
        queue = waiting.get(_key(rung, tree.agent_above(node.key), tool.name, tool.arguments))
        while queue and _answered_before(requests[queue[0]], node):
            queue.popleft()  # executions come in order of start: it fits no later one either
        if queue and _before(requests[queue[0]], node):
            number = queue.popleft()
            executed[node.key] = requests[number]
            del free[number]


def _without_handoffs(requests: list[Request], tree: Tree) -> Iterable[Request]:
    """Where handoffs have spans, requests for one are no tool calls, carried out or not.

    Nor is the tool by which a framework has the model say its final answer.
    """
    if not requests:
        return
    nodes = list(tree.nodes.values())
    handed = [node for node in nodes if node.reading.kind == "handoff"]
    agents = {str(node.reading.attributes.get("handoff.to")).lower() for node in handed}
    agents |= {(n.reading.agent.name or "").lower() for n in nodes if n.reading.agent}
    finals = any(node.reading.subtype == "final_answer" for node in nodes)
    for request in requests:
        name = (request.part.name or "").lower()
        if finals and name in ("final_answer", "finish"):
            continue
        if handed and _hands_over(name, request.arguments, agents):
            continue
        yield request


def _hands_over(name: str, arguments: object, agents: set[str]) -> bool:
    """Whether a call hands the run over: to an agent by name, or without any argument.

    A transfer of anything else has arguments.
    """
    named = _HANDOFF.match(name)
    if named is None:
        return False
    return name == "transfer_to_agent" or arguments in (None, {}, "") or named[1] in agents


_HANDOFF = re.compile(r"(?:transfer|hand_?off|hand_?over|delegate)_?(?:back_)?(?:to_)?(.*)", re.S)
