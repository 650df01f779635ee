"""The seam HUMAN: what people say to an agent, and what they approve.

**Rules**
1. ``input`` asked by the agent's own files is a human's word; played, nobody is asked. A prompt is
   part of what is asked.
2. An approval is who approved which action (by its digest), until when, and what was decided; the
   person's name is told as the redactor leaves it.
"""

import builtins
from collections.abc import Callable
from typing import Any

from sidecar.canonical import canonical
from sidecar.capture.seams.ambient import ask
from sidecar.capture.seams.install import patch
from sidecar.capture.seams.session import Session, current
from sidecar.tape.value import address, encoded


def install(session: Session) -> None:
    """Stand in for ``input``."""
    real = builtins.input

    def input_(prompt: object = "") -> str:
        seen = current()
        if seen is None or seen.caller() is None:
            return real(prompt)
        given = {"prompt": str(prompt)}
        return ask(seen, "human", "input", lambda: real(prompt), given=given, kind="human_input")

    patch(session, builtins, "input", input_)


def approve(
    action: Any, decide: Callable[[], dict[str, Any]], tool: str = "approval"
) -> dict[str, Any]:
    """What a person decides on an action: ``{approver, decision, expires_at, …}``, and its
    ``action_hash``. ``decide`` asks the person; in a replay nobody does. ``tool``: the call that
    is approved, which the event is named after."""
    digest = address(canonical(encoded(action)))
    session = current()
    if session is None:
        return _said(decide(), digest)
    given = {"action": action, "action_hash": digest}
    return ask(
        session,
        "human",
        tool,
        lambda: _said(decide(), digest),
        given=given,
        kind="human_input",
        tell=dict,
        back=dict,
    )


def _said(decided: Any, digest: str) -> dict[str, Any]:
    if not isinstance(decided, dict):
        raise TypeError("decide returns a dict: decision ('approve', 'deny'), approver, expires_at")
    return {**decided, "action_hash": digest}
