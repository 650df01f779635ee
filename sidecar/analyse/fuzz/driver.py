"""A campaign from the outside: the agent is loaded, episodes run until the budget is spent.

Rules
1. An agent is a callable in this process: ``f(request, call)``, or a generator function
   ``f(request)`` that yields ``Asked``; the folder the command was started in is on the path.
2. A budget in episodes makes a run that can be made again; one in seconds stops where it is then.
"""

import importlib
import inspect
import sys
from collections.abc import Callable
from typing import Any

from sidecar import clock
from sidecar.analyse.fuzz.campaign import Campaign, Finding, Plan, Report, campaign
from sidecar.analyse.fuzz.judged import MakeAgent
from sidecar.analyse.together.driver import CallableAgent
from sidecar.analyse.together.moves import GeneratorAgent
from sidecar.errors import SidecarError

Progress = Callable[[Campaign, Finding | None], None]


def agent(reference: str, *, option: str) -> MakeAgent:
    """The agent of a ``py:module:callable``. Raises SidecarError that names ``option``."""
    kind, _, rest = reference.partition(":")
    module_name, _, name = rest.partition(":")
    if kind != "py" or not module_name or not name:
        raise SidecarError(
            f"{reference!r} names no callable",
            where=option,
            do="Use py:module:callable; fuzzing runs the agent in this process.",
        )
    sys.path.insert(0, "")
    try:
        target: Any = importlib.import_module(module_name)
        for part in name.split("."):
            target = getattr(target, part)
    except (ImportError, AttributeError) as error:
        raise SidecarError(f"{reference!r} cannot be loaded: {error}", where=option) from None
    if not callable(target):
        raise SidecarError(f"{reference!r} is not callable", where=option)
    if inspect.isgeneratorfunction(target):
        return lambda: GeneratorAgent(target)
    return lambda: CallableAgent(target)


def fuzz(plan: Plan, *, seconds: float | None = None, progress: Progress | None = None) -> Report:
    """Run a campaign to the end of its budget. Raises SidecarError where it has nothing to do."""
    made = campaign(plan)
    ends = None if seconds is None else clock.monotonic_ns() + int(seconds * 1e9)
    while made.discovery.episodes < plan.episodes and (ends is None or clock.monotonic_ns() < ends):
        found = made.step()
        if progress is not None:
            progress(made, found)
    return made.report()
