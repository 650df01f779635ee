"""A conversation that a framework reports whole, told as the model calls it came from.

Rules
1. Each reply of the assistant is one model call, shown what was said since the reply before.
2. A transcript has no times: its calls stand at the start of their teller, a nanosecond apart, so
   that their order holds. Nothing else is invented.
3. Whoever has spans for the calls themselves is heard instead (``processors.assemble.told``).
"""

from collections.abc import Sequence

from processors.model.fragment import RANK_DISCRIMINATOR, Reading, Told
from processors.model.step import Agent, Message


def told_calls(
    messages: Sequence[Message], *, dialect: str, start_ns: int, agent: str | None = None
) -> tuple[Told, ...]:
    """The model calls that a transcript tells of, in order."""
    found: list[Told] = []
    since = 0
    for number, message in enumerate(messages):
        if message.role != "assistant" or not message.parts:
            continue
        reading = Reading(
            dialect=dialect,
            kind="model_call",
            rank=RANK_DISCRIMINATOR,
            subtype="told",
            agent=Agent(name=agent) if agent else None,
            messages_in=tuple(messages[since:number]),
            messages_out=(message,),
        )
        at_ns = start_ns + len(found)
        found.append(
            Told(id=str(number), name="reply", start_ns=at_ns, end_ns=at_ns, reading=reading)
        )
        since = number
    return tuple(found)
