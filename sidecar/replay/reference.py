"""What ``--baseline`` and ``--candidate`` name: an agent that can be run.

Rules
1. ``cmd:COMMAND`` is split as a shell would, and no shell is started. ``py:module:callable`` that
   takes the request alone is called in a process of its own; so is one that takes the tools too,
   unless it is called by a worker, straight on the twins (``call``).
2. ``url:http://…`` is an agent that runs elsewhere and is asked by POST. What its address may be is
   egress's word (``egress.rules``): no userinfo, no query, no fragment.
3. ``tape:PATH`` is recorded behaviour: a tape, or a folder with a tape for each scenario.
4. ``recorded`` is what recordings did themselves, and a baseline only.
5. Anything else is refused with the forms that exist.
"""

import re
import shlex
from typing import Literal

from msgspec import Struct

from sidecar.egress.rules import Target, TargetRefused, read_target
from sidecar.errors import SidecarError

RECORDED = "recorded"
FORMS = "cmd:COMMAND, py:module:callable, url:http://HOST/PATH or tape:PATH"
_ORIGIN = re.compile(r"(https?://[^/]+)(/.*)?\Z")
_CALLABLE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*\Z")


class AgentRef(Struct, frozen=True, kw_only=True):
    """An agent. ``text`` is as given; ``argv`` what is executed, of a process alone; ``tapes`` the
    tape of each scenario, by its id, that is played."""

    kind: Literal["cmd", "py", "call", "url", "tape", "recorded"]
    text: str
    argv: tuple[str, ...] = ()
    tapes: dict[str, str] = {}

    @property
    def rest(self) -> str:
        """What stands behind the kind."""
        return self.text.partition(":")[2]


def read_reference(text: str, *, option: str, python: str) -> AgentRef:
    """The agent of a REF; ``python`` runs callables. Raises SidecarError that names ``option``."""
    kind, _, rest = text.partition(":")
    if text == RECORDED and option == "--baseline":
        return recorded()
    if kind == "cmd" and rest.strip():
        try:
            argv = tuple(shlex.split(rest))
        except ValueError as error:
            raise SidecarError(f"the command cannot be read: {error}", where=option) from None
        return AgentRef(kind="cmd", text=text, argv=argv)
    if kind == "py" and _CALLABLE.match(rest):
        argv = (python, "-m", "sidecar.replay.worker", rest)
        return AgentRef(kind="py", text=text, argv=argv)
    if kind == "tape" and rest:
        return AgentRef(
            kind="tape", text=text, argv=(python, "-m", "sidecar.replay.recorded.worker")
        )
    if kind == "url" and rest:
        try:
            read_target(Target(name="url", url=rest))
        except TargetRefused as error:
            raise SidecarError(str(error), where=option, do="Write url:http://HOST/PATH.") from None
        return AgentRef(kind="url", text=text)
    raise SidecarError(f"{text!r} names no agent", where=option, do=f"Use {FORMS}.")


def origin(url: str) -> tuple[str, str]:
    """Scheme and authority of a URL that was read, and the path that is asked for there."""
    found = _ORIGIN.match(url)
    assert found is not None
    return found[1], found[2] or "/"


def recorded() -> AgentRef:
    """The recorded behaviour as baseline."""
    return AgentRef(kind="recorded", text=RECORDED)
