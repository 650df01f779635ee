"""What a run of the oracle said, by its exit status.

**Rules**
1. As ``git bisect run`` has it: 0 good, 125 cannot be tested, 1 to 127 otherwise bad; 128 and
   above, and a signal, say that the oracle itself is at fault: the bisection stops.
2. What was not the oracle's answer (its deadline, a commit that cannot be checked out, a program
   that cannot be started) is no verdict on the behaviour: such a point cannot be tested.
3. With a signature a failure counts only where the output has it; another is another's.
"""

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from sidecar.replay.bisect.model import Verdict

SKIP = 125
_BAD_MAX = 127


class Ran(Struct, frozen=True, kw_only=True):
    """One process that ended: its status (negative: the signal), what it said last."""

    code: int | None = None
    tail: str = ""
    timed_out: bool = False
    not_started: str = ""
    seconds: float = 0.0


class Answer(Struct, frozen=True, kw_only=True):
    """A verdict, or ``aborted``; ``detail`` says why it is what it is.

    ``divergence``: where a good run left the bad tape; ``failed``: the assertions that failed.
    """

    verdict: Verdict
    aborted: bool = False
    code: int | None = None
    detail: str = ""
    seconds: float = 0.0
    tail: str = ""
    divergence: dict[str, Any] | None = None
    failed: tuple[str, ...] = ()


def answered(ran: Ran, has_signature: Callable[[str], bool] | None = None) -> Answer:
    """What a process's end says of the point it ran at."""
    if ran.not_started:
        return _of(ran, "skip", ran.not_started)
    if ran.timed_out:
        return _of(ran, "skip", "stopped at its deadline")
    code = ran.code
    assert code is not None
    if code < 0 or code > _BAD_MAX:
        said = f"ended by signal {-code}" if code < 0 else f"exit status {code}"
        return _of(ran, "skip", said, aborted=True)
    if code == 0:
        return _of(ran, "good", "")
    if code == SKIP:
        return _of(ran, "skip", f"exit status {code}")
    if has_signature is not None and not has_signature(ran.tail):
        return _of(ran, "skip", f"exit status {code} without the signature")
    return _of(ran, "bad", f"exit status {code}")


def _of(ran: Ran, verdict: Verdict, detail: str, *, aborted: bool = False) -> Answer:
    return Answer(
        verdict=verdict,
        aborted=aborted,
        code=ran.code,
        detail=detail,
        seconds=ran.seconds,
        tail=ran.tail,
    )
