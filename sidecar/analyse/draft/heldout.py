"""How true a draft is to runs it has not seen.

Rules
1. Whole runs are held out, by a digest of their names: the same runs every time, whatever their
   order. At least one is held out and one is not.
2. What is measured is a draft of the others; the draft that is written is of all.
"""

import hashlib
import math
from collections.abc import Mapping, Sequence

from msgspec import Struct

from sidecar.analyse.draft.draft import draft
from sidecar.analyse.draft.model import SUPPORT, Asked
from sidecar.replay.fidelity import Fidelity, fidelity
from sidecar.replay.onto_twin import Answered, OntoTwin
from sidecar.replay.taped import TapedRun
from sidecar.twins.group import TwinGroup

SHARE = 0.2


class HeldOut(Struct, frozen=True, kw_only=True):
    """What a draft of ``drafted_from`` runs made of the calls of ``runs`` others.

    ``answered``: calls it answered, ``equal`` as recorded; ``gaps``: calls it could not answer;
    ``given``: reads that told the draft a row it did not know; ``unknown``: calls of tools no other
    run had called, whose result was not kept, or after an effect that was a gap.
    """

    drafted_from: int
    runs: int
    calls: int
    answered: int
    equal: int
    gaps: int
    given: int
    unknown: int
    fidelity: Fidelity


def held_out(
    runs: Sequence[TapedRun],
    *,
    share: float = SHARE,
    asked: Mapping[str, Asked] | None = None,
    support: int = SUPPORT,
) -> HeldOut | None:
    """The measure; None where there are fewer than two runs, or nothing to draft from."""
    if len(runs) < 2 or share <= 0:
        return None
    ordered = sorted(runs, key=lambda one: (_drawn(one.name), one.name))
    aside = min(max(1, math.ceil(share * len(runs))), len(runs) - 1)
    try:
        twin = draft(ordered[aside:], asked=asked, support=support).twin()
    except ValueError:
        return None
    onto = OntoTwin(TwinGroup([twin]), observed=True)
    done = [onto.replay(one) for one in ordered[:aside]]
    found = fidelity(done)
    own = sum(_is_given(one) for run in done for one in run.answers)
    answered = sum(one.results for one in found.tools)
    return HeldOut(
        drafted_from=len(runs) - aside,
        runs=aside,
        calls=sum(len(one.answers) for one in done),
        answered=answered,
        equal=sum(one.matches["exact"] for one in found.tools),
        gaps=sum(one.gaps for one in found.tools),
        given=own,
        unknown=found.uncompared - own,
        fidelity=found,
    )


def _is_given(one: Answered) -> bool:
    answered = one.known and not one.gap and not one.after_gap
    return one.given and answered and one.call.result is not None


def _drawn(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()
