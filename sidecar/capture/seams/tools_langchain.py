"""The seam TOOL of LangChain and LangGraph: whatever is a ``BaseTool``, when it is run."""

from typing import Any

from langchain_core.tools import base

from sidecar.capture.seams.forms import described
from sidecar.capture.seams.install import patch
from sidecar.capture.seams.session import Session, current
from sidecar.capture.seams.tools import entered, run, run_async


def install(session: Session) -> None:
    """Patch ``BaseTool.run`` and ``arun``, through which every other way goes."""
    kind = base.BaseTool
    real, real_async = kind.run, kind.arun

    def run_(self: Any, tool_input: Any, *args: Any, **kwargs: Any) -> Any:
        seen = current()
        if seen is None:
            return real(self, tool_input, *args, **kwargs)
        x = entered(seen, self.name, _given(tool_input))
        return run(x, lambda: real(self, tool_input, *args, **kwargs))

    async def arun(self: Any, tool_input: Any, *args: Any, **kwargs: Any) -> Any:
        seen = current()
        if seen is None:
            return await real_async(self, tool_input, *args, **kwargs)
        x = entered(seen, self.name, _given(tool_input), awaited=True)
        return await run_async(x, lambda: real_async(self, tool_input, *args, **kwargs))

    patch(session, kind, "run", run_)
    patch(session, kind, "arun", arun)


def _given(tool_input: Any) -> Any:
    return described(tool_input if isinstance(tool_input, dict) else {"input": tool_input})
