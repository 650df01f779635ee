"""A judge that is a language model: one forced tool call, over Anthropic's or OpenAI's API.

Rules
1. Through egress alone; the key is read from its file at every call and is in no log or message.
2. A refusal for being busy (408, 429, 5xx) is tried again twice; nothing else is.
3. What comes back is a verdict of the declared shape or a failure, never a guess.
"""

import asyncio
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from sidecar.egress.client import Egress, EgressFailed, EgressReply
from sidecar.evaluate.judging.config import Judge
from sidecar.evaluate.judging.prompt import SCHEMA, TOOL, Prompt, Verdict

ATTEMPTS: Final = 3
_PAUSE_SECONDS_MAX: Final = 10.0
_BUSY: Final = frozenset({408, 409, 429, 500, 502, 503, 504, 529})
_VERSION: Final = "2023-06-01"
_DESCRIPTION: Final = "Give the verdict on the criterion."


class Asked(Struct, frozen=True, kw_only=True):
    """A verdict, and the tokens it cost."""

    verdict: Verdict
    input_tokens: int
    output_tokens: int


class Unanswered(Exception):
    """No verdict came; the message says why, without the key."""


class ModelJudge:
    """Asks a model. Use it in one event loop."""

    def __init__(self, terms: Judge, egress: Egress) -> None:
        self._terms = terms
        self._egress = egress

    async def ask(self, prompt: Prompt) -> Asked:
        """The verdict on a prompt. Raises Unanswered."""
        path, body = self._request(prompt)
        for attempt in range(1, ATTEMPTS + 1):
            reply = await self._send(path, body)
            if reply.status not in _BUSY or attempt == ATTEMPTS:
                break
            await asyncio.sleep(_pause(reply, attempt))
        if reply.status != 200:
            raise Unanswered(f"the judge's endpoint answered {reply.status}")
        return _read(self._terms.type, reply.body)

    async def _send(self, path: str, body: bytes) -> EgressReply:
        try:
            return await self._egress.request(
                self._terms.target,
                "POST",
                path,
                self._headers(),
                body,
                deadline_ns=self._terms.deadline_ns,
            )
        except (OSError, UnicodeError) as error:
            raise Unanswered(f"the credential cannot be read ({type(error).__name__})") from None
        except EgressFailed as error:
            raise Unanswered(error.reason) from None

    def _request(self, prompt: Prompt) -> tuple[str, bytes]:
        terms = self._terms
        if terms.type == "anthropic":
            tool = {"name": TOOL, "description": _DESCRIPTION, "input_schema": SCHEMA}
            value: dict[str, Any] = {
                "model": terms.model,
                "max_tokens": terms.tokens_max,
                "system": prompt.system,
                "messages": [{"role": "user", "content": prompt.user}],
                "tools": [tool],
                "tool_choice": {"type": "tool", "name": TOOL},
            }
            return "/v1/messages", msgspec.json.encode(value)
        function = {"name": TOOL, "description": _DESCRIPTION, "parameters": SCHEMA}
        value = {
            "model": terms.model,
            "max_completion_tokens": terms.tokens_max,
            "messages": [
                {"role": "system", "content": prompt.system},
                {"role": "user", "content": prompt.user},
            ],
            "tools": [{"type": "function", "function": function}],
            "tool_choice": {"type": "function", "function": {"name": TOOL}},
        }
        return "/chat/completions", msgspec.json.encode(value)

    def _headers(self) -> list[tuple[str, str]]:
        headers = [("content-type", "application/json"), ("accept", "application/json")]
        anthropic = self._terms.type == "anthropic"
        if anthropic:
            headers.append(("anthropic-version", _VERSION))
        if self._terms.credential_file:
            key = Path(self._terms.credential_file).read_text(encoding="ascii").strip()
            if not key or not key.isprintable():
                raise UnicodeError("not a header value")
            headers.append(("x-api-key", key) if anthropic else ("authorization", f"Bearer {key}"))
        return headers


class _Block(Struct):
    type: str
    name: str = ""
    input: Verdict | None = None


class _Tokens(Struct):
    input_tokens: int = 0
    output_tokens: int = 0


class _Message(Struct):
    content: list[_Block]
    usage: _Tokens = msgspec.field(default_factory=_Tokens)


class _Function(Struct):
    name: str
    arguments: str


class _Call(Struct):
    function: _Function


class _Said(Struct):
    tool_calls: list[_Call] | None = None


class _Choice(Struct):
    message: _Said


class _Usage(Struct):
    prompt_tokens: int = 0
    completion_tokens: int = 0


class _Completion(Struct):
    choices: list[_Choice]
    usage: _Usage = msgspec.field(default_factory=_Usage)


def _read(kind: str, body: bytes) -> Asked:
    try:
        return _anthropic(body) if kind == "anthropic" else _openai(body)
    except (msgspec.DecodeError, RecursionError):
        raise Unanswered("the judge's answer has not the form that was asked for") from None


def _anthropic(body: bytes) -> Asked:
    said = msgspec.json.decode(body, type=_Message)
    found = [one.input for one in said.content if one.type == "tool_use" and one.name == TOOL]
    if len(found) != 1 or found[0] is None:
        raise Unanswered("the judge did not call the tool once")
    return Asked(
        verdict=found[0],
        input_tokens=said.usage.input_tokens,
        output_tokens=said.usage.output_tokens,
    )


def _openai(body: bytes) -> Asked:
    said = msgspec.json.decode(body, type=_Completion)
    calls = said.choices[0].message.tool_calls or [] if said.choices else []
    found = [one.function.arguments for one in calls if one.function.name == TOOL]
    if len(found) != 1:
        raise Unanswered("the judge did not call the tool once")
    return Asked(
        verdict=msgspec.json.decode(found[0], type=Verdict),
        input_tokens=said.usage.prompt_tokens,
        output_tokens=said.usage.completion_tokens,
    )


def _pause(reply: EgressReply, attempt: int) -> float:
    told = dict(reply.headers).get("retry-after", "")
    seconds = float(told) if told.isdecimal() else 0.5 * 2**attempt
    return min(seconds, _PAUSE_SECONDS_MAX)
