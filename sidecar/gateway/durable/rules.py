"""Durable calls as decisions: what an attempt's end means, and when the next one is due.

**Rules**
1. The claim decides. Completed or resolved done is the end. Unknown is tried again only where the
   tool can tell or takes the key again; else it is a dead letter for a person.
2. Where no effect is possible, what says that it may help is tried again; every other refusal, and
   every other answer of the tool, would be the same again: a dead letter.
3. Waiting for a person, for a hold to end or for the same call elsewhere uses up no attempt, and
   time all the same.
4. A tool's or our own ``Retry-After`` is honoured where it is later than the backoff.
"""

import json
from typing import Any

from msgspec import Struct

from sidecar.gateway.content import Headers
from sidecar.gateway.registry import Backoff
from sidecar.gateway.request import ToolReply
from sidecar.store.ledger import Claim

_OURS = "urn:agenttwin:problem:"
_DONE = frozenset({"completed", "resolved_done"})
_WAITING = frozenset({"in_flight", "cooling_off"})
_PENDING = frozenset({"pending", "approved"})
_PERSON_SECONDS, _FLIGHT_SECONDS = 5, 1
_RETRY_AFTER_MAX = 86_400
_SECOND_NS = 1_000_000_000


class Done(Struct, frozen=True, kw_only=True):
    """It has an end that the key answers with; ``code`` where that is the tool's refusal."""

    code: str | None = None


class Again(Struct, frozen=True, kw_only=True):
    """It may help to try again, after ``seconds`` at least; ``counted`` as an attempt."""

    code: str
    seconds: int = 0
    counted: bool = True


class Dead(Struct, frozen=True, kw_only=True):
    """It would not help: a person has to look."""

    code: str


End = Done | Again | Dead


def judged(claim: Claim | None, reply: ToolReply, *, recoverable: bool) -> End:
    """What an attempt's claim and answer mean. ``recoverable``: the tool declares a recipe, or
    takes the same key again."""
    said = _problem(reply)
    code, later = said.get("code", ""), _retry_after(reply.headers)
    if claim is not None and claim.state in _DONE:
        return Done(code=None if reply.status < 400 else f"upstream_{reply.status}")
    if said.get("approval", {}).get("status") in _PENDING:
        return Again(code=code or "approval_required", seconds=_PERSON_SECONDS, counted=False)
    if code in _WAITING:
        return Again(code=code, seconds=later or _FLIGHT_SECONDS, counted=False)
    if claim is not None and claim.state == "unknown":
        known = Again(code="outcome_unknown", seconds=later)
        return known if recoverable else Dead(code="outcome_unknown")
    if code:
        again = said.get("next_action") == "retry"
        return Again(code=code, seconds=later) if again else Dead(code=code)
    code = f"upstream_{reply.status}"
    return Again(code=code, seconds=later) if later or reply.status == 429 else Dead(code=code)


def pause_ns(attempts: int, rules: Backoff, seconds: int, luck: float) -> int:
    """How long until the next attempt after ``attempts`` that were made; ``luck`` is 0 to 1."""
    doubled = rules.first_ns * 2 ** min(max(attempts, 1) - 1, 40)
    backoff = min(doubled, rules.most_ns)
    return max(int(backoff * (0.5 + luck / 2)), seconds * _SECOND_NS)


def attempt_headers(headers: Headers) -> Headers:
    """The headers of an attempt: it does not ask to be put off again, and takes an approval."""
    kept = tuple(pair for pair in headers if pair[0].lower() != "prefer")
    return (*kept, ("prefer", "wait=1"))


def _problem(reply: ToolReply) -> dict[str, Any]:
    """Our own refusal or pending answer, empty where it is the tool's answer."""
    try:
        document = json.loads(reply.body)
    except (ValueError, RecursionError):
        return {}
    ours = isinstance(document, dict) and str(document.get("type", "")).startswith(_OURS)
    return document if ours else {}


def _retry_after(headers: Headers) -> int:
    for name, value in headers:
        if name.lower() == "retry-after" and value.isascii() and value.isdigit():
            return min(int(value[:9]), _RETRY_AFTER_MAX)
    return 0
