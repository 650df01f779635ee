"""``python -m sidecar.replay.worker module:callable``: a Python callable as an agent process.

Rules
1. The callable is called once with the request and must answer a mapping; its ``output`` is the
   answer.
2. The folder the replay was started in comes first on the path, as for ``python -c``.
"""

import importlib
import sys
from typing import Any

import msgspec


def main(argv: list[str], stdin: bytes) -> int:
    """Call the named callable with the JSON on stdin; exit status 0, or 1 where it is of no use."""
    module_name, _, attribute = argv[0].partition(":")
    sys.path.insert(0, "")
    target: Any = importlib.import_module(module_name)
    for name in attribute.split("."):
        target = getattr(target, name)
    answer = target(msgspec.json.decode(stdin))
    if not isinstance(answer, dict):
        sys.stderr.write(f"{argv[0]} answered {type(answer).__name__}, not a mapping\n")
        return 1
    sys.stdout.write("\n" + msgspec.json.encode({"output": answer.get("output", answer)}).decode())
    sys.stdout.write("\n")
    sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], sys.stdin.buffer.read()))
