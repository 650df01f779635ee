"""EpisodeRecord: all that is known of one run of one case, as it goes into evidence.

Rules
1. A record is enough to judge the case again without running anything.
2. Its digest covers what was done, what came of it and how rules scored it, without ids and times;
   what is measured, or a judge's word, may differ between two runs of one behaviour.
3. A void record says why; nothing is concluded from it.
4. A slim record says so (``is_slim``): of its steps only the names of the tools are there.
5. A run without an answer is no evidence of how the agent answers: ``unanswered`` says why.
"""

from typing import Any, Final, Literal

import msgspec
from msgspec import Struct

from processors.model.call import Receipt
from processors.model.trace import AgentTrace
from processors.model.twin import Change, TwinEvent
from processors.model.verdict import Score
from sidecar.canonical import NotCanonical, digest, sha256
from sidecar.evaluate.opinion import Opinion
from sidecar.evaluate.score import Conclusion
from sidecar.replay.acts import acts
from sidecar.replay.scrub import Scrubber
from sidecar.twins.user import Turn

Side = Literal["baseline", "candidate"]
STEPS_LEFT_OUT: Final = "steps_left_out"
"""The warning of a slim record: what its run did step by step was not kept."""
Ending = Literal[
    "completed",
    "failed",
    "timed_out",
    "output_too_large",
    "not_started",
    "unreachable",
    "user_failed",
    "recorded",
]


class AgentExit(Struct, frozen=True, kw_only=True):
    """How the agent ended. ``output`` is what it answered; ``stderr_tail`` the last of what it
    said; ``turns`` the conversation, where the scenario has a user who answers.
    """

    ending: Ending
    exit_code: int | None = None
    output: Any = None
    stderr_tail: str = ""
    detail: str = ""
    turns: tuple[Turn, ...] = ()


class EpisodeRecord(Struct, frozen=True, kw_only=True):
    """One run of one case on one side; ``run`` counts from 1."""

    episode: str
    case: str
    side: Side
    run: int
    seed: int
    agent: AgentExit
    trace: AgentTrace
    scores: tuple[Score, ...]
    conclusion: Conclusion
    digest: str
    receipts: tuple[Receipt, ...] = ()
    events: tuple[TwinEvent, ...] = ()
    changes: tuple[Change, ...] = ()
    void: str | None = None
    duration_ms: int = 0
    opinions: dict[str, Opinion] = {}


def is_slim(record: EpisodeRecord) -> bool:
    """Whether a record's steps were left out."""
    return any(one.code == STEPS_LEFT_OUT for one in record.trace.warnings)


def unanswered(agent: AgentExit, trace: AgentTrace) -> str | None:
    """Why the agent did not run to an answer; None where it did, or where it was recorded."""
    if agent.ending == "recorded":
        return None
    if agent.ending != "completed":
        words = agent.ending.replace("not_", "was not ").replace("_", " ")
        return f"the agent {words}: {agent.detail}"
    # What its telemetry gives as final output is an answer too.
    answered = agent.output not in (None, "") or bool(trace.final_output)
    return None if answered else "the agent ended without an answer"


class Told(Struct, frozen=True, kw_only=True):
    """What a run left behind, before it has a digest."""

    agent: AgentExit
    trace: AgentTrace
    scores: tuple[Score, ...]
    receipts: tuple[Receipt, ...] = ()
    events: tuple[TwinEvent, ...] = ()
    changes: tuple[Change, ...] = ()
    ids: tuple[str, ...] = ()


def run_digest(told: Told) -> str:
    """``sha256:<hex>`` of the run without ids and times; equal for equal behaviour."""
    scrub = scrubber(told)
    value = {
        "acts": [
            [act.agent, act.kind, act.name, scrub(act.given), scrub(act.got), act.status]
            for act in acts(told.trace)
        ],
        "output": scrub(told.agent.output),
        "ending": [told.agent.ending, told.agent.exit_code],
        "events": [scrub(_event(event)) for event in told.events],
        "changes": [scrub(msgspec.to_builtins(change)) for change in told.changes],
        "scores": [[one.expectation, one.status] for one in told.scores if one.level == "D"],
        "outcome": told.trace.outcome.status,
    }
    if told.agent.turns:
        value["turns"] = [scrub(msgspec.to_builtins(turn)) for turn in told.agent.turns]
    try:
        return digest(value, domain="agenttwin-run/1")
    except NotCanonical:  # numbers beyond 2**53 from an agent: compare their exact text instead
        return sha256(msgspec.json.encode(value, order="sorted"))


def scrubber(told: Told) -> Scrubber:
    """A scrubber that knows the run's own ids."""
    receipts = told.receipts
    ids = [
        *told.ids,
        *told.trace.trace_ids,
        *(event.key for event in told.events),
        *(event.call_id for event in told.events),
        *(one.receipt_id for one in receipts),
        *(one.call_id for one in receipts),
        *(one.decision_id for one in receipts),
        *(one.approval_id or "" for one in receipts),
        *(step.step_id for step in told.trace.steps),
        *(step.tool.call_id or "" for step in told.trace.steps if step.tool),
    ]
    return Scrubber(one for one in ids if len(one) >= 8)


def _event(event: TwinEvent) -> dict[str, Any]:
    value: dict[str, Any] = msgspec.to_builtins(event)
    del value["call_id"], value["at_ns"]
    return value
