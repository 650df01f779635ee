"""What a user is told when something is wrong, and the exit codes.

Rules
1. A user sees what is wrong, where, and what to do; never a traceback.
2. Exit codes are one table (docs/reference/exit-codes.md): 0 good, 1 failed, 2 cannot decide, 3
   usage,
   configuration, environment or our fault.
"""

import traceback
from enum import IntEnum


class ExitCode(IntEnum):
    """One table for all commands."""

    GOOD = 0
    FAILED = 1
    UNDECIDED = 2
    FAULT = 3


class SidecarError(Exception):
    """A user's problem: ``what`` is wrong, ``where``, and what to ``do`` about it."""

    def __init__(
        self, what: str, *, where: str = "", do: str = "", code: ExitCode = ExitCode.FAULT
    ) -> None:
        self.what = what
        self.where = where
        self.do = do
        self.code = code
        super().__init__(self.text())

    def text(self) -> str:
        """The three parts as one line of plain text."""
        parts = [self.what]
        if self.where:
            parts.append(f"at {self.where}")
        line = " ".join(parts)
        if "\n" in self.what:
            return f"{line.rstrip()}\n{self.do}".rstrip()
        return f"{line}. {self.do}" if self.do else line


class StoreUnavailable(SidecarError):
    """The store cannot be read or written now: disk full, locked, gone, or not permitted."""


class NoStore(StoreUnavailable):
    """There is no store: nothing was ever kept there."""


def named(error: BaseException) -> str:
    """Kind and place of a failure, e.g. ``KeyError in join.py:71``; never its text.

    An exception's text may quote what it failed on, and that may be anybody's secret.
    """
    frames = traceback.extract_tb(error.__traceback__)
    if not frames:
        return type(error).__name__
    file = frames[-1].filename.rpartition("/")[2]
    return f"{type(error).__name__} in {file}:{frames[-1].lineno}"


def told(error: BaseException) -> str:
    """A failure for the log: our own errors by their text, all others by kind and place."""
    return error.text() if isinstance(error, SidecarError) else named(error)


class Problem(Exception):
    """One thing wrong with a configuration: ``path`` is dotted (``gateway.tools.0.class``)."""

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.text = text
        super().__init__(f"{path}: {text}")
