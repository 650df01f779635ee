"""Step-up: what a vote demands of its voter's sign-in, and whether one meets it.

**Rules**
1. A demand is met by what an identity provider says of the sign-in, never by what a voter says: a
   key, a certificate, a token without the claim meet none of it.
2. Each demand is met on its own; several are not made into one.
3. The age counts at the vote, from ``auth_time``; one that lies ahead is none.

Source: OpenID Connect Core 1.0 §2 (acr, amr, auth_time); RFC 9470; RFC 8176.
"""

from collections.abc import Iterable, Sequence

import msgspec

from processors.model.call import Vote
from processors.model.principal import Authn, StepUp

CODE = "step_up_required"
_SECOND_NS = 1_000_000_000
_AHEAD_NS = 30 * _SECOND_NS


def meets(authn: Authn, demand: StepUp, at_ns: int) -> bool:
    """Whether a sign-in meets a demand for a vote at that moment."""
    if demand.acr and authn.acr not in demand.acr:
        return False
    if not set(demand.amr) <= set(authn.amr):
        return False
    if demand.max_age_s is None:
        return True
    if authn.auth_time_ns is None:
        return False
    age_ns = at_ns - authn.auth_time_ns
    return -_AHEAD_NS <= age_ns <= demand.max_age_s * _SECOND_NS


def unmet(authn: Authn, demands: Iterable[StepUp], at_ns: int) -> StepUp | None:
    """The first demand that a sign-in does not meet; None where it meets all."""
    return next((each for each in demands if not meets(authn, each, at_ns)), None)


def short_of(votes: Sequence[Vote], demands: Sequence[StepUp], least: int) -> bool:
    """Whether fewer than ``least`` approvers' sign-ins meet what is demanded now."""
    if not demands:
        return False
    good = sum(
        vote.decision == "approve" and unmet(vote.authn, demands, vote.voted_at_ns) is None
        for vote in votes
    )
    return good < least


def words(demand: StepUp) -> str:
    """What somebody who does not meet it is to do."""
    said = [f"with acr {' or '.join(demand.acr)}"] if demand.acr else []
    if demand.amr:
        said.append(f"by {' and '.join(demand.amr)}")
    if demand.max_age_s is not None:
        said.append(f"at most {demand.max_age_s} seconds before your vote")
    return f"sign in at your identity provider, {', '.join(said)}, and vote with that token"


def encode(demands: Sequence[StepUp]) -> str:
    """Demands as they are kept; empty where there are none."""
    return msgspec.json.encode(demands).decode() if demands else ""


def decode(text: str) -> tuple[StepUp, ...]:
    """The demands of a kept text."""
    return msgspec.json.decode(text, type=tuple[StepUp, ...]) if text else ()


def encode_authn(authn: Authn) -> str:
    """A sign-in as it is kept with a vote."""
    return msgspec.json.encode(authn).decode()


def decode_authn(text: str) -> Authn:
    """The sign-in of a kept text; that of a vote of before is a key's, which says nothing."""
    return msgspec.json.decode(text, type=Authn) if text else Authn()
