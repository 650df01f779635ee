"""What a process is told that is to record or to replay, and what it tells in the end.

**Rules**
1. An order is JSON in one environment variable, which the process takes away before the agent
   sees its environment.
2. A report has no content: kinds, places, digests and reasons in our words.
"""

from typing import Any, Final, Literal

import msgspec
from msgspec import Struct

from sidecar.capture.match import Candidate
from sidecar.capture.modes import Told as Done
from sidecar.capture.plan import Plan
from sidecar.capture.play import Drift
from sidecar.capture.record import Capture
from sidecar.tape.model import AgentBuild, Git

VARIABLE: Final = "AGENTTWIN_CAPTURE"
BEGUN: Final = ".begun"
"""Of a file beside the report: a process has taken the tape, whatever becomes of it."""
Mode = Literal["record", "replay"]
ReplayOutcome = Literal["ok", "diverged", "miss", "incomparable"]
_MISSED: Final = ("EXTRA_CALL", "MISSING_CALL")


class Order(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Record to, or replay from, ``tape``; say how it went in the file ``report``.

    ``plan``: of a replay; ``to``: a new tape of it, where one is wanted.
    ``roots``: folders of the agent's own files; none = the working directory, or the script's.
    ``python``: what PYTHONPATH was. ``capture``: of a replay, as the tape says. ``asker``: the
    process that waits for this one's end. ``lasts_ns``: after which a new tape expires.
    """

    mode: Mode
    tape: str
    report: str
    plan: Plan = Plan()
    to: str | None = None
    capture: Capture = "off"
    packaging: Literal["packed", "store"] = "packed"
    durable: bool = False
    lasts_ns: int | None = None
    roots: tuple[str, ...] = ()
    agent: str = "agent"
    labels: dict[str, str] = {}
    tenant: str = "default"
    git: Git | None = None
    build: AgentBuild | None = None
    python: str | None = None
    argv: tuple[str, ...] = ()
    asker: int = 0


class Told(Struct, frozen=True, kw_only=True):
    """How a recording went. ``broken``: seams that could not be put in place, and why.

    ``ended``: the status that the tape ends with, where who asked sees the process's exit code,
    which alone says how a run ended whose SystemExit was raised, or caught. ``dropped``,
    ``truncated``: events and payloads that were not kept; ``leaks``: redacted values that stand on
    the tape all the same. With one of these it cannot be replayed. ``unseen``: programs that were
    started and are not on it; a strict replay stops there.
    """

    tape: str
    sealed: bool
    events: int
    fault: str | None = None
    broken: dict[str, str] = {}
    ended: str | None = None
    dropped: int = 0
    truncated: int = 0
    leaks: int = 0
    unseen: int = 0


class Replayed(Struct, frozen=True, kw_only=True):
    """How a replay went. ``exact_digest`` is of what was played, ``recorded_digest`` of the tape.

    ``noise``: inputs that differed in what does not count. ``unconsumed``: the first of the
    recorded events that nobody asked for again, of ``unconsumed_n``. ``refused``: connections that
    libraries tried of themselves. ``reordered``: events that came before their turn. ``crashed``:
    the agent failed before it left its tape, and the tape does not end so. ``sealed``: there is a
    new tape, and it is whole. ``exit_due``: the exit code that the tape's end stands for, where
    who asked sees the process's.
    """

    mode: str
    tape: str
    outcome: ReplayOutcome
    events: int
    recorded_events: int
    exact_digest: str | None
    recorded_digest: str | None
    refused: int = 0
    noise: int = 0
    unconsumed: tuple[int, ...] = ()
    unconsumed_n: int = 0
    reordered: int = 0
    drift: dict[str, Any] | None = None
    broken: dict[str, str] = {}
    crashed: bool = False
    sealed: bool = False
    exit_due: int | None = None
    done: Done = Done()


def as_text(order: Order) -> str:
    """An order as its variable's value."""
    return msgspec.json.encode(order).decode()


def read_order(text: str) -> Order:
    """The order of a variable's value. Raises ValueError."""
    return msgspec.json.decode(text.encode(), type=Order)


def outcome_of(drift: Drift | None) -> ReplayOutcome:
    """What a replay with this first drift came to."""
    if drift is None:
        return "ok"
    if drift.kind == "INCOMPARABLE":
        return "incomparable"
    return "miss" if drift.kind in _MISSED else "diverged"


def drift_told(drift: Drift | None, asked_from: str | None = None) -> dict[str, Any] | None:
    """A drift in JSON: which, where, and of what; names, never content.

    ``asked_from``: file, line and function of the agent's own that asked.
    """
    if drift is None:
        return None
    asked, event, match = drift.asked, drift.expected, drift.match
    one = asked or event
    return {
        "kind": drift.kind,
        "seq": drift.seq,
        "reason": drift.reason,
        "event_kind": None if one is None else one.kind,
        "seam": None if one is None else one.seam,
        "agent": None if one is None else one.agent,
        "name": None if one is None else one.name,
        "recorded_name": None if event is None else event.name,
        "site": None if one is None else one.site,
        "lane": None if asked is None else asked.lane,
        "hit": None if asked is None else asked.hit,
        "asked_from": asked_from,
        "moved": None if match is None else match.moved,
        "candidates": [] if match is None else [*map(_candidate, match.candidates)],
    }


def _candidate(one: Candidate) -> dict[str, Any]:
    places = None if one.places is None else [each.pointer for each in one.places]
    return {"seq": one.seq, "why": one.why, "name": one.name, "used": one.used, "places": places}
