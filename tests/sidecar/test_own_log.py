"""The sidecar's own log tells what failed and where, and nothing of what it failed on."""

import subprocess
import sys

import pytest

SAID = "the customer's whole story, bob@example.com"


def logged(code):
    done = subprocess.run(
        [sys.executable, "-c", f"SAID = {SAID!r}\n{code}"],
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    return done.stderr


SETUP = "from sidecar.telemetry import configure_logging, log\nconfigure_logging(json_lines={})\n"


@pytest.mark.requirement("RED-01")
@pytest.mark.parametrize(
    "code",
    [
        "try:\n    {}[SAID]\nexcept KeyError as error:\n    log('x').error('failed', why=error)",
        "try:\n    int(SAID)\nexcept ValueError:\n    log('x').exception('failed')",
        "import logging\ntry:\n    int(SAID)\nexcept ValueError:\n    logging.exception('failed')",
        "import logging\nlogging.error('failed\\nfuture: <Task exception=%r>', SAID)",
        "import threading\nt = threading.Thread(target=int, args=(SAID,), name='failed')\n"
        "t.start(); t.join()\nprint('failed', file=__import__('sys').stderr)",
        "import asyncio\nasync def main():\n    asyncio.create_task(asyncio.to_thread(int, SAID))\n"
        "    await asyncio.sleep(0.2)\nasyncio.run(main())\nlog('x').error('failed')",
        "log('x').error('failed')\nraise ValueError(SAID)",
    ],
)
def test_a_failure_is_told_by_kind_and_place(code):
    errors = logged(SETUP.format("exception('failed')" not in code) + code)
    assert "failed" in errors
    assert "story" not in errors and "example.com" not in errors
    if "SAID)" in code and "Task exception" not in code:
        assert "ValueError" in errors


@pytest.mark.requirement("RED-01")
def test_data_in_what_is_logged_are_masked():
    errors = logged(
        SETUP.format(True)
        + "log('x').warning('seen', reason='to bob@example.com', n={'a': [SAID]})"
    )
    assert "to [email]" in errors and "example.com" not in errors


def test_our_own_errors_keep_their_text():
    code = (
        "from sidecar.errors import SidecarError\n"
        "log('x').error('failed', why=SidecarError('no space', where='/data', do='Make some.'))"
    )
    assert "no space at /data. Make some." in logged(SETUP.format(True) + code)


@pytest.mark.parametrize("gone", ["sys.stderr.close()", "os.dup2(os.open('/dev/full', 1), 2)"])
def test_a_line_that_cannot_be_written_is_counted_and_fails_nothing(gone):
    code = (
        "import os, sys\nfrom sidecar.telemetry import REGISTRY\n"
        f"log('x').error('before')\n{gone}\nlog('x').error('lost')\n"
        "labels = {'stage': 'log', 'reason': 'unwritable'}\n"
        "print(REGISTRY.get_sample_value('sidecar_dropped_total', labels))"
    )
    done = subprocess.run(
        [sys.executable, "-c", SETUP.format(True) + code],
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert done.stdout == "1.0\n" and "before" in done.stderr
