"""The tests' own server: it goes with the process that started it, however that ends."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.full  # a server of its own each

LIFE = """
import sys, time
sys.path[:0] = sys.argv[2:]
from postgres_rig import Server
server = Server()
if sys.argv[1] == "frozen":
    server.freeze()
print(server._process.pid, server._folder, flush=True)
time.sleep(600)
"""
PLACES = [str(Path(__file__).parents[2]), str(Path(__file__).parents[3])]


@pytest.mark.parametrize("state", ["running", "frozen"])
def test_a_server_and_its_files_go_with_a_killed_test_process(state):
    life = subprocess.Popen(
        [sys.executable, "-c", LIFE, state, *PLACES], stdout=subprocess.PIPE, text=True
    )
    pid, folder = life.stdout.readline().split()
    os.kill(life.pid, signal.SIGKILL)
    life.wait()
    life.stdout.close()
    ends = time.monotonic() + 30
    while Path("/proc", pid).exists() or Path(folder).exists():
        assert time.monotonic() < ends, f"server {pid} is still there"
        time.sleep(0.05)  # it is nobody's child any more: there is nothing to wait for
