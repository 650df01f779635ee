"""The effect of a declared change where a model is live: changed runs against unchanged ones.

Rules
1. Both sides run the same agent from the same event on, the same number of times; the run that was
   shown is the first of the changed ones.
2. A run is good when the assertions hold of its tape, or, without any, when it ended well. One that
   gave no whole tape is not good.
3. Where the change is in the agent itself there is nothing to compare with, and that is said.
"""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from sidecar import clock
from sidecar.capture.order import Order
from sidecar.capture.plan import REQUEST, Plan
from sidecar.cli.options import talk
from sidecar.errors import SidecarError
from sidecar.outcome import Exits, Outcome
from sidecar.replay.rerun.effect import effect_of
from sidecar.tape.files import read_tape

Again = Callable[[Order], Any]


def effect(
    order: Order, again: Again, first: Path | None, *, runs: int, assertions: Path | None
) -> dict[str, Any]:
    """The effect in JSON, or why there is none (``reason``).

    ``again`` runs an order; ``first`` is the new tape of the run that was shown.
    """
    plan = order.plan
    if any(one.what in REQUEST and one not in plan.requests for one in plan.patches):
        return {"reason": "the change is in the agent itself: record the other version's runs"}
    good = _judge(assertions)
    control = replace(plan, control=True)
    changed, unchanged = [good(first)], []
    with tempfile.TemporaryDirectory(prefix="sidecar-") as folder:
        for number in range(runs):
            talk(f"run {number + 1} of {runs} on either side")
            if number:
                changed.append(good(_run(order, plan, Path(folder) / f"{number}.a", again)))
            unchanged.append(good(_run(order, control, Path(folder) / f"{number}.b", again)))
    of = "the run ended well" if assertions is None else f"{assertions.name} holds"
    told: dict[str, Any] = msgspec.to_builtins(effect_of(changed, unchanged, of))
    return told


def effect_line(told: dict[str, Any]) -> str:
    """The effect as a line."""
    if "reason" in told:
        return f"effect: not measured; {told['reason']}"
    return (
        f"effect: {told['effect']:+.2f} [{told['low']:+.2f}, {told['high']:+.2f}] at "
        f"{told['confidence']:.0%}: {told['candidates_good']} of {told['candidates']} changed runs "
        f"and {told['controls_good']} of {told['controls']} unchanged ones are good ({told['of']})"
    )


def _run(order: Order, plan: Plan, to: Path, again: Again) -> Path | None:
    again(replace(order, plan=plan, to=str(to)))
    return to if to.exists() else None


def _judge(assertions: Path | None) -> Callable[[Path | None], bool]:
    if assertions is None:
        return _ended_well
    # Imported here: a replay without assertions does without the server's extra.
    from sidecar.cli.tape_assert import judged
    from sidecar.evaluate.assertions.files import read_assertions

    named = read_assertions(assertions)

    def holds(path: Path | None) -> bool:
        if path is None:
            return False
        told = judged(path, named, clock.now_ns(), strict=False, exits=Exits())
        return told.end is Outcome.OK

    return holds


def _ended_well(path: Path | None) -> bool:
    if path is None:
        return False
    try:
        tape = read_tape(path)
    except SidecarError:
        return False
    return tape.seal is not None and tape.events[-1].st == "ok"
