"""The last one out: ends the demo's children when the demo itself was killed without a word.

Rules
1. It reads ``+GROUP`` and ``-GROUP`` lines from stdin; at its end, every group not taken back is
   ended.
2. It imports nothing but the standard library's smallest parts, and needs no demo alive to do its
   work.

``python -I guard.py``, with stdin a pipe that only the demo holds.
"""

import contextlib
import os
import signal
import sys
import time

GRACE_SECONDS = 5.0


def main() -> None:
    """Wait for the end of stdin, then end what is left."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    groups: set[int] = set()
    for line in sys.stdin:
        group = int(line[1:])
        (groups.add if line[0] == "+" else groups.discard)(group)
    for number in (signal.SIGTERM, signal.SIGKILL) if groups else ():
        for group in groups:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(group, number)
        if number == signal.SIGTERM:
            time.sleep(GRACE_SECONDS)


if __name__ == "__main__":
    main()
