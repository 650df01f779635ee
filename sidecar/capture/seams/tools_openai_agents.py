"""The seam TOOL of the OpenAI Agents SDK: function tools, with the arguments a model wrote."""

import json
from typing import Any

from agents import tool

from sidecar.capture.seams.forms import described
from sidecar.capture.seams.install import patch
from sidecar.capture.seams.session import Session, current
from sidecar.capture.seams.tools import entered, run_async


def install(session: Session) -> None:
    """Patch what every ``function_tool`` is invoked by."""
    kind: Any = tool._FailureHandlingFunctionToolInvoker
    real = kind.__call__

    async def call(self: Any, ctx: Any, input: str) -> Any:
        seen = current()
        if seen is None:
            return await real(self, ctx, input)
        x = entered(seen, str(ctx.tool_name), _given(input), awaited=True)
        return await run_async(x, lambda: real(self, ctx, input))

    patch(session, kind, "__call__", call)


def _given(text: str) -> Any:
    try:
        found = json.loads(text) if text else {}
    except ValueError:
        found = text
    return described(found if isinstance(found, dict) else {"input": found})
