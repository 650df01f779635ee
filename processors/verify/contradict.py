"""Contradictions: where what was said or shown and what is known cannot both be true.

Rules
1. A contradiction has two sides: ``said`` (claims or spans) and evidence, or its absence where the
   gateway must have seen the call. What is merely unproved contradicts nothing.
2. Each statement is judged by itself: what another source says excuses none (``case``), so that
   another statement of the agent's never takes a contradiction away.
3. A claim said with little confidence accuses nobody. What a tool's result says is no lie of the
   agent's: its failure accuses nobody, its success only where no answer admits the failure or
   says that it is not known.
4. Details are one sentence that names tools and codes, never content.

``disagree`` has spans against receipts, ``mismatch`` amounts and targets; docs/specs/outcome.md has
the table; ``outcome`` draws the conclusion.
"""

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from processors.model.evidence import Claim, Contradiction
from processors.verify.case import Case, accuses, same_statement
from processors.verify.disagree import duplicates, receipt_errors, unreceipted, unreported
from processors.verify.effects import Effect, identifiers
from processors.verify.mismatch import mismatches

_EVIDENCE_MAX = 64


def contradictions(case: Case) -> tuple[Contradiction, ...]:
    """Every contradiction, each once with all that was said of it, claims first."""
    if not case.trace.evidence and not _governed(case):
        return ()
    found: dict[tuple[str, str, str | None], Contradiction] = {}
    for item in (*_against_evidence(case), *unreceipted(case), *_against_receipts(case)):
        key = (item.code, item.detail, item.step_id)
        known = found.get(key)
        found[key] = item if known is None else _both(known, item)
    return tuple(found.values())


def _governed(case: Case) -> bool:
    """Whether a tool ran that the registry knows, which the gateway may have had to see."""
    return any(name is not None for _, name in case.executed)


def _against_evidence(case: Case) -> Iterator[Contradiction]:
    """What is claimed, and what happened twice: without evidence nothing stands against it."""
    if case.trace.evidence:
        yield from _claimed_success(case)
        yield from mismatches(case)
        yield from _claimed_failure(case)
        yield from duplicates(case)


def _against_receipts(case: Case) -> Iterator[Contradiction]:
    if case.trace.evidence:
        yield from unreported(case)
        yield from receipt_errors(case)


def _both(one: Contradiction, other: Contradiction) -> Contradiction:
    return replace(
        one,
        evidence=tuple(dict.fromkeys((*one.evidence, *other.evidence))),
        said=tuple(dict.fromkeys((*one.said, *other.said))),
    )


def _claimed_success(case: Case) -> Iterator[Contradiction]:
    for claim in case.claims:
        if claim.status != "success" or not accuses(claim):
            continue
        meant = _meant(case, claim)
        if _excused(case, claim, meant):
            continue
        failed = [effect for effect in meant if effect.held is False]
        if failed and len(failed) < len(meant):
            failed = _accused(case, claim, failed, meant)
        if failed:
            who = "its result says" if claim.source == "tool_result" else "the agent said"
            yield Contradiction(
                code="claimed_success_state_failed",
                detail=f"{claim.subject or failed[0].subject}: {who} that it was done, "
                "but it is not",
                step_id=failed[0].step_ids[0] if failed[0].step_ids else None,
                evidence=tuple(
                    item.evidence_id
                    for effect in failed
                    for item in (effect.states or effect.receipts)
                    if item.held is False
                )[:_EVIDENCE_MAX],
                said=(claim.claim_id,),
            )


def _excused(case: Case, claim: Claim, meant: Sequence[Effect]) -> bool:
    """Whether what was said along with a claim of success takes it back."""
    if claim.source == "tool_result":
        spoken = (item for item in case.claims if item.source != "tool_result")
        ended = all(effect.held is not False or case.plainly_failed(effect) for effect in meant)
        return ended and any(item.status != "success" for item in spoken)
    if claim.subject is not None:
        return False
    return any(item.status == "failure" and same_statement(item, claim) for item in case.claims)


def _meant(case: Case, claim: Claim) -> list[Effect]:
    """The effects a claim is about; a result speaks of its own step's only."""
    meant = case.of(claim.subject)
    if claim.source != "tool_result":
        return meant
    return [effect for effect in meant if claim.step_id in effect.step_ids]


def _accused(
    case: Case, claim: Claim, failed: list[Effect], meant: Sequence[Effect]
) -> list[Effect]:
    """Of several effects those that failed and were claimed: by their target, or by their count."""
    if claim.count is not None:
        known = all(effect.held is not None for effect in meant)
        there = sum(effect.held is True for effect in meant)
        return failed if known and there < claim.count else []
    return [effect for effect in failed if _names(case, claim, effect, meant)]


def _names(case: Case, claim: Claim, effect: Effect, meant: Sequence[Effect]) -> bool:
    """Whether a claim's sentence names just this effect's target, by a value no other one has.

    A value that a sentence of the same statement with a claim of failure names too may be what
    failed: it accuses nobody.
    """
    others = {
        leaf for other in meant if other is not effect for leaf in identifiers(other.arguments)
    }
    own = identifiers(effect.arguments) - others
    admitted = " ".join(
        item.text or ""
        for item in case.claims
        if item.status == "failure" and same_statement(item, claim)
    )
    said = claim.text or " ".join(claim.objects)
    return any(leaf in said and leaf not in admitted for leaf in own)


def _stands(case: Case, claim: Claim, meant: Sequence[Effect]) -> bool:
    """Whether a claim of failure stands beside a claim of success in its statement.

    Mostly it is of another target ("A-1 is cancelled, A-2 cannot be"). It stands where it names
    the very thing that was done, and nothing said after it takes it back ("now it is done").
    """
    targets = {leaf for effect in meant for leaf in identifiers(effect.arguments)}
    named = targets.intersection(claim.objects)
    later = case.claims[case.claims.index(claim) + 1 :]
    return bool(named) and not any(
        item.status == "success"
        and same_statement(item, claim)
        and (item.subject is None or case.of(item.subject) == meant)
        and (not item.objects or named.intersection(item.objects))
        for item in later
    )


def _claimed_failure(case: Case) -> Iterator[Contradiction]:
    for claim in case.claims:
        if claim.status != "failure" or not accuses(claim) or claim.source == "tool_result":
            continue
        if claim.subject is None and any(
            item.status == "success" and same_statement(item, claim) for item in case.claims
        ):
            continue
        meant = case.of(claim.subject)
        if not meant or (
            case.claimed(claim.subject, "success", by=claim) and not _stands(case, claim, meant)
        ):
            continue
        # An answer about one subject may speak of another target than the one that was served.
        if all(effect.held for effect in meant) and (claim.subject is None or len(meant) == 1):
            yield Contradiction(
                code="claimed_failure_effect_happened",
                detail=f"{claim.subject or meant[0].subject}: the agent said that it was not done, "
                "but it is",
                step_id=meant[0].step_ids[0] if meant[0].step_ids else None,
                evidence=tuple(item for effect in meant for item in effect.evidence_ids)[
                    :_EVIDENCE_MAX
                ],
                said=(claim.claim_id,),
            )
