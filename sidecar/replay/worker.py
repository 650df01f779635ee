"""``python -m sidecar.replay.worker module:callable``: a Python callable as an agent process.

Rules
1. The callable is called once with the request and must answer a mapping; its ``output`` is the
   answer. One that takes the tools beside it is handed them, each call through the gateway, and may
   answer anything that is JSON.
2. The folder the replay was started in comes first on the path, as for ``python -c``.
3. Whether it takes tools beside the request is asked of a process too (``--takes``): a coordinator
   never imports what it judges.
"""

import importlib
import inspect
import os
import subprocess
import sys
from typing import Any

import msgspec

from sidecar.replay.calling.client import ToolCaller

_TAKES = "--takes"
_TAKES_SECONDS = 60
_HANDED = 2


def takes_tools(argv: tuple[str, ...]) -> bool:
    """Whether the callable of a ``py:`` reference takes the request and the tools.

    One that cannot be imported takes none: its episodes will say why.
    """
    asked = (*argv[:-1], _TAKES, argv[-1])
    try:
        said = subprocess.run(  # noqa: S603 (our own interpreter and module)
            asked, capture_output=True, timeout=_TAKES_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return said.returncode == 0 and said.stdout.strip().endswith(b"2")


def _takes(target: Any) -> int:
    places = inspect.signature(target).parameters.values()
    needed = [
        one
        for one in places
        if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD) and one.default is one.empty
    ]
    return len(needed)


def main(argv: list[str], stdin: bytes) -> int:
    """Call the named callable with the JSON on stdin; exit status 0, or 1 where it is of no use."""
    module_name, _, attribute = argv[-1].partition(":")
    sys.path.insert(0, "")
    target: Any = importlib.import_module(module_name)
    for name in attribute.split("."):
        target = getattr(target, name)
    if argv[0] == _TAKES:
        sys.stdout.write(f"\n{_takes(target)}\n")
        return 0
    handed = _takes(target) == _HANDED
    given = (ToolCaller(os.environ),) if handed else ()
    answer = target(msgspec.json.decode(stdin), *given)
    if handed and not (isinstance(answer, dict) and "output" in answer):
        answer = {"output": answer}
    if not isinstance(answer, dict):
        sys.stderr.write(f"{argv[0]} answered {type(answer).__name__}, not a mapping\n")
        return 1
    sys.stdout.write("\n" + msgspec.json.encode({"output": answer.get("output", answer)}).decode())
    sys.stdout.write("\n")
    sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], b"" if _TAKES in sys.argv else sys.stdin.buffer.read()))
