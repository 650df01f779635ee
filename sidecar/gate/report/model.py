"""A report: what a command found out, as one record that every form of report is made of.

**Rules**
1. The keys are a contract (docs/specs/report.md): every report has all of them, whatever it is of.
2. The same input gives the same report: it holds no time of its own, no machine, no path but those
   that were given.
3. A case that failed, one that could not be asked (``skip``) and one without an answer (``error``)
   are three things, and no form of report turns one into another.
4. Texts are as they were found; each form makes them harmless for its own reader.
"""

from typing import Any, Final, Literal

from msgspec import Struct, field

from sidecar.outcome import Profile

SCHEMA: Final = "report/1.0.0"

Outcome = Literal[
    "ok",
    "warned",
    "failed",
    "pass",
    "warn",
    "fail",
    "block",
    "identical",
    "differ",
    "diverged",
    "miss",
    "undecided",
    "incomparable",
    "inconclusive",
    "incomplete",
    "target_crash",
    "usage",
    "config",
    "timeout",
    "internal",
    "shown",
    "found",
]
Status = Literal["pass", "fail", "skip", "error"]


class Counts(Struct, frozen=True, kw_only=True):
    """Cases: ``evaluated`` is passed + failed, ``warned`` the failed ones that decide nothing."""

    evaluated: int = 0
    passed: int = 0
    failed: int = 0
    warned: int = 0
    skipped: int = 0
    errored: int = 0
    flaky: int = 0


class Run(Struct, frozen=True, kw_only=True):
    """One tape that took part. ``role``: tape, left, right, recorded, replayed, or another word.

    ``state``: sealed, partial, or unreadable with the reason in ``error``.
    """

    name: str
    role: str = "tape"
    tape_id: str = ""
    state: str = "sealed"
    fidelity: str = ""
    events: int = 0
    exact_digest: str = ""
    behavior_digest: str = ""
    error: str = ""


class Step(Struct, frozen=True, kw_only=True):
    """One event near a finding, as a line."""

    seq: int
    text: str


class Attempt(Struct, frozen=True, kw_only=True):
    """One of several times that a case was run."""

    status: Status
    detail: str = ""


class Place(Struct, frozen=True, kw_only=True):
    """One place at which two payloads differ; a value that is not there is None and not ``has``."""

    side: str
    pointer: str
    left: Any = None
    right: Any = None
    has_left: bool = True
    has_right: bool = True


class Case(Struct, frozen=True, kw_only=True):
    """One thing that was asked, and its answer.

    ``id`` is unique within its ``group`` (a tape, a suite); ``rule`` is what was asked. ``run`` is
    an index of the report's ``runs``; ``seq`` the first event there that offends, ``steps`` the
    events around it. ``signature``: equal for the same failure in another run (``signature.py``).
    ``attempts``, where it was run several times, in their order. ``duration_ns`` None: not known.
    """

    id: str
    group: str = ""
    rule: str = ""
    status: Status
    severity: Literal["error", "warning"] = "error"
    quarantined: bool = False
    owner: str = ""
    until: str = ""
    detail: str = ""
    code: str = ""
    run: int | None = None
    agent: str = ""
    seq: int | None = None
    evidence: tuple[int, ...] = ()
    drift: tuple[str, ...] = ()
    places: tuple[Place, ...] = ()
    signature: str = ""
    steps: tuple[Step, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    duration_ns: int | None = None

    @property
    def counts(self) -> bool:
        """Whether it may decide anything."""
        return self.severity == "error" and not self.quarantined

    @property
    def flaky(self) -> bool:
        """It passed in one attempt and failed in another."""
        found = {one.status for one in self.attempts}
        return "pass" in found and bool(found & {"fail", "error"})


class Near(Struct, frozen=True, kw_only=True):
    """One row of two tapes beside each other."""

    seq_l: int | None
    seq_r: int | None
    kind: str
    left: str
    right: str


class Parting(Struct, frozen=True, kw_only=True):
    """Where two runs first part (docs/specs/diff.md). ``places`` None: content was not kept."""

    agent: str
    seq_l: int | None
    seq_r: int | None
    kind: str
    drift: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    places: tuple[Place, ...] | None = None
    more_places: bool = False
    suspects_l: tuple[int, ...] = ()
    suspects_r: tuple[int, ...] = ()
    context: tuple[Near, ...] = ()


class Report(Struct, frozen=True, kw_only=True):
    """The whole. ``title`` is one sentence; ``facts`` are named values, such as a verdict's id."""

    schema: str = field(default=SCHEMA)
    command: str
    title: str
    outcome: Outcome
    profile: Profile
    exit_code: int
    counts: Counts
    runs: tuple[Run, ...]
    cases: tuple[Case, ...]
    drifts: dict[str, int]
    first_divergence: Parting | None
    notes: tuple[str, ...]
    facts: dict[str, str]


def report(
    *,
    command: str,
    title: str,
    outcome: Outcome,
    exit_code: int,
    profile: Profile = "ci",
    runs: tuple[Run, ...] = (),
    cases: tuple[Case, ...] = (),
    first_divergence: Parting | None = None,
    notes: tuple[str, ...] = (),
    facts: dict[str, str] | None = None,
) -> Report:
    """A report; its counts and drifts are those of its cases."""
    return Report(
        command=command,
        title=title,
        outcome=outcome,
        profile=profile,
        exit_code=exit_code,
        counts=_counted(cases),
        runs=runs,
        cases=cases,
        drifts=_drifts(cases),
        first_divergence=first_divergence,
        notes=notes,
        facts=facts or {},
    )


def _counted(cases: tuple[Case, ...]) -> Counts:
    by = {status: sum(one.status == status for one in cases) for status in _STATUSES}
    return Counts(
        evaluated=by["pass"] + by["fail"],
        passed=by["pass"],
        failed=by["fail"],
        warned=sum(one.status == "fail" and not one.counts for one in cases),
        skipped=by["skip"],
        errored=by["error"],
        flaky=sum(one.flaky for one in cases),
    )


def _drifts(cases: tuple[Case, ...]) -> dict[str, int]:
    found: dict[str, int] = {}
    for case in cases:
        for kind in case.drift:
            found[kind] = found.get(kind, 0) + 1
    return dict(sorted(found.items()))


_STATUSES: Final[tuple[Status, ...]] = ("pass", "fail", "skip", "error")
