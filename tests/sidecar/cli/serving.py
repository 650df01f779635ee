"""A real ``sidecar serve`` in a folder of its own, on free ports, ended with its whole tree."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

EPHEMERAL = """
receive: {grpc: "127.0.0.1:0", http: "127.0.0.1:0"}
assemble: {idle: 200ms}
gateway:
  listen: "127.0.0.1:0"
control: {listen: "127.0.0.1:0", grpc: "127.0.0.1:0"}
metrics: {listen: "127.0.0.1:0"}
"""


def clean_environment():
    return {name: text for name, text in os.environ.items() if not name.startswith("SIDECAR_")}


@contextmanager
def serving(folder, config=EPHEMERAL, *arguments, dev=True):
    """Yields the process and what it told once it was ready."""
    (folder / "sidecar.yaml").write_text(config)
    errors = (folder / "stderr.txt").open("w")
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "sidecar", "serve", "--output", "json"),
            *(["--dev"] if dev else []),
            *arguments,
        ],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=errors,
        text=True,
        env=clean_environment(),
        start_new_session=True,
    )
    errors.close()
    try:
        line = process.stdout.readline()
        assert line, (folder / "stderr.txt").read_text()
        yield process, json.loads(line)
    finally:
        process.stdout.close()
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def wait_for(check, *, seconds=20.0):
    """The first true answer of ``check``; fails after ``seconds``."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = check()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError(f"{check.__name__} gave nothing in {seconds} s")
