"""A second engine beside the one that decides: both are asked, and must say the same.

**Rules**
1. It decides nothing. A share of the calls is asked after the answer is given, and what it does
   wrong touches none of them.
2. Where it is configured so, an irreversible call is asked of both before it is answered, and is
   denied unless both say the same of the same bundle: no answer is not the same.

Source: gateway.md §5.4 (6).
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from sidecar.clock import random_bytes
from sidecar.gateway.policy.result import PolicyAnswer, denied
from sidecar.telemetry import POLICY_COMPARED, log

AT_ONCE_MAX = 64
_log = log("policy")


class Engine(Protocol):
    """Whoever else decides."""

    async def open(self) -> None:
        """Make ready to ask; whether it answers shows then."""
        ...

    async def stop(self) -> None:
        """Close what is open."""
        ...

    async def decide(self, document: dict[str, Any]) -> PolicyAnswer:
        """The answer on a document; a failure is a denial with ``error``."""
        ...


class Second:
    """Asks ``engine`` a ``share`` of what is decided, and all that is irreversible where
    ``strict``."""

    def __init__(
        self,
        engine: Engine,
        *,
        share: float,
        strict: bool = False,
        luck: Callable[[], float] | None = None,
    ) -> None:
        self._engine = engine
        self._share = share
        self._strict = strict
        self._luck = luck or _luck
        self._asking: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Make ready."""
        await self._engine.open()

    async def stop(self) -> None:
        """End. Safe twice."""
        if self._asking:
            await asyncio.gather(*self._asking, return_exceptions=True)
        await self._engine.stop()

    async def agreed(
        self, document: dict[str, Any], first: Awaitable[PolicyAnswer]
    ) -> PolicyAnswer:
        """The first engine's answer, or a denial where the second must agree and does not."""
        if self._strict and _is_irreversible(document):
            ours, theirs = await asyncio.gather(first, self._engine.decide(document))
            kind = told(ours, theirs)
            POLICY_COMPARED.labels(kind).inc()
            if kind == "same" or ours.error is not None:
                return ours
            _tell(kind, ours, theirs)
            return _denied(ours, kind)
        ours = await first
        if self._luck() < self._share:
            self._try(document, ours)
        return ours

    def _try(self, document: dict[str, Any], ours: PolicyAnswer) -> None:
        if len(self._asking) >= AT_ONCE_MAX:
            POLICY_COMPARED.labels("skipped").inc()
            return
        task = asyncio.ensure_future(self._compare(document, ours))
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)

    async def _compare(self, document: dict[str, Any], ours: PolicyAnswer) -> None:
        theirs = await self._engine.decide(document)
        kind = told(ours, theirs)
        POLICY_COMPARED.labels(kind).inc()
        if kind != "same":
            _tell(kind, ours, theirs)


def told(ours: PolicyAnswer, theirs: PolicyAnswer) -> str:
    """``same``, ``differs``, ``failed`` (the second had no answer) or ``other_revision``."""
    if theirs.revision and theirs.revision != ours.revision:
        return "other_revision"
    if (ours.error is None) != (theirs.error is None):
        return "differs" if theirs.error is None else "failed"
    return "same" if ours.error is not None or _said(ours) == _said(theirs) else "differs"


def _said(answer: PolicyAnswer) -> tuple[Any, ...]:
    terms = (answer.limits, answer.approval, answer.obligations)
    return (answer.effect, answer.reasons, *terms)


def _denied(ours: PolicyAnswer, kind: str) -> PolicyAnswer:
    why = {
        "failed": "the second policy engine gave no answer",
        "other_revision": "the second policy engine has another bundle",
    }
    refused = denied(why.get(kind, "the policy engines do not agree"))
    return PolicyAnswer(
        effect=refused.effect,
        reasons=refused.reasons,
        error=refused.error,
        revision=ours.revision,
        engine=ours.engine,
        input_digest=ours.input_digest,
    )


def _tell(kind: str, ours: PolicyAnswer, theirs: PolicyAnswer) -> None:
    _log.warning(
        "policy_engines_differ",
        kind=kind,
        effect=ours.effect,
        other=theirs.effect,
        input_digest=ours.input_digest,
        revision=ours.revision,
    )


def _is_irreversible(document: dict[str, Any]) -> bool:
    """By the registry's word; what does not say its class counts too."""
    try:
        return bool(document["resource"]["properties"]["registered_class"] == "irreversible")
    except (KeyError, TypeError):
        return True


def _luck() -> float:
    return int.from_bytes(random_bytes(4), "big") / 2**32
