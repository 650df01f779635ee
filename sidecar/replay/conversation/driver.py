"""A conversation: an agent run turn by turn, and a user of the scenario who answers it.

Rules
1. Each turn is one run of the agent, with all that was said before in ``messages``: an agent keeps
   nothing between turns but what it is handed. World, gateway and token stay the episode's.
2. All turns share the deadline of the episode.
3. The first turn without an answer ends it; what the last turn answered is the episode's answer.
"""

from typing import Any

from msgspec import structs

from sidecar import clock
from sidecar.replay.process import Launch, run_agent
from sidecar.replay.record import AgentExit
from sidecar.twins.scenario import Case
from sidecar.twins.user import Turn, next_said


async def converse(launch: Launch, case: Case) -> AgentExit:
    """Run the agent to the end of the conversation; ``turns`` is set where there is a user."""
    request = case.request()
    if case.user is None:
        return await run_agent(launch, request)
    ends_ns = clock.monotonic_ns() + int(launch.deadline_s * 1e9)
    turns: list[Turn] = []
    while True:
        left_s = max(0.001, (ends_ns - clock.monotonic_ns()) / 1e9)
        ended = await run_agent(structs.replace(launch, deadline_s=left_s), request)
        turns.append(Turn(user=request["input"], agent=ended.output))
        if ended.ending != "completed" or ended.output in (None, ""):
            break
        said = next_said(case.user, turns, seed=case.seed)
        if said is None:
            break
        request = _next(case, turns, said)
    return structs.replace(ended, turns=tuple(turns))


def _next(case: Case, turns: list[Turn], said: str) -> dict[str, Any]:
    spoken = [
        {"role": role, "content": text}
        for turn in turns
        for role, text in (("user", turn.user), ("assistant", turn.agent))
    ]
    return {
        **case.request(),
        "input": said,
        "messages": [*case.messages, *spoken],
        "turn": len(turns) + 1,
    }
