"""An agent that uses a library's own client, recorded against a scripted server and replayed
without one."""

import asyncio

from capture_rig import recorded, replayed
from model_rig import ModelServer

from sidecar.capture.seams.install import ON_IMPORT, when_imported
from sidecar.capture.seams.session import active


class Twice:
    """What an agent saw when it was recorded, and when it was replayed; ``tape`` of the former."""

    def __init__(self, path, agent, *, capture="full"):
        self.path, self.agent, self.capture = path / "agent.tape", agent, capture
        self.seen = []
        self.tape = self.server = None

    def record(self, server):
        self.server = server
        self.tape = recorded(self.path, self._run(), capture=self.capture)
        assert active() is None
        return self.tape

    def replay(self, agent=None):
        """Strictly; the session. The server must be gone: nothing is to be asked of it."""
        asked = len(self.server.asked)
        session = replayed(self.tape, self._run(agent), capture=self.capture)
        assert len(self.server.asked) == asked
        return session

    def same(self):
        """Replay, and see that nothing is another."""
        session = self.replay()
        assert session.drift is None, session.drift
        assert self.seen[-1] == self.seen[0]
        assert session.tally.digest() == self.tape.seal.exact_digest
        return self.seen[0]

    def _run(self, agent=None):
        agent = agent or self.agent

        def all_seams():
            session = active()
            when_imported(session, ON_IMPORT)
            assert session.broken == {}

        if asyncio.iscoroutinefunction(agent):

            async def run():
                all_seams()
                self.seen.append(await agent(self.server))

        else:

            def run():
                all_seams()
                self.seen.append(agent(self.server))

        return run


def twice(path, agent, *replies, routes=(), capture="full"):
    """Record an agent with these replies to its requests; the server is gone afterwards."""
    found = Twice(path, agent, capture=capture)
    with ModelServer() as server:
        server.say(*replies)
        for method, place, reply in routes:
            server.on(method, place, reply)
        found.record(server)
    return found


def events(tape, kind=None):
    return [event for event in tape.events if kind is None or event.kind == kind]
