"""The program that an agent which is a callable runs in: ``module:callable`` under an order.

**Rules**
1. ``agent(llm, tools)`` is given a model and tools, by those names; a callable that takes nothing
   is just called.
2. The working directory is where modules are found, as for a script in it.
3. It ends as a script would: an exception is the interpreter's to tell. What names nothing is a
   fault of who asked.
"""

import asyncio
import importlib
import inspect
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from sidecar.capture.order import VARIABLE, read_order
from sidecar.capture.seams.given import Llm, Tools, called
from sidecar.capture.seams.session import active
from sidecar.errors import SidecarError


def main(arguments: Sequence[str]) -> None:
    """Call the agent of the first argument, with the model and the tools of the others."""
    sys.path.insert(0, str(Path.cwd()))
    agent, llm, tools = [*arguments, "", "", ""][:3]
    found = named(agent)
    _check(found, agent)
    real_llm = named(llm) if llm else None
    real_tools = tools_of(named(tools)) if tools else None
    session = active()
    if session is None:
        raise SystemExit("sidecar: this program runs under `sidecar tape record` or `replay`")
    session.open()
    plan = getattr(session.player, "plan", None)
    given = Llm(real_llm, plan.requests if plan is not None else ()), Tools(real_tools)
    called(lambda *both: _run(found, both), session, *given)


def named(text: str) -> Any:
    """What ``module:name`` names. Raises SidecarError."""
    module, _, name = text.partition(":")
    try:
        found: Any = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module.partition(".")[0] and error.name != module:
            raise
        raise SidecarError(f"there is no module {module}", do="Run it from its folder.") from None
    for part in name.split("."):
        if not hasattr(found, part):
            raise SidecarError(f"{module} has no {name}", do="Name one as module:callable.")
        found = getattr(found, part)
    return found


def tools_of(found: Any) -> Mapping[str, Any]:
    """Tools by name: a mapping as it is, else the public functions of an object or module."""
    if isinstance(found, Mapping):
        return found
    names = [name for name in dir(found) if not name.startswith("_")]
    return {name: getattr(found, name) for name in names if callable(getattr(found, name))}


def _check(found: Any, text: str) -> None:
    """Refuse what cannot be called as an agent is. Raises SidecarError."""
    if not callable(found):
        raise SidecarError(f"{text} is nothing to call", do="Name one as module:callable.")
    try:
        takes = inspect.signature(found).parameters.values()
    except (TypeError, ValueError):
        return
    several = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    for one in takes:
        if one.kind in several or one.default is not one.empty or one.name in ("llm", "tools"):
            continue
        raise SidecarError(
            f"{text} takes {one.name}, and is called as agent(llm, tools) or agent()",
            do="Name a function around it.",
        )


def _run(agent: Any, given: tuple[Any, ...]) -> Any:
    """Call it as it wants to be; a coroutine is run."""
    try:
        takes = list(inspect.signature(agent).parameters)
    except (TypeError, ValueError):
        takes = []
    by_name = dict(zip(("llm", "tools"), given, strict=True))
    words = {name: by_name[name] for name in takes if name in by_name}
    said = agent(**words) if words else agent()
    return asyncio.run(said) if inspect.iscoroutine(said) else said


def _refused(text: str) -> None:
    """Nothing could be called: said as a fault of the run, which is none of the agent's."""
    order = os.environ.get(VARIABLE)
    if order is not None:
        Path(read_order(order).report).write_bytes(msgspec.json.encode({"fault": text}))
        os._exit(3)
    sys.exit(f"sidecar: {text}")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except SidecarError as error:
        _refused(error.text())
