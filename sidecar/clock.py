"""The one place that reads the clock and rolls dice. Everybody else is handed the results.

Rules
1. ``now_ns`` is wall time in nanoseconds since the Unix epoch; ``monotonic_ns`` measures spans of
   time, ``steady_ns`` spans that a machine may have slept through.
2. Ids are time-ordered (UUIDv7 layout, RFC 9562), so that an index grows at its end.
"""

import os
import time
from collections.abc import Callable

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
    tail = int.from_bytes(os.urandom(10), "big")
    value = (milliseconds << 80) | tail
    value = (value & ~(0xF << 76)) | (0x7 << 76)
    value = (value & ~(0x3 << 62)) | (0x2 << 62)
    return f"{value:032x}"


def random_bytes(count: int) -> bytes:
    """``count`` bytes from the operating system's generator."""
    return os.urandom(count)
