"""The one place that reads the clock and rolls dice. Everybody else is handed the results.

Rules
1. ``now_ns`` is wall time in nanoseconds since the Unix epoch; ``monotonic_ns`` measures spans of
   time, ``steady_ns`` spans that a machine may have slept through.
2. Ids are time-ordered (UUIDv7 layout, RFC 9562), so that an index grows at its end.
"""

import os
import time
from collections.abc import Callable

_VARIANT = {digit: f"{int(digit, 16) & 0x3 | 0x8:x}" for digit in "0123456789abcdef"}

Now = Callable[[], int]
NewId = Callable[[], str]


def now_ns() -> int:
    """Wall time, nanoseconds since the Unix epoch."""
    return time.time_ns()


def monotonic_ns() -> int:
    """Monotonic time in nanoseconds; only differences mean something."""
    return time.monotonic_ns()


def steady_ns() -> int:
    """Time since the machine started, sleep included, which nobody can set; nanoseconds."""
    source = getattr(time, "CLOCK_BOOTTIME", None)  # not everywhere
    return time.monotonic_ns() if source is None else time.clock_gettime_ns(source)


def new_id() -> str:
    """A time-ordered random id: 32 hex digits in the layout of UUIDv7."""
    milliseconds = (time.time_ns() // 1_000_000) & 0xFFFFFFFFFFFF
    random = os.urandom(10).hex()
    return f"{milliseconds:012x}7{random[1:4]}{_VARIANT[random[4]]}{random[5:]}"


def random_bytes(count: int) -> bytes:
    """``count`` bytes from the operating system's generator."""
    return os.urandom(count)
