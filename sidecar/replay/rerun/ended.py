"""What a run of an agent against a tape came to: from what its process told, and how it ended.

**Rules**
1. A process that told nothing is no verdict: it crashed, was ended, or never ran a file of the
   agent's own.
2. An agent that failed by itself where its tape does not is TARGET_CRASH, whatever is missing then.
3. In the mode counterfactual a divergence is what was asked for; only a prefix that is another
   means that nothing can be concluded.
4. A run that left by SystemExit, or caught one, ended as its process's exit code says.
5. Where a seam could not be put in place, what looks like a divergence may be its absence.
"""

from typing import Any, Final

from msgspec import Struct

from sidecar.outcome import Outcome

_SHELLS: Final = (126, 127)
_SIGNALS_FROM: Final = 128
_WORDS: Final = {
    "ok": Outcome.OK,
    "diverged": Outcome.DIVERGED,
    "miss": Outcome.DIVERGED,
    "incomparable": Outcome.UNDECIDED,
}


class Process(Struct, frozen=True, kw_only=True):
    """How a process ended: its code, or the signal that ended it, or ``late`` at its deadline."""

    code: int | None = None
    signal: str | None = None
    late: bool = False


def concluded(told: dict[str, Any] | None, process: Process, mode: str) -> tuple[Outcome, str]:
    """The outcome, and the command's own word for it."""
    if process.late:
        return Outcome.INTERNAL, "timeout"
    if process.signal is not None or (told is not None and told.get("fault") is not None):
        return Outcome.INTERNAL, "internal"
    if told is None:
        code = process.code or 0
        foreign = code == 0 or code in _SHELLS or code >= _SIGNALS_FROM
        return (Outcome.INTERNAL, "internal") if foreign else (Outcome.TARGET_CRASH, "target_crash")
    if told.get("crashed"):
        return Outcome.TARGET_CRASH, "target_crash"
    word = str(told.get("outcome"))
    due = told.get("exit_due")
    if due is not None and process.code is not None and process.code != due:
        if process.code:
            return Outcome.TARGET_CRASH, "target_crash"
        if word == "ok":
            return Outcome.DIVERGED, "diverged"
    if mode == "counterfactual" and word != "incomparable":
        return Outcome.OK, "shown"
    if told.get("broken") and _WORDS.get(word) is Outcome.DIVERGED:
        return Outcome.UNDECIDED, "incomparable"
    return _WORDS.get(word, Outcome.INTERNAL), word
