"""What a change of policy would have changed: the last decisions, judged again and compared.

**Rules**
1. A decision is loosened where the new answer's effect is less strict, or fewer people approve it;
   tightened the other way round. Where the effect stays, it is loosened too where any limit, term
   or obligation is not kept (``live.looser``), and changed where they differ otherwise.
2. An answer for want of one (``error``) denies, so a candidate that fails is never looser.
3. A decision whose document lacks a fact that the candidate reads is unjudged: nobody knows what it
   would have been, so it stands for a looser one.

Source: gateway.md §2.8 (activation).
"""

from collections.abc import Iterable
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from sidecar.gateway.policy.live.looser import looser
from sidecar.gateway.policy.result import PolicyAnswer

Kind = Literal["same", "loosened", "tightened", "changed", "unjudged"]
EXAMPLES_MAX = 10
_STRICTNESS = ("allow", "allow_with_limits", "require_approval", "deny")


class Difference(Struct, frozen=True, kw_only=True):
    """One decision that would be another; no content of the call is in it."""

    tool: str
    kind: Kind
    before: str
    after: str
    code: str
    input_digest: str


class Report(Struct, frozen=True, kw_only=True):
    """What a candidate would have done with the last decisions."""

    revision: str
    compared: int = 0
    loosened: int = 0
    tightened: int = 0
    changed: int = 0
    unjudged: int = 0
    examples: tuple[Difference, ...] = ()
    activated: bool = False

    @property
    def loosens(self) -> bool:
        """Whether it may be looser than what decides."""
        return bool(self.loosened or self.unjudged)


def kind_of(before: PolicyAnswer, after: PolicyAnswer) -> Kind:
    """How the later answer on one document differs from the earlier one."""
    was, now = (_STRICTNESS.index(each.effect) for each in (before, after))
    if was != now:
        return "loosened" if now < was else "tightened"
    people = [each.approval.min if each.approval is not None else 0 for each in (before, after)]
    if all(people) and people[0] != people[1]:
        return "loosened" if people[1] < people[0] else "tightened"
    if looser(before, after):
        return "loosened"
    terms = ((each.limits, each.approval, each.obligations) for each in (before, after))
    earlier, later = terms
    return "same" if earlier == later else "changed"


def difference(tool: str, before: PolicyAnswer, after: PolicyAnswer) -> Difference:
    """The difference of two answers on one document, of kind ``same`` where there is none."""
    return Difference(
        tool=tool,
        kind=kind_of(before, after),
        before=before.effect,
        after=after.effect,
        code=after.reasons[0].code if after.reasons else "",
        input_digest=after.input_digest,
    )


def forgetting(found: Report, known: int) -> Report:
    """The report, where ``known`` decisions were there to judge by once: those that are gone since
    (a restart forgets them) are unjudged."""
    gone = known - found.compared
    if gone <= 0:
        return found
    return replace(found, compared=known, unjudged=found.unjudged + gone)


def report(revision: str, found: Iterable[Difference]) -> Report:
    """The sum of differences; loosened ones are the first examples."""
    all_ = list(found)
    kinds = [each.kind for each in all_]
    differing = [each for each in all_ if each.kind != "same"]
    differing.sort(key=lambda each: each.kind != "loosened")
    return Report(
        revision=revision,
        compared=len(all_),
        loosened=kinds.count("loosened"),
        tightened=kinds.count("tightened"),
        changed=kinds.count("changed"),
        unjudged=kinds.count("unjudged"),
        examples=tuple(differing[:EXAMPLES_MAX]),
    )
