"""The process entry: runs the command line, maps all that goes wrong to the exit codes."""

import os
import sys
import traceback

import click

from sidecar.errors import ExitCode, SidecarError, named
from sidecar.plain import plain_lines


def main() -> None:
    """Run ``sidecar``; usage errors and our own faults exit 3, a SidecarError with its code."""
    sys.exit(_run())


def _run() -> int:
    # Children are started by exec, never by a bare fork; gRPC's fork handlers would only talk.
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "false")
    # What gRPC's core has to say (a busy port) reaches the user as our own error.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    from sidecar.cli.root import root

    try:
        result = root.main(standalone_mode=False)
        return result if isinstance(result, int) else ExitCode.GOOD
    except click.exceptions.Abort:
        return _say("interrupted")
    except click.exceptions.Exit as error:
        return error.exit_code
    except click.ClickException as error:
        error.show(sys.stderr)
        return ExitCode.FAULT
    except SidecarError as error:
        _say(f"error: {error.text()}")
        return error.code
    except KeyboardInterrupt:
        return _say("interrupted")
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and not _ours(error.name or ""):
            return _say(
                f"error: {error.name} is not installed. "
                "Install the extra that has it, e.g. pip install 'agenttwin-sidecar[server]'."
            )
        if os.environ.get("AGENTTWIN_TRACEBACK"):
            traceback.print_exc()
        return _say(
            f"error: internal fault: {named(error)}. "
            "Set AGENTTWIN_TRACEBACK=1 to see where, and report it."
        )


def _ours(module: str) -> bool:
    return module.partition(".")[0] in ("sidecar", "processors")


def _say(message: str) -> int:
    print(plain_lines(message), file=sys.stderr)
    return ExitCode.FAULT


if __name__ == "__main__":
    main()
