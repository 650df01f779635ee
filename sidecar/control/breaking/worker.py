"""Break-glass as people do it over the control API: opened by one, broken by another, reviewed.

**Rules**
1. Who may is ``gateway.approval``'s rule, whether a word counts is the ledger's.
2. Every step is in the log as an error, counted, in the chain, and told to every webhook.
"""

from collections.abc import Callable
from typing import Any

from processors.model.call import Approval
from processors.model.principal import Principal
from processors.redact.masker import Masker
from sidecar import clock
from sidecar.control.reads import Asked
from sidecar.gateway.approval import why_not_glass, why_not_review
from sidecar.gateway.config import Approvals
from sidecar.gateway.problem import Refused
from sidecar.store import glass as glasses
from sidecar.store import step_up
from sidecar.store.glass import GlassBallot
from sidecar.store.ports import PeoplesBook
from sidecar.telemetry import APPROVALS_REFUSED, BREAK_GLASS, log

_LOG = log("control")
_CODES = {
    "no_such_approval": (404, "there is no such approval in this project"),
    "no_such_glass": (404, "there is no such glass in this project"),
    "approver_not_eligible": (403, "your credential may not do this; see approvals.break_glass"),
    "self_approval": (403, "who asked, owns the agent, or is acted for does not do this"),
    "self_review": (403, "who broke the glass does not review it"),
    "vote_repeated": (403, "it takes two people, neither of whom has voted on the request"),
    "summary_changed": (409, "what you saw is not what this is about; look again"),
    "approval_policy_changed": (409, "policy has changed since this was asked; it is void"),
    "clock_skewed": (503, "the sidecar's clock was set, so no time can be told; set it right"),
    "glass_open": (409, "the glass on this request is open already; break that one"),
    "glass_lapsed": (409, "its time is over; open another"),
    "glass_broken": (409, "the glass is broken already"),
    "glass_reviewed": (409, "the review is closed already"),
    "glass_open_still": (409, "the glass is not broken; there is nothing to review"),
    step_up.CODE: (403, "your sign-in is not what this request demands of its approvers"),
}


class Breaking:
    """Three deeds over the ledger. ``in_time`` says whether the clock can be trusted."""

    def __init__(self, book: PeoplesBook, rules: Approvals, in_time: Callable[[], bool]) -> None:
        self._book = book
        self._rules = rules
        self._in_time = in_time

    async def open(self, asked: Asked) -> str:
        """The first word; the glass's id. Raises Refused."""
        of = asked.of
        found = self._book.find_approval(of.approval_id, asked.project)
        if found is None:
            raise _refused("no_such_approval")
        self._check(why_not_glass(found, asked.principal, self._rules))
        if of.shown_digest != found.shown_digest:
            raise _refused("summary_changed")
        wanted = glasses.made(
            found,
            glass_id=clock.new_id(),
            opened_by=asked.principal.id,
            reason=Masker().mask(of.reason.strip()),  # it stays in the chain for good
            now_ns=asked.now_ns,
            lasts_ns=self._rules.break_glass.expires_ns,
        )
        ballot = _ballot(asked, wanted.glass_id, wanted.digest)
        self._check(await self._book.open_glass(wanted, ballot))
        _told("opened", wanted.glass_id, asked.principal)
        return wanted.glass_id

    async def break_(self, asked: Asked) -> str:
        """The second word; the glass's id. Raises Refused."""
        self._may(asked, why_not_glass)
        ballot = _ballot(asked, asked.of.glass_id, asked.of.digest)
        self._check(await self._book.break_glass(ballot, self._rules.break_glass.expires_ns))
        _told("broken", asked.of.glass_id, asked.principal)
        return ballot.glass_id

    async def review(self, asked: Asked) -> str:
        """The end of the review; the glass's id. Raises Refused."""
        self._may(asked, why_not_review)
        ballot = _ballot(asked, asked.of.glass_id, "")
        code = await self._book.review_glass(ballot)
        self._check("glass_open_still" if code in ("glass_open", "glass_lapsed") else code)
        _told("reviewed", asked.of.glass_id, asked.principal)
        return ballot.glass_id

    def _may(
        self, asked: Asked, why_not: Callable[[Approval, Principal, Approvals], str | None]
    ) -> None:
        glass = self._book.find_glass(asked.of.glass_id, asked.project)
        if glass is None:
            raise _refused("no_such_glass")
        found = self._book.find_approval(glass.approval_id, asked.project)
        if found is None:
            raise _refused("no_such_approval")
        self._check(why_not(found, asked.principal, self._rules))

    def _check(self, code: str | None) -> None:
        if code is None and not self._in_time():
            code = "clock_skewed"
        if code is not None:
            APPROVALS_REFUSED.labels(code if code in _CODES else "not_pending").inc()
            raise _refused(code)


def _ballot(asked: Asked, glass_id: str, digest: str) -> GlassBallot:
    who, of = asked.principal, asked.of
    return GlassBallot(
        project=asked.project,
        glass_id=glass_id,
        voter=who.id,
        voter_name=who.name,
        reason=Masker().mask(of.reason.strip()),  # it stays in the chain for good
        digest=digest,
        now_ns=asked.now_ns,
        authn=who.authn,
    )


def _told(event: str, glass_id: str, by: Principal) -> None:
    BREAK_GLASS.labels(event).inc()
    _LOG.error(f"break_glass_{event}", glass=glass_id, by=by.id)


def _refused(code: str) -> Refused:
    status, detail = _CODES.get(code, (409, "the request is no longer pending"))
    return Refused(status, code, detail)


DEEDS: dict[str, Callable[[Breaking, Asked], Any]] = {
    "open_break_glass": Breaking.open,
    "break_glass": Breaking.break_,
    "review_break_glass": Breaking.review,
}
"""The operations, by name."""
