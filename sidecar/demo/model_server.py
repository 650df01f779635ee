"""A scripted OpenAI-compatible model server: real HTTP, real wire format, a script for a mind.

Rules
1. ``POST /v1/chat/completions`` answers one choice with content or one tool call, and token usage
   counted from the messages' length (four characters a token).
2. Ids of completions and tool calls are fresh, except under the request's ``seed``: then the same
   seed and messages give the same ids, as determinism in a replay needs.
3. Refusals have OpenAI's error shape: 400 malformed or streamed, 401 without a key, 404 unknown
   model.

``python -m sidecar.demo.model_server [--port N]`` prints ``listening http://127.0.0.1:PORT``.
"""

import argparse
import asyncio
import hashlib
import json
from typing import Any

from aiohttp import web

from sidecar import clock
from sidecar.demo import script
from sidecar.demo.listening import listening, serve


class _Refused(Exception):
    """OpenAI-shaped refusal."""

    def __init__(self, status: int, kind: str, text: str) -> None:
        self.status, self.kind = status, kind
        super().__init__(text)


def application() -> web.Application:
    """The model server."""
    app = web.Application(client_max_size=8 * 1024**2)
    app.router.add_post("/v1/chat/completions", _completions)
    return app


async def _completions(request: web.Request) -> web.Response:
    try:
        if not request.headers.get("Authorization", "").startswith("Bearer "):
            raise _Refused(401, "authentication_error", "no API key")
        body = _checked(await request.read())
    except _Refused as refused:
        error = {"message": str(refused), "type": refused.kind, "code": None, "param": None}
        return web.json_response({"error": error}, status=refused.status)
    return web.json_response(complete(body, fresh=clock.new_id(), now_ns=clock.now_ns()))


def complete(body: dict[str, Any], *, fresh: str, now_ns: int) -> dict[str, Any]:
    """The completion object for a checked request; ``fresh`` seeds its ids where the request has
    no seed.
    """
    names = [tool.get("function", {}).get("name") for tool in body.get("tools") or ()]
    talk = script.read(body["messages"], frozenset(name for name in names if name))
    turn = script.next_turn(talk)
    told = json.dumps(body["messages"], sort_keys=True)
    seed = body.get("seed")
    tag = _tag(f"{fresh if seed is None else seed}|{told}")
    message = _message(turn, f"call_{tag}")
    usage = {"prompt_tokens": _tokens(told), "completion_tokens": _tokens(json.dumps(message))}
    usage["total_tokens"] = sum(usage.values())
    finish = "tool_calls" if isinstance(turn, script.Ask) else "stop"
    return {
        "id": f"chatcmpl-{tag}",
        "object": "chat.completion",
        "created": now_ns // 1_000_000_000,
        "model": body["model"],
        "choices": [{"index": 0, "message": message, "finish_reason": finish, "logprobs": None}],
        "usage": usage,
    }


def _message(turn: script.Ask | script.Say, call_id: str) -> dict[str, Any]:
    if isinstance(turn, script.Say):
        return {"role": "assistant", "content": turn.text, "refusal": None}
    function = {"name": turn.tool, "arguments": json.dumps(turn.arguments)}
    call = {"id": call_id, "type": "function", "function": function}
    return {"role": "assistant", "content": None, "refusal": None, "tool_calls": [call]}


def _checked(raw: bytes) -> dict[str, Any]:
    try:
        body = json.loads(raw)
    except ValueError as error:
        raise _Refused(400, "invalid_request_error", f"the body is not JSON: {error}") from None
    messages = body.get("messages") if isinstance(body, dict) else None
    if not isinstance(messages, list) or not all(isinstance(m, dict) for m in messages):
        raise _Refused(400, "invalid_request_error", "messages must be a list of objects")
    if body.get("model") != script.MODEL:
        raise _Refused(404, "invalid_request_error", f"there is no model {body.get('model')!r}")
    if body.get("stream"):
        raise _Refused(400, "invalid_request_error", "this server does not stream")
    return dict(body)


def _tag(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def _tokens(text: str) -> int:
    return max(1, len(text) // 4)


def main() -> None:
    """Serve until told to stop."""
    parser = argparse.ArgumentParser(description="the demo's scripted model server")
    arguments = listening(parser).parse_args()
    asyncio.run(serve(application(), arguments.host, arguments.port))


if __name__ == "__main__":
    main()
