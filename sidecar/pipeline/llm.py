"""Claims asked of a language model: one chat completion an answer, through egress alone.

Rules
1. Whatever goes wrong gives no claims and a counted reason; nothing waits longer than the deadline.
2. What leaves is the answer and the tools' names; what comes back counts by ``verify.extract``.
3. The key is read from its file at every call and is in no log.
"""

from collections.abc import Mapping
from pathlib import Path

import msgspec

from processors.model.evidence import Claim
from processors.model.names import SideEffectClass
from processors.model.trace import AgentTrace
from processors.verify.extract import found, question
from processors.verify.naming import nameables
from sidecar import clock
from sidecar.egress.client import Egress, EgressFailed
from sidecar.pipeline.hearing import Budget, LlmExtractor
from sidecar.telemetry import DROPPED, log

_log = log("pipeline")


class LlmHearing:
    """Hears an answer by asking a model; ``tools`` are the registry's names and classes."""

    def __init__(
        self, terms: LlmExtractor, egress: Egress, tools: Mapping[str, SideEffectClass]
    ) -> None:
        self._terms = terms
        self._egress = egress
        self._tools = tools
        self._budget = Budget(terms.calls_per_hour)

    async def hear(self, trace: AgentTrace) -> tuple[Claim, ...]:
        """The claims of a trace's answer, none where it has none or the model does not tell."""
        answer = (trace.final_output or "")[: self._terms.characters_max]
        known = [tool for tool in nameables(trace, self._tools) if not tool.reading]
        if not answer.strip() or not known:
            return ()
        if not self._budget.take(clock.now_ns()):
            return self._missed("over_budget")
        names = [tool.name for tool in known]
        body = msgspec.json.encode(
            {
                "model": self._terms.model,
                "messages": question(answer, names, self._terms.characters_max),
                "temperature": 0,
                "max_tokens": self._terms.tokens_max,
                "response_format": {"type": "json_object"},
            }
        )
        try:
            reply = await self._egress.request(
                self._terms.target,
                "POST",
                "/chat/completions",
                self._headers(),
                body,
                deadline_ns=self._terms.deadline_ns,
            )
        except (OSError, UnicodeError):
            return self._missed("credential_unreadable")
        except EgressFailed:
            return self._missed("no_answer")
        content = _content(reply.body) if reply.status == 200 else None
        if content is None:
            return self._missed("bad_answer")
        return found(content, answer, known)

    def _headers(self) -> list[tuple[str, str]]:
        headers = [("content-type", "application/json"), ("accept", "application/json")]
        if self._terms.credential_file:
            key = Path(self._terms.credential_file).read_text(encoding="ascii").strip()
            if not key or not key.isprintable():
                raise UnicodeError("not a header value")
            headers.append(("authorization", f"Bearer {key}"))
        return headers

    def _missed(self, reason: str) -> tuple[Claim, ...]:
        DROPPED.labels("claims", reason).inc()
        _log.warning("claims_not_heard", reason=reason)
        return ()


class _Said(msgspec.Struct):
    content: str | None = None


class _Choice(msgspec.Struct):
    message: _Said


class _Completion(msgspec.Struct):
    choices: list[_Choice]


def _content(body: bytes) -> str | None:
    """The text of a chat completion, or None."""
    try:
        read = msgspec.json.decode(body, type=_Completion)
    except msgspec.DecodeError:
        return None
    return read.choices[0].message.content if read.choices else None
