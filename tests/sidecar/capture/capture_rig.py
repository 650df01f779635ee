"""A recording and its replay in one process, around a function that is the agent."""

import asyncio
from pathlib import Path

from sidecar.capture.play import Drifted, StrictPlayer
from sidecar.capture.record import Circumstances, header_of, redactor_of
from sidecar.capture.seams.ambient import ask
from sidecar.capture.seams.session import Session, current
from sidecar.capture.seams.sites import Sites
from sidecar.tape.codec import DEFAULT, Codecs
from sidecar.tape.files import TapeWriter, read_tape

HERE = Path(__file__).parent


def session_of(writer=None, player=None):
    return Session(Sites([HERE]), writer=writer, player=player)


def recorded(path, agent, *, capture="full", output=None):
    """Record ``agent()``; the tape."""
    header = header_of(Circumstances(tape_id="t", now_ns=0), capture)
    writer = TapeWriter(path, header, redactor=redactor_of(capture), content=capture != "off")
    session = session_of(writer)
    run(session, agent)
    writer.seal()
    return read_tape(path)


def replayed(tape, agent, *, capture="full"):
    """Replay ``agent()`` strictly; the session, its drift included."""
    player = StrictPlayer(tape, redactor_of(capture), Codecs(DEFAULT))
    session = session_of(player=player)
    try:
        run(session, agent)
    except Drifted:
        pass
    return session


def run(session, agent):
    session.begin()
    try:
        if asyncio.iscoroutinefunction(agent):
            asyncio.run(agent())
        else:
            agent()
    finally:
        session.end()


def tick(real=lambda: 1):
    """A value read of a clock."""
    return ask(current(), "clock", "tick", real)


class Echo:
    """The smallest seam there is: a tool that is really called, or not."""

    def __init__(self):
        self.calls = 0

    def real(self, given):
        self.calls += 1
        if given == "bad":
            raise LookupError("no such thing")
        return {"echo": given}

    def __call__(self, given, *, kind="tool_call", seam="tool"):
        session = current()
        if session is None:
            return self.real(given)
        x = session.enter(kind=kind, seam=seam, name="echo", given={"given": given})
        if x.played:
            if x.error is not None:
                raise LookupError(x.error[1])
            return x.out
        try:
            with x.inside():
                got = self.real(given)
        except BaseException as error:
            x.failed(error)
            raise
        x.done(got)
        return got
