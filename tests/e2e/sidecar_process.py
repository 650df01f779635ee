"""A real ``sidecar serve`` in a folder of its own, on ports of its own."""

import json
import os
import subprocess
import sys

SECONDS = 60
CONFIG = """\
seal: {key_file: seal-key}
store: {url: "sqlite:///data"}
receive: {grpc: "127.0.0.1:0", http: "127.0.0.1:0"}
assemble: {idle: 200ms}
gateway: {listen: "127.0.0.1:0"}
control: {listen: "127.0.0.1:0", grpc: "127.0.0.1:0"}
metrics: {listen: "127.0.0.1:0"}
"""


class SidecarProcess:
    """Starts, is restarted, stops; ``run`` runs another sidecar command on the same folder."""

    def __init__(self, folder, config=CONFIG):
        self.folder = folder
        self.process = None
        self.addresses = {}
        (folder / "sidecar.yaml").write_text(config)
        if not (folder / "seal-key").exists():
            (folder / "seal-key").write_text(os.urandom(32).hex())
        self._errors = (folder / "errors").open("ab")

    def run(self, *arguments):
        """A command's standard output."""
        command = [sys.executable, "-m", "sidecar", *arguments]
        return subprocess.run(
            command, cwd=self.folder, check=True, capture_output=True, text=True, timeout=SECONDS
        ).stdout

    def key(self, kind="agent", project="default"):
        """A new key."""
        arguments = ("--kind", kind, "--project", project, "--output", "json")
        return json.loads(self.run("key", "create", *arguments))["key"]

    def start(self):
        """Serve; returns once it listens, with ``addresses`` by configuration key."""
        self.process = subprocess.Popen(
            [sys.executable, "-m", "sidecar", "serve", "--output", "json"],
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=self._errors,
        )
        line = self.process.stdout.readline()
        if not line:
            raise AssertionError(self.errors()[-3000:])
        self.addresses = json.loads(line)["addresses"]

    def reap(self):
        """Forget a process that was killed."""
        self.process.wait()
        self.process.stdout.close()

    def stop(self):
        """End it, if it is there; its exit code."""
        code = None
        if self.process is not None:
            if self.process.poll() is None:
                self.process.terminate()
            try:
                code = self.process.wait(SECONDS)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
            self.process.stdout.close()
        self._errors.close()
        return code

    def errors(self):
        """What it has said on standard error so far."""
        return (self.folder / "errors").read_text()
