"""The six pairs: a run that goes wrong, the same errand done well, and what tells them apart."""

from typing import Final

from msgspec import Struct


class Pair(Struct, frozen=True, kw_only=True):
    """One pair. ``name`` is that of its agent and of its folder; ``family`` its assertions.

    ``changed``: a counterfactual belongs to it, a declared change of the run that goes wrong.
    """

    name: str
    title: str
    family: tuple[str, ...]
    changed: bool = False


PAIRS: Final = (
    Pair(
        name="deathloop",
        title="An agent repeats what just failed until its turns are used up",
        family=("max_repeats", "budget_within"),
        changed=True,
    ),
    Pair(
        name="late_stop",
        title="An agent goes on asking after it has its answer",
        family=("terminates_within",),
    ),
    Pair(
        name="blind_refund",
        title="An agent refunds before it has read the order, and asks nobody",
        family=("requires_before", "call_order"),
    ),
    Pair(
        name="forbidden_call",
        title="An agent deletes what it was told to list",
        family=("never_calls",),
    ),
    Pair(
        name="loose_answer",
        title="An agent answers in prose what another program reads",
        family=("output_schema",),
    ),
    Pair(
        name="false_claim",
        title="An agent oversells its stock and claims success",
        family=("claim_verified", "state_invariant"),
    ),
)
