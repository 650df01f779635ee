"""The tool of a tool-call step: what ran, filled from what was asked for and what was shown.

Rules
1. What ran is what the execution says; the request only fills what the execution does not hold
   whole.
2. A bare text that is the single argument of the request is that argument, named.
3. A value filled in from another span has the content state ``recovered``; a missing one
   ``absent``.
4. A result that is an error is an error, ``inferred``: one that the message around it calls
   failed, an object whose first key is ``error``, or a
   text that starts as errors start. A text that merely mentions one is not.
"""

import re
from typing import Any

import msgspec

from processors.assemble.join import Answer, Request
from processors.model.message import only_block
from processors.model.names import ContentState, StepStatus
from processors.model.step import StepError, Tool
from processors.value import canonical, parse

_WHOLE = ("captured", "repr", "empty", "null", "recovered")
_ERROR_TEXT = re.compile(
    r"\s*(?:error\b|an error occurred\b"
    r"|(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Timeout|Failure)\b\s*(?:[:(]|$))",
    re.IGNORECASE,
)
States = dict[str, ContentState]


def executed_tool(tool: Tool, states: States, request: Request | None) -> tuple[Tool, States]:
    """The tool of an execution span, filled from its request and the answer shown for it."""
    states = {key: states.get(key, "absent") for key in ("arguments", "result")}
    arguments, states["arguments"] = _arguments(tool.arguments, states["arguments"], request)
    whole = only_block(tool.result)
    own = tool.result if whole is tool.result else parse(whole)[0]
    result, states["result"] = _result(own, states["result"], request)
    filled = msgspec.structs.replace(
        tool,
        call_id=tool.call_id or (request.part.id if request else None),
        arguments=arguments,
        result=result,
        requested_by=request.node.key if request else None,
    )
    return filled, states


def requested_tool(request: Request) -> tuple[Tool, States]:
    """The tool of a call that only messages tell of."""
    states: States = {"arguments": request.state, "result": "absent"}
    result = None
    if request.answer is not None:
        result, states["result"] = _shown(request.answer)
    tool = Tool(
        name=request.part.name,
        call_id=request.part.id,
        type="extension" if request.served else None,
        arguments=request.arguments,
        result=result,
        requested_by=request.node.key,
    )
    return tool, states


def differs(tool: Tool, request: Request | None) -> bool:
    """Whether another call was run than was asked for."""
    if request is None or request.state not in _WHOLE or tool.arguments is None:
        return False
    asked, ran = request.arguments, tool.arguments
    return asked is not None and asked != ran and canonical(asked) != canonical(ran)


def judged(
    status: StepStatus, error: StepError | None, result: Any, request: Request | None
) -> tuple[StepStatus, StepError | None]:
    """The status of an executed call in the light of its result and of the answer shown."""
    if status not in ("ok", "unset"):
        return status, error
    if request is not None and request.answer is not None and request.answer[1].failed:
        return "error", StepError(message=_message(result), inferred=True)
    if isinstance(result, dict):
        if result.get("denied") is True:
            return "denied", None
        first = next(iter(result), None)
        if first == "error" and result["error"] not in (None, False, ""):
            return "error", StepError(message=_message(result["error"]), inferred=True)
        if result.get("isError") is True:
            return "error", StepError(message=_message(result.get("content")), inferred=True)
    if isinstance(result, str) and _ERROR_TEXT.match(result):
        return "error", StepError(message=result, inferred=True)
    return status, error


def _message(value: Any) -> str:
    return value if isinstance(value, str) else canonical(value)


def _arguments(
    value: Any, state: ContentState, request: Request | None
) -> tuple[Any, ContentState]:
    if request is None or request.state not in _WHOLE:
        return value, state
    asked = request.arguments
    broken = state not in _WHOLE or (value in (None, "", {}) and asked not in (None, ""))
    if broken:
        return asked, "recovered"
    if isinstance(asked, dict) and not isinstance(value, dict | list):
        only = next(iter(asked.values())) if len(asked) == 1 else None
        if only is not None and canonical(only) == canonical(value):
            return asked, "recovered"
    return value, state


def _result(value: Any, state: ContentState, request: Request | None) -> tuple[Any, ContentState]:
    if state in _WHOLE or request is None or request.answer is None:
        return value, state
    shown, shown_state = _shown(request.answer)
    return (shown, "recovered") if shown_state in _WHOLE else (value, state)


def _shown(answer: Answer) -> tuple[Any, ContentState]:
    content = answer[1].content
    if content is None:
        return None, "absent"
    return parse(content)
