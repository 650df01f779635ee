"""An agent recorded, or run against its tape, inside this process: what a test does.

**Rules**
1. One at a time in a process. Nothing of it is left afterwards, whatever became of the agent.
2. A run that failed by itself is no recording, and its tape is not said to have drifted because
   something is missing: the failure is the first thing to look at.
3. Strict lets nothing out of the process; the other modes let out what their plan says, and write
   a new tape where they are told to (``to``).
4. A counterfactual that ends where nothing answers it is shown, and no drift; one whose beginning
   is another than recorded is Incomparable.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from sidecar.capture.modes import PlanPlayer, Told, player_of
from sidecar.capture.plan import Plan
from sidecar.capture.play import Drift, Drifted, incomparable
from sidecar.capture.process import circumstances, folders_of, git_of
from sidecar.capture.record import Capture, header_again, redactor_for
from sidecar.capture.seams.given import Llm, Tools, called
from sidecar.capture.seams.guard import guard
from sidecar.capture.seams.install import install_all
from sidecar.capture.seams.session import AGENT_NAME, Session, active
from sidecar.capture.seams.sites import Sites
from sidecar.errors import SidecarError
from sidecar.sdk.driver import Recording, record
from sidecar.tape.codec import DEFAULT, Codecs
from sidecar.tape.files import TapeWriter
from sidecar.tape.tape import Tape
from sidecar.testing.files import StrPath, fixed, load, take_place, waiting_place
from sidecar.testing.hidden import leave_out

STRICT: Final = Plan()


class Incomparable(SidecarError):
    """A run and its tape cannot be compared: no failure of the agent, and no pass."""


class Running(Recording):
    """A run in progress, recorded or replayed; ``tape`` is the new one at its end, where there is
    one."""

    def __init__(self, session: Session, plan: Plan = STRICT) -> None:
        super().__init__(session)
        self._plan = plan
        self.tape: Tape | None = None

    @property
    def drift(self) -> Drift | None:
        """Where a replay left its tape first, also where the agent swallowed it."""
        return self._session.drift

    @property
    def digest(self) -> str | None:
        """The exact digest of what was played so far, strictly."""
        tally = self._session.tally
        return None if tally is None or self._plan.mode != "strict" else tally.digest()

    @property
    def told(self) -> Told:
        """What was not from the tape, and where the first change took effect."""
        player = self._session.player
        return player.told if isinstance(player, PlanPlayer) else Told()

    def call(
        self,
        agent: Callable[[Llm, Tools], Any],
        *,
        llm: Callable[[Any], Any] | None = None,
        tools: Mapping[str, Callable[..., Any]] | None = None,
    ) -> None:
        """Call an ``agent(llm, tools)``; what it returns is the run's output.

        ``llm`` and ``tools`` are the real ones, for a recording or for what goes live.
        """
        called(agent, self._session, Llm(llm, self._plan.requests), Tools(tools))


@contextmanager
def recording(
    path: StrPath,
    *,
    capture: Capture = "redacted",
    roots: Sequence[StrPath] = (),
    agent: str = AGENT_NAME,
    labels: Mapping[str, str] | None = None,
    lasts_ns: int | None = None,
) -> Iterator[Running]:
    """Record what happens inside to a tape, which takes its place when it is whole.

    ``roots``: folders of the agent's own files; none = the working directory. ``lasts_ns``: after
    which the tape expires. Raises SidecarError where nothing can be recorded.
    """
    _alone()
    waiting, place = waiting_place(path), fixed(path)
    try:
        with record(
            waiting, capture=capture, roots=roots, agent=agent, labels=labels, lasts_ns=lasts_ns
        ):
            session = active()
            assert session is not None
            run = Running(session)
            yield run
        take_place(waiting, place)
    finally:
        waiting.unlink(missing_ok=True)
    run.tape = load(place)


def playable(path: StrPath, plan: Plan = STRICT) -> Tape:
    """A tape that can be replayed so here. Raises SidecarError with why not."""
    problems = plan.problems()
    if problems:
        raise SidecarError("; ".join(problems), where=f"mode {plan.mode}")
    tape = load(path)
    redactor, codecs = redactor_for(tape.header.redactor), Codecs(DEFAULT)
    why = incomparable(tape, redactor, codecs, plan)
    if why is not None:
        raise Incomparable(
            why.reason, where=str(path), do="Look with `sidecar tape verify`, or record it anew."
        )
    problems = plan.fits(tape)
    if problems:
        raise SidecarError("; ".join(problems), where=str(path), do="See sidecar tape show.")
    return tape


@contextmanager
def playing(
    tape: Tape,
    *,
    plan: Plan = STRICT,
    to: StrPath | None = None,
    roots: Sequence[StrPath] = (),
    agent: str = AGENT_NAME,
) -> Iterator[Running]:
    """Run what is inside against its tape. Raises Drifted where it leaves it, Incomparable.

    ``tape``: see ``playable``. ``to``: the new tape that another mode than strict makes.
    """
    _alone()
    folders = folders_of(roots)
    session = Session(Sites(folders), agent=agent)
    session.player = player_of(plan, tape, redactor_for(tape.header.redactor), Codecs(DEFAULT))
    run = Running(session, plan)
    to = None if to is None else fixed(to)
    with _anew(session, tape, plan, to, folders[0]):
        try:
            with _begun(session, plan):
                yield run
        except Drifted as error:
            if not _is_shown(plan, error.drift):
                if error.drift.kind != "INCOMPARABLE":
                    leave_out(error)
                    raise error from None
                raise _left(error.drift) from None
        # One that the agent swallowed, or of what is missing at the end.
        if session.drift is not None and not _is_shown(plan, session.drift):
            raise _left(session.drift)
    if to is not None:
        run.tape = load(to)


def _left(drift: Drift) -> BaseException:
    return Incomparable(drift.reason) if drift.kind == "INCOMPARABLE" else Drifted(drift)


def _is_shown(plan: Plan, drift: Drift) -> bool:
    return plan.mode == "counterfactual" and drift.kind != "INCOMPARABLE"


def _alone() -> None:
    if active() is not None:
        raise SidecarError(
            "this process is being recorded or replayed already",
            do="End that first: a process has one tape at a time.",
        )


@contextmanager
def _begun(session: Session, plan: Plan) -> Iterator[None]:
    """The session from its begin to its end; a failure inside is left to be the first thing."""
    session.begin()
    try:
        if plan.mode != "fork":
            guard(session, strict=plan.mode == "strict")
        install_all(session)
        yield
    except BaseException as error:
        if session.drift is None and not isinstance(error, Drifted):
            # Undone without a look at what is missing: the run did not come to its end.
            session.player = None
        _end(session)
        raise
    _end(session)


def _end(session: Session) -> None:
    drift = session.drift
    if drift is None:
        session.end()
    else:
        session.end("cancelled", {"reason": drift.kind})


@contextmanager
def _anew(
    session: Session, tape: Tape, plan: Plan, to: StrPath | None, folder: Path
) -> Iterator[None]:
    """The new tape of a replay, which takes its place when it is whole."""
    if to is None:
        yield
        return
    waiting, place = waiting_place(to), fixed(to)
    redactor = redactor_for(tape.header.redactor)
    header = header_again(tape, plan, circumstances(git=git_of(folder)), redactor)
    try:
        with TapeWriter(waiting, header, redactor=redactor) as writer:
            session.writer = writer
            yield
            writer.seal()
        take_place(waiting, place)
    finally:
        waiting.unlink(missing_ok=True)
