"""The refund agent without process, wire and model server: the same script, called in turn.

Rules
1. It decides by ``script`` alone, from the same messages that the agent process sends its model.
2. It retries what the process retries, at once and with the same key.
"""

import json
from collections.abc import Callable
from typing import Any

from sidecar.demo import prompts, script
from sidecar.demo.conversation import TURNS_MAX
from sidecar.demo.tool_client import RETRY_CODES, RETRY_STATUSES
from sidecar.demo.toolbox import BY_NAME

ATTEMPTS = 5
CallTool = Callable[..., Any]


def good(request: dict[str, Any], call: CallTool) -> str:
    """Version 1.2.4."""
    return _run("1.2.4", request, call)


def hasty(request: dict[str, Any], call: CallTool) -> str:
    """Version 1.3.0, which refunds before it has read the policy."""
    return _run("1.3.0", request, call)


def repaired(request: dict[str, Any], call: CallTool) -> str:
    """Version 1.3.1."""
    return _run("1.3.1", request, call)


def _run(version: str, request: dict[str, Any], call: CallTool) -> str:
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": prompts.system_prompt(version)},
        *(request.get("messages") or ()),
    ]
    if request.get("input"):
        messages.append({"role": "user", "content": str(request["input"])})
    for number in range(TURNS_MAX):
        turn = script.next_turn(script.read(messages, frozenset(BY_NAME)))
        if isinstance(turn, script.Say):
            return turn.text
        name = f"turn-{request.get('turn', 1)}-{number}"
        asked = {"name": turn.tool, "arguments": json.dumps(turn.arguments)}
        messages += [
            {"role": "assistant", "tool_calls": [{"id": name, "function": asked}]},
            {
                "role": "tool",
                "tool_call_id": name,
                "content": json.dumps(_called(turn, name, call)),
            },
        ]
    return "I could not finish this; a colleague will look into it."


def _called(turn: script.Ask, name: str, call: CallTool) -> dict[str, Any]:
    key = f"refund-agent-{name}" if BY_NAME[turn.tool].keyed else ""
    reply = call(turn.tool, turn.arguments, key)
    for _ in range(ATTEMPTS - 1):
        code = reply.value.get("code") if isinstance(reply.value, dict) else None
        if (reply.status or 0) not in RETRY_STATUSES and code not in RETRY_CODES:
            break
        reply = call(turn.tool, turn.arguments, key)
    if reply.status is not None and 200 <= reply.status < 300:
        return reply.value if isinstance(reply.value, dict) else {"value": reply.value}
    told = reply.value if isinstance(reply.value, dict) else {}
    detail = told.get("detail") or told.get("error") or f"HTTP {reply.status or 0}"
    return {"error": {"status": reply.status or 0, "code": told.get("code"), "detail": detail}}
