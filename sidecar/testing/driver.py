"""An agent recorded, or run against its tape, inside this process: what a test does.

**Rules**
1. One at a time in a process. Nothing of it is left afterwards, whatever became of the agent.
2. A run that failed by itself is no recording, and its tape is not said to have drifted because
   something is missing: the failure is the first thing to look at.
3. Strict lets nothing out of the process; the other modes let out what their plan says.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sidecar import clock
from sidecar.capture.play import Drift, Drifted, StrictPlayer, incomparable
from sidecar.capture.process import environment_digest, git_of
from sidecar.capture.record import Capture, Circumstances, header_of, redactor_for, redactor_of
from sidecar.capture.seams.guard import guard
from sidecar.capture.seams.install import install_all
from sidecar.capture.seams.session import Session, active
from sidecar.capture.seams.sites import Sites
from sidecar.errors import SidecarError
from sidecar.tape.codec import DEFAULT, Codecs
from sidecar.tape.files import TapeWriter
from sidecar.tape.tape import Tape
from sidecar.testing.files import StrPath, load, take_place, waiting_place


class Running:
    """A run in progress, recorded or replayed."""

    def __init__(self, session: Session) -> None:
        self._session = session

    @property
    def drift(self) -> Drift | None:
        """Where a replay left its tape first, also where the agent swallowed it."""
        return self._session.drift

    @property
    def digest(self) -> str | None:
        """The exact digest of what was played so far."""
        tally = self._session.tally
        return None if tally is None else tally.digest()

    def output(self, value: Any) -> None:
        """What the run answered: it stands in the terminal event, and a replay must say the same.

        Raises nothing; a value that no tape holds is counted as truncated.
        """
        self._session.output["output"] = value


@contextmanager
def recording(
    path: StrPath,
    *,
    capture: Capture = "redacted",
    roots: Sequence[StrPath] = (),
    agent: str = "agent",
    labels: Mapping[str, str] | None = None,
) -> Iterator[Running]:
    """Record what happens inside to a tape, which takes its place when it is whole.

    ``roots``: folders of the agent's own files; none = the working directory. Raises SidecarError
    where nothing can be recorded.
    """
    place, folders = Path(path), _folders(roots)
    waiting = waiting_place(place)
    found = Circumstances(
        tape_id=clock.new_id(),
        now_ns=clock.now_ns(),
        git=git_of(folders[0]),
        env=environment_digest(sys.path),
        labels=dict(labels or {}),
    )
    session = _session(folders, agent)
    try:
        with TapeWriter(
            waiting,
            header_of(found, capture),
            redactor=redactor_of(capture),
            content=capture != "off",
        ) as writer:
            session.writer = writer
            with _begun(session):
                yield Running(session)
            writer.seal()
        take_place(waiting, place)
    finally:
        waiting.unlink(missing_ok=True)


def playable(path: StrPath) -> Tape:
    """A tape that can be replayed strictly here. Raises SidecarError with why not."""
    tape = load(path)
    redactor, codecs = redactor_for(tape.header.redactor), Codecs(DEFAULT)
    why = incomparable(tape, redactor, codecs)
    if why is not None:
        raise SidecarError(
            why.reason, where=str(path), do="Look with `sidecar tape verify`, or record it anew."
        )
    return tape


@contextmanager
def playing(
    tape: Tape, *, roots: Sequence[StrPath] = (), agent: str = "agent"
) -> Iterator[Running]:
    """Run what is inside against its tape, strictly. Raises Drifted where it leaves it.

    ``tape``: see ``playable``.
    """
    session = _session(_folders(roots), agent)
    redactor = redactor_for(tape.header.redactor)
    session.player = StrictPlayer(tape, redactor, Codecs(DEFAULT))
    with _begun(session, strict=True):
        yield Running(session)
    if session.drift is not None:
        raise Drifted(session.drift)


def _session(folders: Sequence[Path], agent: str) -> Session:
    if active() is not None:
        raise SidecarError(
            "this process is being recorded or replayed already",
            do="End that first: a process has one tape at a time.",
        )
    return Session(Sites(folders), agent=agent)


@contextmanager
def _begun(session: Session, *, strict: bool = False) -> Iterator[None]:
    """The session from its begin to its end; a failure inside is left to be the first thing."""
    session.begin()
    try:
        if strict:
            guard(session)
        install_all(session)
        yield
    except BaseException:
        # Undone without a look at what is missing: the run did not come to its end.
        player, session.player = session.player, None
        session.end("error")
        session.player = player
        raise
    session.end()


def _folders(roots: Sequence[StrPath]) -> list[Path]:
    return [Path(root) for root in roots] or [Path.cwd()]
