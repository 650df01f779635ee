"""A policy bundle that would loosen decisions: offered to people, voted on, and activated once.

**Rules**
1. What is voted on is one revision against the one that decides. Another of either is another
   offer, and takes the place of the one before.
2. Two people approve it: identities count, not keys, of who votes twice one vote counts, and who
   signed the release is none of them. Who has no name cannot be told from another. One deny ends
   it.
3. An approval is used up by the activation, in its transaction.
"""

from typing import Literal

import msgspec
from msgspec import Struct, structs

POLICY_OFFER = "policy_offer"
"""The state of the gateway that holds the offer."""
PEOPLE = 2
OfferState = Literal["pending", "approved", "denied", "activated"]


class PolicyVote(Struct, frozen=True, kw_only=True):
    """One person's word on an offer."""

    voter: str
    identity: str
    decision: Literal["approve", "deny"]
    reason: str
    voted_at_ns: int


class PolicyOffer(Struct, frozen=True, kw_only=True):
    """A revision that would take the place of ``before``, and what it would have done with the last
    decisions. ``signers``: identities of who signed it, which do not count."""

    revision: str
    before: str
    offered_at_ns: int
    compared: int = 0
    loosened: int = 0
    tightened: int = 0
    changed: int = 0
    unjudged: int = 0
    sequence: int | None = None
    key_id: str = ""
    signers: tuple[str, ...] = ()
    state: OfferState = "pending"
    votes: tuple[PolicyVote, ...] = ()


class Activation(Struct, frozen=True, kw_only=True):
    """To have a revision decide: ``sequence`` is its release's number, ``loosens`` whether people
    must have approved it."""

    revision: str
    sequence: int | None = None
    loosens: bool = False


class PolicyBallot(Struct, frozen=True, kw_only=True):
    """A vote on an offer; ``identity`` is the person, ``voter`` the principal."""

    revision: str
    voter: str
    identity: str
    decision: Literal["approve", "deny"]
    reason: str
    now_ns: int


def read_offer(state: bytes | None) -> PolicyOffer | None:
    """The offer as it is kept."""
    return None if state is None else msgspec.json.decode(state, type=PolicyOffer)


def kept(offer: PolicyOffer) -> bytes:
    """The offer, to be kept."""
    return msgspec.json.encode(offer)


def offered(there: PolicyOffer | None, made: PolicyOffer) -> PolicyOffer:
    """The offer that stands once this one is made: the same one as before, or the new one."""
    if there is None or there.state == "activated":
        return made
    same = (there.revision, there.before) == (made.revision, made.before)
    return there if same else made


def voted(offer: PolicyOffer | None, ballot: PolicyBallot) -> PolicyOffer | str:
    """The offer with a vote, or the code of why it does not count."""
    if offer is None or offer.revision != ballot.revision:
        return "no_such_offer"
    if offer.state != "pending":
        return f"offer_{offer.state}"
    if ballot.decision == "approve" and not ballot.identity:
        return "approver_not_eligible"
    if ballot.decision == "approve" and ballot.identity in offer.signers:
        return "signer_not_eligible"
    whose = ballot.identity or ballot.voter
    if any(each.identity == whose for each in offer.votes):
        return "vote_repeated"
    vote = PolicyVote(
        voter=ballot.voter,
        identity=whose,
        decision=ballot.decision,
        reason=ballot.reason,
        voted_at_ns=ballot.now_ns,
    )
    votes = (*offer.votes, vote)
    state: OfferState = "pending"
    if ballot.decision == "deny":
        state = "denied"
    elif len(votes) >= PEOPLE:
        state = "approved"
    return structs.replace(offer, votes=votes, state=state)


def may_activate(offer: PolicyOffer | None, revision: str, active: str) -> bool:
    """Whether a looser revision may take the place of the active one: two people said so, or it has
    taken it already, in another sidecar."""
    if active == revision:
        return True
    if offer is None or offer.state != "approved":
        return False
    return (offer.revision, offer.before) == (revision, active)


def used(offer: PolicyOffer | None, revision: str) -> PolicyOffer | None:
    """The offer once its revision was activated; None where that changes nothing about it."""
    if offer is None or offer.revision != revision or offer.state == "activated":
        return None
    return structs.replace(offer, state="activated")


def offered_body(offer: PolicyOffer) -> dict[str, str]:
    """What the chain keeps of an offer."""
    names = ("revision", "before", "compared", "loosened", "tightened", "changed", "unjudged")
    return {name: str(getattr(offer, name)) for name in (*names, "key_id")}


def vote_body(ballot: PolicyBallot, offer: PolicyOffer) -> dict[str, str]:
    """What the chain keeps of a vote, and of what came of it."""
    return {
        "by": ballot.voter,
        "decision": ballot.decision,
        "reason": ballot.reason,
        "revision": ballot.revision,
        "state": offer.state,
    }
