"""Break-glass: two people of its own stand in for approvers that cannot be had, and answer for it.

**Rules**
1. It stands in for who and how many must approve one request (``approval.roles``, ``min``,
   fatigue), and for nothing else: what policy denies, a stop, a limit, a budget, a person's denial,
   a changed policy, tool or action, a demanded sign-in and the exclusion of who asked stay as they
   are. A request that policy does not ask approval for has no glass.
2. It is an action of its own: a document that names the request and all it is bound to, with a
   digest, signed by the gateway. Both people vote on that digest. Votes on the request do not
   count here, and who has voted there does not vote here.
3. Two natural people, told apart as for the request. It runs out at its own time, the shortest
   there is, and what it opened does too.
4. Once broken it stays open for review until a person who broke it not has closed it.
"""

import json
from typing import Any, Literal

from msgspec import Struct

from processors.model.call import Approval, Vote
from processors.model.principal import Authn
from sidecar.canonical import canonical, sha256
from sidecar.store import step_up
from sidecar.store.standing import person, went_back

PEOPLE = 2
_DOMAIN = b"agwb/1\n"
GlassState = Literal["open", "lapsed", "broken", "reviewed"]


class GlassVote(Struct, frozen=True, kw_only=True):
    """One of the two; ``digest`` is that of the document they voted on."""

    voter: str
    reason: str
    voted_at_ns: int
    digest: str
    authn: Authn = Authn()


class BreakGlass(Struct, frozen=True, kw_only=True):
    """One glass. ``document`` is the RFC 8785 text that ``digest`` is of (domain ``agwb/1``) and
    ``signature`` signs; until ``expires_at_ns`` the second person may break it; ``state`` as of
    when it was asked for; ``reviewed_by`` closed the review, saying ``review``."""

    glass_id: str
    project: str
    approval_id: str
    document: str
    digest: str
    kid: str = ""
    signature: bytes = b""
    opened_at_ns: int
    expires_at_ns: int
    broken_at_ns: int | None = None
    reviewed_at_ns: int | None = None
    reviewed_by: str = ""
    review: str = ""
    votes: tuple[GlassVote, ...] = ()
    state: GlassState = "open"

    def as_votes(self) -> tuple[Vote, ...]:
        """Both words as votes on the request."""
        return tuple(
            Vote(
                voter=each.voter,
                decision="approve",
                reason=each.reason,
                voted_at_ns=each.voted_at_ns,
                shown_digest=each.digest,
                authn=each.authn,
            )
            for each in self.votes
        )

    def signed(self) -> bytes:
        """The bytes that the signature covers."""
        return _DOMAIN + self.document.encode()


class GlassBallot(Struct, frozen=True, kw_only=True):
    """A person's word on a glass: to open it, to break it, to close its review."""

    project: str
    glass_id: str
    voter: str
    voter_name: str
    reason: str
    digest: str
    now_ns: int
    authn: Authn = Authn()

    @property
    def identity(self) -> str:
        """Whom the vote counts for."""
        return person(self.voter_name) or self.voter


def made(
    approval: Approval, *, glass_id: str, opened_by: str, reason: str, now_ns: int, lasts_ns: int
) -> BreakGlass:
    """A glass for a request, not signed yet."""
    expires_at_ns = min(now_ns + lasts_ns, approval.decide_by_ns)
    said = {
        "v": 1,
        "kind": "break_glass",
        "action_hash": approval.action_hash,
        "approval_id": approval.approval_id,
        "expires_at_ns": str(expires_at_ns),
        "glass_id": glass_id,
        "key_hash": approval.key_hash,
        "opened_at_ns": str(now_ns),
        "opened_by": opened_by,
        "policy_revision": approval.policy_revision,
        "project": approval.project,
        "reason": reason,
        "requester": approval.requester,
        "shown_digest": approval.shown_digest,
        "tool": approval.tool,
        "tool_digest": approval.tool_digest,
    }
    document = canonical(said).decode()
    return BreakGlass(
        glass_id=glass_id,
        project=approval.project,
        approval_id=approval.approval_id,
        document=document,
        digest=sha256(_DOMAIN + document.encode()),
        opened_at_ns=now_ns,
        expires_at_ns=expires_at_ns,
    )


def told(glass: BreakGlass, now_ns: int) -> dict[str, Any]:
    """A glass as every interface tells it: as it stands now, its signature in hex as in the
    chain."""
    fields = {name: getattr(glass, name) for name in glass.__struct_fields__}
    return fields | {"signature": glass.signature.hex(), "state": state_of(glass, now_ns)}


def state_of(glass: BreakGlass, now_ns: int) -> GlassState:
    """How a glass stands."""
    if glass.reviewed_at_ns is not None:
        return "reviewed"
    if glass.broken_at_ns is not None:
        return "broken"
    return "open" if now_ns < glass.expires_at_ns else "lapsed"


def why_not_voted(
    approval: Approval | None, ballot: GlassBallot, *, revision: str | None, mark_ns: int
) -> str | None:
    """The code of why a vote to open or break a glass does not count; None where it does."""
    if approval is None:
        return "no_such_approval"
    if approval.status != "pending":
        return f"approval_{approval.status}"
    if approval.expires_at_ns <= ballot.now_ns:
        return "approval_expired"
    if went_back(ballot.now_ns, mark_ns):
        return "clock_skewed"
    if revision is not None and approval.policy_revision != revision:
        return "approval_policy_changed"
    lacks = step_up.unmet(ballot.authn, approval.step_up, ballot.now_ns)
    return None if lacks is None else step_up.CODE


def why_not_broken(glass: BreakGlass | None, ballot: GlassBallot) -> str | None:
    """The code of why a glass cannot be broken with this vote; None where it can."""
    if glass is None:
        return "no_such_glass"
    state = state_of(glass, ballot.now_ns)
    if state != "open":
        return f"glass_{state}"
    return None if ballot.digest == glass.digest else "summary_changed"


def why_not_reviewed(glass: BreakGlass | None, ballot: GlassBallot) -> str | None:
    """The code of why a review is not closed by this person; None where it is."""
    if glass is None:
        return "no_such_glass"
    state = state_of(glass, ballot.now_ns)
    return None if state == "broken" else f"glass_{state}"


def opened_entry(glass: BreakGlass, ballot: GlassBallot) -> dict[str, Any]:
    """What the chain keeps of an opening: the whole of what was signed."""
    return {
        "approval_id": glass.approval_id,
        "by": ballot.voter,
        "digest": glass.digest,
        "document": json.loads(glass.document),
        "kid": glass.kid,
        "signature": glass.signature.hex(),
    }


def word_entry(glass: BreakGlass, ballot: GlassBallot, **more: str) -> dict[str, Any]:
    """What the chain keeps of any later word on a glass."""
    return {
        "approval_id": glass.approval_id,
        "by": ballot.voter,
        "digest": glass.digest,
        "glass_id": glass.glass_id,
        "reason": ballot.reason,
        **more,
    }


def use_by(approval: Approval, now_ns: int, lasts_ns: int) -> int:
    """Until when a request whose glass is broken now may be used: the shortest time there is."""
    window_ns = approval.execute_by_ns - approval.decide_by_ns
    return now_ns + (min(lasts_ns, window_ns) if window_ns > 0 else lasts_ns)


def resolved(approval: Approval, ballot: GlassBallot, until_ns: int) -> dict[str, str]:
    """What the chain says of the request that a broken glass approves."""
    return {
        "approval_id": approval.approval_id,
        "execute_by_ns": str(until_ns),
        "glass_id": ballot.glass_id,
        "status": "approved",
    }
