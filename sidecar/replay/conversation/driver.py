"""A conversation: an agent run turn by turn, and a user of the scenario who answers it.

Rules
1. Each turn is one run of the agent (a process, a request), with all that was said before in
   ``messages``: an agent keeps nothing between turns but what it is handed. World, gateway and
   token stay the episode's.
2. All turns share the deadline of the episode; what a user thinks is not the agent's time.
3. The first turn without an answer ends it; what the last turn answered is the episode's answer.
4. A user who cannot be played makes the case void: it says nothing about the agent.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import structs

from sidecar import clock
from sidecar.evaluate.judging.llm import Unanswered
from sidecar.replay.conversation.llm import PlayedUsers
from sidecar.replay.record import AgentExit
from sidecar.twins.played import script, words
from sidecar.twins.scenario import Case
from sidecar.twins.user import Turn, User, is_over, next_said

Ask = Callable[[dict[str, Any], float], Awaitable[AgentExit]]
"""One run of an agent: what it is given, and how many seconds it has."""


async def converse(
    ask: Ask,
    case: Case,
    deadline_s: float,
    users: PlayedUsers | None = None,
    first: dict[str, Any] | None = None,
) -> AgentExit:
    """Run the agent to the end of the conversation; ``turns`` is set where there is a user.

    ``first`` is what it is given where that is not the case's own request (a sample's seed).
    """
    request = opening = first or case.request()
    if case.user is None:
        return await ask(request, deadline_s)
    ends_ns = clock.monotonic_ns() + int(deadline_s * 1e9)
    turns: list[Turn] = []
    while True:
        left_s = max(0.001, (ends_ns - clock.monotonic_ns()) / 1e9)
        ended = await ask(request, left_s)
        turns.append(Turn(user=request["input"], agent=ended.output))
        if ended.ending != "completed" or ended.output in (None, ""):
            break
        asked_ns = clock.monotonic_ns()
        try:
            said = await _answer(case.user, turns, case.seed, users)
        except Unanswered as error:
            ended = structs.replace(ended, ending="user_failed", detail=str(error))
            break
        ends_ns += clock.monotonic_ns() - asked_ns
        if said is None:
            break
        request = _next(opening, turns, said)
    return structs.replace(ended, turns=tuple(turns))


async def _answer(
    user: User, turns: list[Turn], seed: int, users: PlayedUsers | None
) -> str | None:
    """What the user says, None at the end. Raises Unanswered."""
    if user.type == "scripted":
        return next_said(user, turns, seed=seed)
    if is_over(user, turns):
        return None
    if users is None:
        raise Unanswered("no model plays users here")
    return words(await users.say(script(user, turns, seed=seed)))


def _next(opening: dict[str, Any], turns: list[Turn], said: str) -> dict[str, Any]:
    spoken = [
        {"role": role, "content": text}
        for turn in turns
        for role, text in (("user", turn.user), ("assistant", turn.agent))
    ]
    return {
        **opening,
        "input": said,
        "messages": [*opening["messages"], *spoken],
        "turn": len(turns) + 1,
    }
