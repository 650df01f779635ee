"""``make bench``: every benchmark of this folder in turn, each figure beside its peer's."""

import runpy
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent


def main() -> int:
    """Run the benchmarks named on the command line, or all; exit 1 when one fails."""
    wanted = sys.argv[1:] or sorted(
        p.stem for p in HERE.glob("*.py") if not p.stem.startswith(("_", "test_"))
    )
    failed = []
    for name in wanted:
        print(f"\n== {name}", flush=True)
        started = time.monotonic()
        try:
            runpy.run_path(str(HERE / f"{name}.py"), run_name="__main__")
        except SystemExit as stop:
            if stop.code not in (None, 0):
                failed.append(name)
        except Exception as error:
            print(f"failed: {type(error).__name__}: {error}")
            failed.append(name)
        print(f"   ({time.monotonic() - started:.0f} s)", flush=True)
    if failed:
        print(f"\nfailed: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
