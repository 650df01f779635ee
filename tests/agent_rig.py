"""Agents as files of their own, recorded and replayed by the commands people use."""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


class Ran:
    def __init__(self, done):
        self.code, self.out, self.err = done.returncode, done.stdout, done.stderr

    @property
    def json(self):
        return json.loads(self.out)


class AgentFolder:
    """A folder with an agent in it; ``python`` is its interpreter."""

    def __init__(self, folder, python=sys.executable, script="agent.py"):
        self.folder, self.python, self.script = folder, str(python), script
        self.environment = {}

    def write(self, text, name=None):
        (self.folder / (name or self.script)).write_text(text)

    def change(self, old, new, name=None):
        place = self.folder / (name or self.script)
        text = place.read_text()
        assert old in text
        place.write_text(text.replace(old, new))

    def sidecar(self, *words, timeout=120):
        environment = {**os.environ, "PYTHONPATH": str(ROOT), **self.environment}
        done = subprocess.run(
            [sys.executable, "-P", "-m", "sidecar", *words],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=timeout,
        )
        return Ran(done)

    def record(self, *words, tape="run.tape", capture="full", options=()):
        command = [self.python, self.script, *words]
        given = ["--capture", capture, *options, "--", *command]
        return self.sidecar("tape", "record", "-o", tape, *given)

    def replay(self, *words, tape="run.tape", options=("--output", "json")):
        return self.sidecar(
            "tape", "replay", tape, *options, "--", self.python, self.script, *words
        )
