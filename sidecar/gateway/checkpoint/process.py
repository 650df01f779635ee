"""Anchors that are programs: object locks, time stamps and transparency logs are theirs to speak.

**Rules**
1. No shell, no environment but PATH; checkpoints come on stdin, one a line. Exit 0 says they are
   kept.
2. What does not end in time is killed, and has kept nothing.
"""

import subprocess
from collections.abc import Sequence

_PATH = "/usr/local/bin:/usr/bin:/bin"


class NotKept(Exception):
    """The command did not take the checkpoints."""


def tell(command: Sequence[str], lines: Sequence[str], timeout_seconds: float) -> None:
    """Give the command the lines. Raises NotKept, OSError."""
    try:
        done = subprocess.run(  # noqa: S603 - the operator's own command, without a shell
            list(command),
            input="".join(f"{each}\n" for each in lines),
            text=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=timeout_seconds,
            env={"PATH": _PATH},
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise NotKept(f"it did not end within {timeout_seconds:g} s") from None
    if done.returncode != 0:
        raise NotKept(f"it exited {done.returncode}")
