"""What a command came to, in one set of words, and the exit code that says so (``replay.md`` 3b).

**Rules**
1. Commands say an ``Outcome``; only the table here turns it into a number, by profile. JSON says
   ``outcome`` (in the command's own word), ``profile`` and ``exit_code`` beside each other.
2. ``git`` is what ``git bisect run`` understands: 0 good, 125 skip, else bad. No code of it is
   above 125: git would stop.
3. ``bisect`` turns the answer round, not the words: the tape is the bad run, so whoever reproduces
   it is bad (2) and whoever diverges from it good (0).
4. What is not in the table is no verdict: an unknown end of a process is ``INTERNAL``.
"""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Any, Final, Literal, get_args

from msgspec import Struct

Profile = Literal["ci", "gate", "git", "gate-s0"]
PROFILES: Final[tuple[Profile, ...]] = get_args(Profile)


class Outcome(StrEnum):
    """Every way in which a command ends; the later outweighs the earlier."""

    OK = "ok"
    WARNED = "warned"
    FAILED = "failed"
    TARGET_CRASH = "target_crash"
    DIVERGED = "diverged"
    UNDECIDED = "undecided"
    USAGE = "usage"
    INTERNAL = "internal"


_CI: Final = {
    Outcome.OK: 0,
    Outcome.WARNED: 0,
    Outcome.FAILED: 1,
    Outcome.TARGET_CRASH: 1,
    Outcome.DIVERGED: 2,
    Outcome.UNDECIDED: 2,
    Outcome.USAGE: 3,
    Outcome.INTERNAL: 3,
}
_GIT: Final = {
    Outcome.OK: 0,
    Outcome.WARNED: 125,
    Outcome.FAILED: 2,
    Outcome.TARGET_CRASH: 125,
    Outcome.DIVERGED: 2,
    Outcome.UNDECIDED: 125,
    Outcome.USAGE: 125,
    Outcome.INTERNAL: 125,
}
_GATE_S0: Final = {one: {0: 0, 1: 3, 2: 3, 3: 3}[code] for one, code in _CI.items()} | {
    Outcome.WARNED: 2
}
CODES: Final[dict[Profile, dict[Outcome, int]]] = {
    "ci": _CI,
    "gate": _CI,
    "git": _GIT,
    "gate-s0": _GATE_S0,
}
_BISECT: Final = {Outcome.OK: 2, Outcome.DIVERGED: 0}


class Exits(Struct, frozen=True, kw_only=True):
    """How outcomes become exit codes: a profile, ``bisect`` of ``git``, WARN's own code."""

    profile: Profile = "ci"
    bisect: bool = False
    warn_exit: int | None = None

    def code(self, outcome: Outcome) -> int:
        """The exit code of an outcome."""
        if self.bisect and outcome in _BISECT:
            return _BISECT[outcome]
        code = CODES[self.profile][outcome]
        if outcome is Outcome.WARNED and code == 0 and self.warn_exit is not None:
            return self.warn_exit
        return code

    def told(self, outcome: Outcome, word: str | None = None) -> dict[str, Any]:
        """``outcome``, ``profile`` and ``exit_code`` as every JSON result begins; ``word`` is the
        command's own for the outcome."""
        return {
            "outcome": word or outcome.value,
            "profile": self.profile,
            "exit_code": self.code(outcome),
        }

    def ended(self, returncode: int) -> int:
        """The code of a command that ended with ``returncode`` (negative: by that signal)."""
        known = {*CODES[self.profile].values(), self.warn_exit}
        return returncode if returncode in known else self.code(Outcome.INTERNAL)


def outcome_of(code: int) -> Outcome:
    """The outcome of an error that says its code of the one table (``errors.ExitCode``)."""
    return {0: Outcome.OK, 1: Outcome.FAILED, 2: Outcome.UNDECIDED}.get(code, Outcome.USAGE)


def worst(outcomes: Iterable[Outcome], default: Outcome = Outcome.OK) -> Outcome:
    """The one that outweighs all others."""
    order = list(Outcome)
    return max(outcomes, key=order.index, default=default)


def exits_of(arguments: Sequence[str]) -> Exits:
    """How a command line asks to exit, read without knowing the command: for usage errors.

    What stands behind ``--`` is another program's.
    """
    own = list(arguments)
    own = own[: own.index("--")] if "--" in own else own
    said = "ci"
    for place, text in enumerate(own):
        name, equals, value = text.partition("=")
        if name == "--profile":
            said = value if equals else "".join(own[place + 1 : place + 2])
    profile: Profile = next((one for one in PROFILES if one == said), "ci")
    return Exits(profile=profile, bisect=profile == "git" and "--bisect" in own)
