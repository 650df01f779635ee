"""What ``--baseline`` and ``--candidate`` name: an agent that can be run.

Rules
1. ``cmd:COMMAND`` is split as a shell would, and no shell is started. ``py:module:callable`` that
   takes the request alone is called in a process of its own; one that takes the tools too
   (``call``) is called by a worker, straight on the twins.
2. Anything else is refused with the forms that exist.
"""

import re
import shlex
from typing import Literal

from msgspec import Struct

from sidecar.errors import SidecarError

RECORDED = "recorded"
_CALLABLE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*\Z")


class AgentRef(Struct, frozen=True, kw_only=True):
    """An agent. ``text`` is as given; ``argv`` what is executed (empty for recorded behaviour)."""

    kind: Literal["cmd", "py", "call", "recorded"]
    text: str
    argv: tuple[str, ...] = ()


def read_reference(text: str, *, option: str, python: str) -> AgentRef:
    """The agent of a REF; ``python`` runs callables. Raises SidecarError that names ``option``."""
    kind, _, rest = text.partition(":")
    if kind == "cmd" and rest.strip():
        try:
            argv = tuple(shlex.split(rest))
        except ValueError as error:
            raise SidecarError(f"the command cannot be read: {error}", where=option) from None
        return AgentRef(kind="cmd", text=text, argv=argv)
    if kind == "py" and _CALLABLE.match(rest):
        argv = (python, "-m", "sidecar.replay.worker", rest)
        return AgentRef(kind="py", text=text, argv=argv)
    raise SidecarError(
        f"{text!r} names no agent", where=option, do="Use cmd:COMMAND or py:module:callable."
    )


def recorded() -> AgentRef:
    """The recorded behaviour as baseline."""
    return AgentRef(kind="recorded", text=RECORDED)
