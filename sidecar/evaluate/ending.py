"""Expectations of benchmarks: where the world ends, and what was said on the way.

Rules
1. ``endState`` is about the whole world: what it names is so, and nothing else differs from the
   start.
2. ``said`` looks at every message of the agent, not only at the last.
"""

from typing import Any

from processors.model.step import Message
from sidecar.evaluate.expectation import Expectation
from sidecar.evaluate.judgement import Judgement, failed, passed, skipped
from sidecar.evaluate.matching import same
from sidecar.evaluate.observed import Observed
from sidecar.evaluate.state import same_entity


class EndState(Expectation, frozen=True, kw_only=True, tag="endState"):
    """At the end exactly these rows differ from the start, and are so; null is a row that is gone.

    ``changes``: entity to key to row.
    """

    changes: dict[str, dict[str, Any]]


class Said(Expectation, frozen=True, kw_only=True, tag="said"):
    """Some message of the agent has the text; case is ignored, and so are characters of
    ``ignore`` in the message.
    """

    text: str
    ignore: str = ""


def end_state(expected: EndState, observed: Observed) -> Judgement:
    """The world ends there."""
    if observed.world is None:
        return skipped("no twin took part, so there is no state to look at")
    left = {(entity, key) for entity, rows in expected.changes.items() for key in rows}
    for change in observed.changes:
        name = f"{change.entity} {change.key}"
        entity = next((one for one in expected.changes if same_entity(one, change.entity)), "")
        if (entity, change.key) not in left:
            return failed(f"{name} differs from the start, and should not")
        left.discard((entity, change.key))
        if not same(change.after, expected.changes[entity][change.key]):
            return failed(f"{name} ends otherwise than expected")
    if left:
        entity, key = min(left)
        return failed(f"{entity} {key} does not differ from the start, and should")
    return passed("the world ends as expected")


def said(expected: Said, observed: Observed) -> Judgement:
    """It was said."""
    wanted = expected.text.casefold()
    drop = str.maketrans("", "", expected.ignore)
    for text in _messages(observed):
        if wanted in text.translate(drop).casefold():
            return passed(f"the agent said {expected.text!r}")
    return failed(f"the agent never said {expected.text!r}")


def _messages(observed: Observed) -> list[str]:
    found = [
        part.content
        for step in observed.trace.steps
        if step.kind == "model_call"
        for message in (step.output if isinstance(step.output, list | tuple) else ())
        if isinstance(message, Message)
        for part in message.parts
        if part.type == "text" and isinstance(part.content, str)
    ]
    return [*found, observed.trace.final_output or ""]
