"""A language model that is made to call one tool, over Anthropic's or OpenAI's API.

Rules
1. Through egress alone; the key is read from its file at every call and is in no log or message.
2. A refusal for being busy (408, 429, 5xx) is tried again twice; nothing else is.
3. What comes back is a call of the tool, of its declared shape, or a failure; never a guess.
"""

import asyncio
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

import msgspec
from msgspec import Struct

from sidecar.egress.client import Egress, EgressFailed, EgressReply
from sidecar.evaluate.judging.config import Endpoint
from sidecar.evaluate.judging.prompt import SCHEMA, TOOL, Prompt, Verdict

T = TypeVar("T", bound=Struct)

ATTEMPTS: Final = 3
_PAUSE_SECONDS_MAX: Final = 10.0
_BUSY: Final = frozenset({408, 409, 429, 500, 502, 503, 504, 529})
_VERSION: Final = "2023-06-01"


class Tool(Struct, Generic[T], frozen=True, kw_only=True):
    """The tool a model must call: its JSON Schema, and the record its arguments are."""

    name: str
    description: str
    schema: dict[str, Any]
    kind: type[T]


VERDICT: Final = Tool(
    name=TOOL, description="Give the verdict on the criterion.", schema=SCHEMA, kind=Verdict
)


class Called(Struct, Generic[T], frozen=True, kw_only=True):
    """The tool's arguments, and the tokens they cost."""

    value: T
    input_tokens: int
    output_tokens: int


class Unanswered(Exception):
    """No such call came; the message says why, without the key."""


class Model:
    """Asks a model. Use it in one event loop."""

    def __init__(self, terms: Endpoint, egress: Egress) -> None:
        self._terms = terms
        self._egress = egress

    async def call(self, prompt: Prompt, tool: Tool[T], *, seed: int | None = None) -> Called[T]:
        """The model's call of ``tool``; ``seed`` goes along where the API has one. Raises
        Unanswered.
        """
        path, body = self._request(prompt, tool, seed)
        for attempt in range(1, ATTEMPTS + 1):
            reply = await self._send(path, body)
            if reply.status not in _BUSY or attempt == ATTEMPTS:
                break
            await asyncio.sleep(_pause(reply, attempt))
        if reply.status != 200:
            raise Unanswered(f"the model's endpoint answered {reply.status}")
        return _read(self._terms.type, reply.body, tool)

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

    def _request(self, prompt: Prompt, tool: Tool[T], seed: int | None) -> tuple[str, bytes]:
        terms = self._terms
        if terms.type == "anthropic":
            offered = {
                "name": tool.name,
                "description": tool.description,
                "input_schema": tool.schema,
            }
            value: dict[str, Any] = {
                "model": terms.model,
                "max_tokens": terms.tokens_max,
                "system": prompt.system,
                "messages": [{"role": "user", "content": prompt.user}],
                "tools": [offered],
                "tool_choice": {"type": "tool", "name": tool.name},
            }
            return "/v1/messages", msgspec.json.encode(value)
        function = {
            "name": tool.name,
            "description": tool.description,
            "parameters": tool.schema,
        }
        value = {
            "model": terms.model,
            "max_completion_tokens": terms.tokens_max,
            "messages": [
                {"role": "system", "content": prompt.system},
                {"role": "user", "content": prompt.user},
            ],
            "tools": [{"type": "function", "function": function}],
            "tool_choice": {"type": "function", "function": {"name": tool.name}},
        }
        if seed is not None:
            value["seed"] = seed
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
    input: msgspec.Raw = msgspec.Raw(b"null")


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


def _read(kind: str, body: bytes, tool: Tool[T]) -> Called[T]:
    try:
        found, tokens = (
            _anthropic(body, tool.name) if kind == "anthropic" else _openai(body, tool.name)
        )
        if len(found) != 1:
            raise Unanswered("the model did not call the tool once")
        value = msgspec.json.decode(found[0], type=tool.kind)
    except (msgspec.DecodeError, RecursionError):
        raise Unanswered("the model's answer has not the form that was asked for") from None
    return Called(value=value, input_tokens=tokens[0], output_tokens=tokens[1])


def _anthropic(body: bytes, name: str) -> tuple[list[bytes], tuple[int, int]]:
    said = msgspec.json.decode(body, type=_Message)
    uses = [one for one in said.content if one.type == "tool_use" and one.name == name]
    return [bytes(one.input) for one in uses], (said.usage.input_tokens, said.usage.output_tokens)


def _openai(body: bytes, name: str) -> tuple[list[bytes], tuple[int, int]]:
    said = msgspec.json.decode(body, type=_Completion)
    calls = said.choices[0].message.tool_calls or [] if said.choices else []
    found = [one.function.arguments.encode() for one in calls if one.function.name == name]
    return found, (said.usage.prompt_tokens, said.usage.completion_tokens)


def _pause(reply: EgressReply, attempt: int) -> float:
    told = dict(reply.headers).get("retry-after", "")
    seconds = float(told) if told.isdecimal() else 0.5 * 2**attempt
    return min(seconds, _PAUSE_SECONDS_MAX)
