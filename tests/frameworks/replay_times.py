"""Run an agent's script against its tape many times in one process, strictly: the digests and how
often each came, as JSON. Arguments: script, tape, how often, and the agent's own."""

import contextlib
import io
import json
import os
import runpy
import sys
from collections import Counter
from pathlib import Path

from sidecar.capture.play import Drifted, StrictPlayer
from sidecar.capture.record import redactor_for
from sidecar.capture.seams.guard import guard
from sidecar.capture.seams.install import install_all
from sidecar.capture.seams.session import Session
from sidecar.capture.seams.sites import Sites
from sidecar.tape.codec import DEFAULT, Codecs
from sidecar.tape.files import read_tape


def main():
    script, place, times, *words = sys.argv[1:]
    tape = read_tape(Path(place))
    sys.argv = [script, *words]
    found = Counter()
    for _ in range(int(times)):
        found[once(script, tape)] += 1
    print(json.dumps(found))


def once(script, tape):
    session = Session(Sites([Path.cwd()]))
    session.player = StrictPlayer(tape, redactor_for(tape.header.redactor), Codecs(DEFAULT))
    before = dict(os.environ)
    session.begin()
    try:
        guard(session)
        install_all(session)
        with contextlib.redirect_stdout(io.StringIO()):
            runpy.run_path(script, run_name="__main__")
    except Drifted as error:
        return str(error)
    finally:
        session.end()
        os.environ.clear()
        os.environ.update(before)
    return str(session.drift) if session.drift else session.tally.digest()


main()
