"""One test with a tape: which tape, whether it is recorded or replayed, and what is asserted of it.

**Rules**
1. Without a word to record, nothing is recorded: a tape that is not there is an error of the test's
   set-up, and what the tape does not hold is a failure.
2. ``strict`` runs the test's body against the tape, or records it; ``check`` runs it beside the
   tape. What is asserted is asked of the tape at the end, if the body passed.
3. A tape that is recorded waits beside its place until ``keep``: a test that fails afterwards, by
   an assertion for one, leaves the old one as it was.
4. ``tools``, ``shadow`` and ``counterfactual`` run the body as these modes of replay do; what is
   asserted is asked of the new tape, which is thrown away.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from msgspec import Struct

from sidecar.capture.plan import Patch, Plan
from sidecar.capture.record import Capture
from sidecar.errors import SidecarError
from sidecar.evaluate.assertions.specs import Assertion
from sidecar.tape.model import Event, Seam
from sidecar.tape.tape import Tape
from sidecar.testing.driver import Running, playable, playing, recording
from sidecar.testing.files import (
    StrPath,
    fixed,
    give_up,
    is_there,
    load,
    named,
    take_place,
    waiting_place,
)
from sidecar.testing.tapes import Checked, check

if TYPE_CHECKING:
    from sidecar.evaluate.assertions.parse import Named

Mode = Literal["strict", "check", "tools", "shadow", "counterfactual"]
Record = Literal["none", "once", "all"]
MODES: Final[tuple[Mode, ...]] = get_args(Mode)


class Wanted(Struct, frozen=True, kw_only=True):
    """What a mark says, and where the project's own files are.

    ``lasts_ns``: after which a new tape expires; ``fresh``: at ``now_ns`` the tape may not have.
    """

    path: str
    mode: Mode = "strict"
    assertions: tuple[Assertion | StrPath, ...] = ()
    capture: Capture = "redacted"
    agent: str = "agent"
    strict: bool = False
    patches: tuple[Patch, ...] = ()
    live: tuple[Seam, ...] = ()
    roots: tuple[StrPath, ...] = ()
    lasts_ns: int | None = None
    now_ns: int = 0
    fresh: bool = False

    def problems(self) -> Iterator[str]:
        """What is wrong with it."""
        if "\0" in self.path or not isinstance(self.agent, str):
            yield "the path and the agent's name are texts without NUL"
        if self.mode not in MODES:
            yield f"mode is one of {', '.join(MODES)}"
        if self.capture not in ("redacted", "full"):
            yield "capture is redacted or full: a test is run from what the tape holds"
        if self.mode in ("strict", "check") and (self.patches or self.live):
            yield "patches and live are of another mode"
        if not all(isinstance(one, Patch) for one in self.patches):
            yield "patches are made by sidecar.capture.plan.Patch"
        if not all(one in get_args(Seam) for one in self.live):
            yield f"live names seams: {', '.join(get_args(Seam))}"

    @property
    def plan(self) -> Plan:
        """How the tape is replayed."""
        mode = self.mode
        if mode == "strict" or mode == "check":
            return Plan()
        return Plan(mode=mode, patches=self.patches, live=self.live)


class TapedTest:
    """What the fixture ``tape`` is: the test's tape, and what is expected of it."""

    def __init__(self, wanted: Wanted, record: Record) -> None:
        found = list(wanted.problems())
        if found:
            raise SidecarError("; ".join(found), where="pytest.mark.tape")
        self._wanted = wanted
        self._wants: tuple[Named, ...] = named(wanted.assertions) if wanted.assertions else ()
        self._waiting: StrPath | None = None
        self._run: Running | None = None
        self._tape: Tape | None = None
        self._place = fixed(wanted.path)
        there = is_there(wanted.path)
        self.recorded = wanted.mode == "strict" and (record == "all" or not there)
        """Whether this run is recorded anew."""
        if self.recorded and record == "none":
            raise SidecarError(
                "there is no tape",
                where=wanted.path,
                do="Record it: pytest --tape-record=once, then look at it and commit it.",
            )
        if not self.recorded:
            checks = wanted.mode == "check"
            self._tape = load(wanted.path) if checks else playable(wanted.path, wanted.plan)
            self._check_expiry()
        self._folder = ""

    @property
    def path(self) -> str:
        """The tape's file."""
        return self._wanted.path

    @property
    def tape(self) -> Tape:
        """The tape, at the end the new one; while it is recorded there is none (SidecarError)."""
        if self._tape is None:
            raise SidecarError("the tape is being recorded", where=self.path)
        return self._tape

    @property
    def events(self) -> tuple[Event, ...]:
        """The tape's events."""
        return self.tape.events

    def expect(self, *assertions: Assertion | StrPath) -> None:
        """Ask more of the tape, at the end, beside what the mark says.

        Raises SidecarError for what cannot be read.
        """
        self._wants = named((*self._wants, *assertions))

    def output(self, value: Any) -> None:
        """What the agent answered: on the tape's end when recorded, the same when replayed."""
        if self._run is not None:
            self._run.output(value)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Around the test's body. Raises Drifted where it leaves the tape."""
        wanted = self._wanted
        if wanted.mode == "check":
            yield
            return
        more: dict[str, Any] = {"roots": wanted.roots, "agent": wanted.agent}
        if self.recorded:
            self._waiting = waiting_place(self.path)
            opened = recording(
                self._waiting, capture=wanted.capture, lasts_ns=wanted.lasts_ns, **more
            )
        else:
            anew = None if wanted.mode == "strict" else f"{self._folder}/new.tape"
            opened = playing(self.tape, plan=wanted.plan, to=anew, **more)
        try:
            with opened as run:
                self._run = run
                yield
        finally:
            self._run = None
        if run.tape is not None:
            self._tape = run.tape

    @property
    def expired(self) -> bool:
        """Whether the tape was to be recorded anew by now."""
        return self._tape is not None and self._tape.header.has_expired(self._wanted.now_ns)

    def _check_expiry(self) -> None:
        """Refuse a tape that has expired, where only fresh ones count (SidecarError)."""
        if self.expired and self._wanted.fresh:
            until = self.tape.header.expires_at
            raise SidecarError(
                f"the tape has expired: it was to be recorded anew by {until}",
                where=self.path,
                do="Record it again: pytest --tape-record=all.",
            )

    def keep(self) -> None:
        """The tape that was recorded takes its place. Raises SidecarError, also where it could not
        be replayed: then the old one is the better one."""
        if self._waiting is not None:
            playable(self._waiting)
            take_place(self._waiting, self._place)
            self._tape = load(self._place)

    def drop(self) -> None:
        """A recording that did not take its place is gone."""
        if self._waiting is not None:
            give_up(self._waiting)

    def call(self, agent: Any, *, llm: Any = None, tools: Any = None) -> None:
        """Call an ``agent(llm, tools)``; what it returns is the run's output."""
        if self._run is None:
            raise SidecarError(
                "nothing is run against this tape", where=f"mode {self._wanted.mode}"
            )
        self._run.call(agent, llm=llm, tools=tools)

    def keep_in(self, folder: str) -> None:
        """Where a new tape may lie until the test is over."""
        self._folder = folder

    def checked(self, *, strict: bool) -> Checked | None:
        """What the assertions came to; None where there are none."""
        if not self._wants:
            return None
        strict = strict or self._wanted.strict
        return check(self.tape, *self._wants, strict=strict, name=self.path)
