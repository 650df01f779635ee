"""The demo's children are heard, and always ended, grandchildren too."""

import contextlib
import os
import subprocess
import sys
import time

import pytest

from sidecar.demo.processes import Family
from sidecar.errors import SidecarError

SERVES = "print('listening here', flush=True); import time; time.sleep(600)"
STUBBORN = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
    "signal.signal(signal.SIGINT, signal.SIG_IGN);"
    "print('listening here', flush=True); time.sleep(600)"
)
PARENT = (
    "import subprocess, sys, time;"
    "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']);"
    "print('listening', child.pid, flush=True); time.sleep(600)"
)


def start(family, code, tmp_path, **more):
    return family.start(
        "child",
        [sys.executable, "-c", code],
        log=tmp_path / "child.log",
        environment=dict(os.environ),
        **more,
    )


def gone(process_id):
    """Whether the process has ended; a zombie counts as there."""
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(process_id, os.WNOHANG)
        try:
            os.kill(process_id, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.02)
    return False


def test_a_service_is_up_when_it_says_so_and_gone_when_the_family_leaves(tmp_path):
    with Family() as family:
        child = start(family, SERVES, tmp_path)
        assert child.wait_for(r"listening (\S+)")[1] == "here"
        assert child.alive()
    assert gone(child.process_id)


def test_what_a_child_started_ends_with_it(tmp_path):
    with Family() as family:
        child = start(family, PARENT, tmp_path)
        grandchild = int(child.wait_for(r"listening (\d+)")[1])
        os.kill(grandchild, 0)
    assert gone(grandchild)


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_children_end_whatever_the_demo_dies_of(tmp_path, error):
    child = None
    with pytest.raises(error), Family() as family:
        child = start(family, SERVES, tmp_path)
        raise error
    assert gone(child.process_id)


def test_a_child_that_ends_before_it_serves_is_an_error_with_its_last_words(tmp_path):
    code = "import sys; sys.exit('port 80 is taken')"
    with Family() as family, pytest.raises(SidecarError) as caught:
        start(family, code, tmp_path).wait_for("listening")
    assert "port 80 is taken" in caught.value.text()


def test_a_child_that_stays_silent_is_an_error_too(tmp_path):
    with Family() as family, pytest.raises(SidecarError, match="said nothing"):
        start(family, "import time; time.sleep(600)", tmp_path).wait_for("x", seconds=0.3)


def test_a_child_that_ends_by_itself_gives_code_and_output(tmp_path):
    code = "import sys; print(sys.stdin.read().upper()); sys.exit(4)"
    with Family() as family:
        child = start(family, code, tmp_path, stdin=b"hello")
        assert child.finish(seconds=30) == (4, "HELLO\n")


@pytest.mark.full
def test_a_child_that_ignores_signals_is_killed(tmp_path):
    with Family() as family:
        child = start(family, STUBBORN, tmp_path)
        child.wait_for("listening")
    assert gone(child.process_id)


def test_a_demo_that_is_killed_leaves_no_child_behind(tmp_path):
    code = (
        "import os, sys, time\nfrom pathlib import Path\n"
        "from sidecar.demo.processes import Family\n"
        "with Family() as family:\n"
        f"    words, log = [sys.executable, '-c', {SERVES!r}], Path({str(tmp_path / 'log')!r})\n"
        "    child = family.start('c', words, log=log, environment=dict(os.environ))\n"
        "    child.wait_for('listening'); print(child.process_id, flush=True); time.sleep(600)"
    )
    demo = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    child = int(demo.stdout.readline())
    demo.kill()
    demo.communicate()
    assert gone(child)
