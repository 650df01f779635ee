"""What a run adds up to: tokens, the final answer, the conversation.

Rules
1. Tokens are those of the model calls; a sum that an agent reports counts only where nothing below
   it has any.
2. The final answer is the last text of the outermost agent that says one, else that of the last
   model call that answered with text and asked for no tool.
3. The conversation is the first that a step names.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence

from processors.model.message import text_of
from processors.model.step import Message, Step, Usage
from processors.value import parse

_DUMP = re.compile(r"\s*(?:[{\[]|[A-Za-z_][\w.]*\(\w+=)")  # JSON cut short, or a Python object
_FIELDS = ("input", "output", "cache_read", "cache_write", "reasoning")


def usage_total(steps: Sequence[Step]) -> Usage:
    """The tokens of the run; a field that nothing reports is None."""
    reported = [step for step in steps if step.usage is not None]
    if all(step.kind == "model_call" for step in reported):
        return _sum(step.usage for step in reported) or Usage()
    children: dict[str | None, list[Step]] = defaultdict(list)
    for step in steps:
        children[step.parent_step_id].append(step)
    totals: dict[str, Usage | None] = {}
    for step in reversed(steps):  # children come after their parents
        below = [totals.get(child.step_id) for child in children[step.step_id]]
        own = step.usage if step.kind == "model_call" else None
        summed = _sum([own, *below])
        totals[step.step_id] = summed or (step.usage if step.kind != "model_call" else None)
    known = {step.step_id for step in steps}
    tops = [step for step in steps if step.parent_step_id not in known]
    return _sum(totals[step.step_id] for step in tops) or Usage()


def _sum(usages: Iterable[Usage | None]) -> Usage | None:
    known = [usage for usage in usages if usage is not None]
    if not known:
        return None
    if len(known) == 1 and known[0].scope == "own":
        return known[0]
    counts = {
        field: sum(values)
        if (values := [v for u in known if (v := getattr(u, field)) is not None])
        else None
        for field in _FIELDS
    }
    return Usage(**counts, scope="own")


def final_output(steps: Sequence[Step]) -> str | None:
    """The text of the agent's last answer, or None when there was none."""
    agents = {step.step_id for step in steps if step.kind == "agent"}
    parents = {step.step_id: step.parent_step_id for step in steps}
    seen: dict[str, bool] = {}
    outer = [s for s in steps if s.kind == "agent" and not _below(s, agents, parents, seen)]
    calls = [step for step in steps if step.kind == "model_call"]
    for step in (*_latest_first(outer), *_latest_first(calls)):
        text = _answer(step.messages_out or ()) or _plain(step)
        if text and text.strip():
            return text.strip()
    return None


def _latest_first(steps: Iterable[Step]) -> list[Step]:
    return sorted(steps, key=lambda s: (s.end_ns, s.start_ns, s.step_id), reverse=True)


def _plain(step: Step) -> str | None:
    """An agent's output where it is a text and no dump of its state."""
    if step.kind != "agent":
        return None
    output, _ = parse(step.output)
    return output if isinstance(output, str) and not _DUMP.match(output) else None


def _below(
    step: Step, agents: set[str], parents: dict[str, str | None], seen: dict[str, bool]
) -> bool:
    """Whether an agent is above; ``seen`` tells it of the steps that were passed."""
    passed: list[str] = []
    above = step.parent_step_id
    while above is not None and above not in agents and above not in seen:
        passed.append(above)
        above = parents.get(above)
    found = above is not None and (above in agents or seen[above])
    seen.update(dict.fromkeys(passed, found))
    return found


def _answer(said: Sequence[Message]) -> str | None:
    """The last text said, unless tools were asked for beside it or after."""
    answer: str | None = None
    for message in said:
        if any(part.type == "tool_call" for part in message.parts):
            answer = None
            continue
        answer = text_of(message) or answer
    asked = any(part.type == "tool_call" for message in said[-2:] for part in message.parts)
    return None if asked and len(said) <= 2 else answer
