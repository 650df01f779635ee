"""An agent that is recorded and replayed with some of the ambient seams in place."""

import sys
from types import ModuleType

from capture_rig import recorded, replayed

from sidecar.capture.seams import install as seams
from sidecar.capture.seams.session import active


def with_seams(names, agent):
    """The agent, which puts seams in place as it begins."""

    def run():
        session = active()
        for name in names:
            seams.install(session, name)
        assert session.broken == {}, session.broken
        return agent()

    return run


def both(path, names, agent, *, capture="full"):
    """What an agent returned when it was recorded and when it was replayed, and the tape."""
    got = []
    run = with_seams(names, lambda: got.append(agent()))
    tape = recorded(path, run, capture=capture)
    session = replayed(tape, run, capture=capture)
    assert session.drift is None, session.drift
    assert session.tally.digest() == tape.seal.exact_digest
    was, now = got
    return was, now, tape


def asked(tape):
    """Seam and name of what the agent asked for."""
    return [(one.seam, one.name) for one in tape.events[1:-1] if one.kind != "tool_result"]


def library(tmp_path, source, name="somebodys_library"):
    """A module that is no file of the agent's."""
    file = tmp_path / f"{name}.py"
    file.write_text(source)
    module = ModuleType(name)
    module.__file__ = str(file)
    exec(compile(source, str(file), "exec"), vars(module))
    sys.modules[name] = module
    return module
