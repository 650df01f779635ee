"""CrewAI: what OpenLLMetry (``crewai.*``) and OpenInference (``crew_*``) add to their own words.

Rules
1. A crew is the run; its result is the answer. A task's transcript tells of the model calls, where
   no instrumentation of the model's client does.
2. The crew's usage is a sum. OpenLLMetry writes it as ``total_tokens=1110 prompt_tokens=970 …``.
3. OpenLLMetry writes task outputs as a Python repr.
4. A tool's name for the model stands in its description: ``Tool Name: delegate_work_to_coworker``.

Source: openllmetry packages/opentelemetry-instrumentation-crewai; openinference
python/instrumentation/openinference-instrumentation-crewai; crewAI src/crewai/tasks/task_output.py.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from processors.model.exchange import counts
from processors.model.fragment import RANK_DISCRIMINATOR, RANK_HANDOFF, RANK_NONE, Reading, Told
from processors.model.message import messages
from processors.model.reprs import read_repr
from processors.model.span import Span
from processors.model.step import Agent, Tool, Usage
from processors.model.transcript import told_calls
from processors.value import integer, name, parse

DIALECT = "crewai"
FAMILIES = frozenset({"crewai", "crew_key", "crew_agents"})
EVENTS: frozenset[str] = frozenset()
MAPPED = frozenset({"crewai.crew.result", "crewai.crew.token_usage", "crewai.crew.tasks_output"})
PREFIXES: tuple[str, ...] = ()
_COUNT = re.compile(r"(\w+)=(\d+)")
_TOOL_NAME = re.compile(r"Tool Name:\s*([\w.-]+)\s*(?:\n|$)")


def read_span(span: Span) -> Reading | None:
    """What a CrewAI span says beside the dialect it is written in."""
    attributes = span.attributes
    kind = attributes.get("openinference.span.kind")
    if "crewai.crew.id" in attributes or "crewai.crew.result" in attributes:
        return _crew(span, attributes)
    if "crewai.task.id" in attributes:
        return Reading(dialect=DIALECT, kind="other", rank=RANK_HANDOFF, subtype="task")
    if kind == "TOOL":
        return _tool(attributes)
    if kind == "AGENT" or "crew_agents" in attributes:
        return _openinference(span, attributes, "crew_agents" in attributes)
    return None


def _crew(span: Span, attributes: Mapping[str, Any]) -> Reading:
    crew = name(attributes.get("crewai.crew.name"))
    return Reading(
        dialect=DIALECT,
        kind="agent",
        rank=RANK_HANDOFF,
        subtype="crew",
        agent=Agent(name=crew) if crew else None,
        usage=_usage(attributes.get("crewai.crew.token_usage")),
        output=attributes.get("crewai.crew.result"),
        told=_told(attributes.get("crewai.crew.tasks_output"), span.start_ns),
    )


def _usage(written: Any) -> Usage | None:
    """The sum of the crew's calls, from ``key=count`` words."""
    if not isinstance(written, str):
        return None
    words = {key: int(count) for key, count in _COUNT.findall(written[:2000])}
    return _summed(words)


def _summed(words: Mapping[str, Any]) -> Usage | None:
    if not any(integer(count) for count in words.values()):
        return None
    return Usage(
        input=integer(words.get("prompt_tokens")),
        output=integer(words.get("completion_tokens")),
        cache_read=integer(words.get("cached_prompt_tokens")),
        cache_write=integer(words.get("cache_creation_tokens")),
        reasoning=integer(words.get("reasoning_tokens")),
        scope="aggregated",
    )


def _told(written: Any, start_ns: int) -> tuple[Told, ...]:
    """The model calls of all tasks, from the repr of their outputs."""
    if not isinstance(written, str):
        return ()
    found: list[Told] = []
    for transcript, agent in _transcripts(written):
        said = messages(transcript) or ()
        found += told_calls(said, dialect=DIALECT, start_ns=start_ns + len(found), agent=agent)
    return tuple(
        Told(id=str(n), name=t.name, start_ns=t.start_ns, end_ns=t.end_ns, reading=t.reading)
        for n, t in enumerate(found)
    )


def _transcripts(written: str) -> Iterator[tuple[Any, str | None]]:
    """(messages, agent's name) of each task output in the repr."""
    outputs = read_repr(written)
    for output in outputs if isinstance(outputs, list) else ():
        if isinstance(output, dict):
            yield output.get("messages"), name(output.get("agent"))


def _tool(attributes: Mapping[str, Any]) -> Reading | None:
    described = attributes.get("tool.description")
    found = _TOOL_NAME.match(described) if isinstance(described, str) else None
    if found is None:
        return None
    return Reading(
        dialect=DIALECT, kind="tool_call", rank=RANK_NONE, tool=Tool(name=name(found[1]))
    )


def _openinference(span: Span, attributes: Mapping[str, Any], crew: bool) -> Reading | None:
    """A crew's or an agent's output object; the agents tell of their calls."""
    output, _ = parse(attributes.get("output.value"))
    body = output if isinstance(output, dict) else {}
    usage = body.get("token_usage")
    history = body.get("messages")
    said = messages(history) or () if isinstance(history, list) and not crew else ()
    agent = name(body.get("agent")) or name(attributes.get("graph.node.id"))
    return Reading(
        dialect=DIALECT,
        kind="agent",
        rank=RANK_HANDOFF if crew else RANK_DISCRIMINATOR,
        subtype="crew" if crew else None,
        agent=Agent(name=span.name.removesuffix(".kickoff")) if crew else None,
        usage=_summed(usage) if isinstance(usage, dict) and counts(usage) else None,
        output=body.get("raw"),
        told=told_calls(said, dialect=DIALECT, start_ns=span.start_ns, agent=agent),
    )
