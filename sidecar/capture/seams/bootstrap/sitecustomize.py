"""Found by Python at its start, before the agent: makes the process record or replay.

Then it goes out of the way: a ``sitecustomize`` of the user's own runs as it always did.
"""

import importlib
import os
import sys

_here = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - nothing more is loaded


def _cannot(order: str, text: str) -> None:
    """End here, and tell who asked: the agent does not run unseen."""
    import json

    try:
        with open(json.loads(order)["report"], "w", encoding="utf-8") as file:  # noqa: PTH123
            json.dump({"fault": text}, file)
    except (OSError, ValueError, LookupError):
        print(f"sidecar: {text}", file=sys.stderr)
    os._exit(3)


def _boot() -> None:
    sys.path[:] = [one for one in sys.path if os.path.abspath(one or ".") != _here]  # noqa: PTH100
    order = os.environ.get("AGENTTWIN_CAPTURE")
    if order is None:
        return
    try:
        try:
            import sidecar.capture.seams.boot as boot
        except ModuleNotFoundError as error:
            if error.name != "sidecar":
                raise
            # An interpreter of its own: the package is taken from where the command runs.
            sys.path.append(os.path.abspath(os.path.join(_here, *[os.pardir] * 4)))  # noqa: PTH100, PTH118
            import sidecar.capture.seams.boot as boot
    except ImportError as error:
        _cannot(
            order,
            f"{error.name or 'a module'} is not installed for {sys.executable}. "
            "Install it there: pip install agenttwin-sidecar",
        )
    boot.boot(order)


_boot()
_mine = sys.modules.pop("sitecustomize")
try:
    importlib.import_module("sitecustomize")  # the user's own, if there is one
except ImportError as error:
    sys.modules.setdefault("sitecustomize", _mine)  # who imports us looks for us there
    if error.name != "sitecustomize":
        raise
