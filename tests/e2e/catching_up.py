"""Waiting for somebody who catches up: slow is not the same as stuck.

**Rules**
1. As long as fewer are left than ever before, it is waited on, however long the whole takes.
2. Only who has got nowhere for ``seconds`` has stopped. What is left then is for the caller to
   judge, who asserts that it is none.
"""

import time


def until_none(left, seconds, *, now=time.monotonic, pause=time.sleep):
    """How many are left: 0, or the number that has not fallen below its least for ``seconds``.

    ``left`` counts anew; None where nothing could be counted, which is no progress.
    """
    least, deadline = None, now() + seconds
    while (found := left()) != 0:
        if found is not None and (least is None or found < least):
            least, deadline = found, now() + seconds
        elif now() >= deadline:
            return found
        pause(0.5)  # the world outside tells no event
    return 0
