"""Workers of ``multiprocessing`` that are interpreters of their own: programs that Python starts
without telling its audit hooks."""

import sys
from typing import Any, Final

from sidecar.capture.seams.guard import heard, is_guarded
from sidecar.capture.seams.install import patch
from sidecar.capture.seams.session import Session

_TRACKER: Final = "multiprocessing.resource_tracker"  # a janitor: it does nothing of the agent's


def install(session: Session) -> None:
    """Hear of a worker before it is started."""
    if not is_guarded(session):
        return
    util = sys.modules["multiprocessing.util"]
    real = util.spawnv_passfds

    def spawnv_passfds(*args: Any) -> Any:
        if sys._getframe(1).f_globals.get("__name__") != _TRACKER:
            heard("subprocess.Popen", args)
        return real(*args)

    patch(session, util, "spawnv_passfds", spawnv_passfds)
