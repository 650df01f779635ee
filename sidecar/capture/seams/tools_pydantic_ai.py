"""The seam TOOL of pydantic-ai: functions of a toolset, with their arguments as validated."""

from typing import Any

from pydantic_ai.toolsets.function import FunctionToolset

from sidecar.capture.seams.forms import described
from sidecar.capture.seams.install import patch
from sidecar.capture.seams.session import Session, current
from sidecar.capture.seams.tools import entered, run_async


def install(session: Session) -> None:
    """Patch ``FunctionToolset.call_tool``."""
    real = FunctionToolset.call_tool

    async def call_tool(self: Any, name: str, tool_args: Any, ctx: Any, tool: Any) -> Any:
        seen = current()
        if seen is None:
            return await real(self, name, tool_args, ctx, tool)
        x = entered(seen, name, described(tool_args), awaited=True)
        return await run_async(x, lambda: real(self, name, tool_args, ctx, tool))

    patch(session, FunctionToolset, "call_tool", call_tool)
