"""A failure of a stage in words that hold nothing of what it failed on.

Rules
1. The kind of error and the place in the program; never its text, which may quote content.
"""

import traceback


def named(error: BaseException) -> str:
    """For example ``KeyError in join.py:71``."""
    frames = traceback.extract_tb(error.__traceback__)
    if not frames:
        return type(error).__name__
    file = frames[-1].filename.rpartition("/")[2]
    return f"{type(error).__name__} in {file}:{frames[-1].lineno}"
