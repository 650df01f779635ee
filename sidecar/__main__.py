"""The process entry: runs the command line, maps all that goes wrong to the exit codes.

Rules
1. Every end has a code of the table in ``outcome``, of the profile that the command line asks for:
   usage errors, uncaught exceptions, interrupts.
2. Under ``--profile git`` the command runs in a process of its own, watched by this one: a signal,
   an exhausted memory or a code of no meaning is INTERNAL too, and never a verdict.
"""

import os
import signal
import subprocess
import sys
import traceback

import click

from sidecar.errors import ExitCode, SidecarError, named
from sidecar.outcome import Exits, Outcome, exits_of, outcome_of
from sidecar.plain import plain_lines

_WATCHED = "AGENTTWIN_WATCHED"


def main() -> None:
    """Run ``sidecar``; usage errors and our own faults exit 3, a SidecarError with its code.

    Under a profile all of these are mapped by its column.
    """
    exits = exits_of(sys.argv[1:])
    if exits.profile == "git" and os.environ.pop(_WATCHED, None) is None:
        sys.exit(_watched(exits))
    sys.exit(_run(exits))


def _watched(exits: Exits) -> int:
    """The same command line in a process of its own; what ends that one does not end this."""
    started: list[subprocess.Popen[bytes]] = []

    def passed_on(number: int, _: object) -> None:
        for one in started:
            one.send_signal(number)

    signal.signal(signal.SIGTERM, passed_on)
    try:
        child = subprocess.Popen(  # noqa: S603 - this very command line
            sys.orig_argv, executable=sys.executable, env={**os.environ, _WATCHED: "1"}
        )
    except OSError as error:
        return _say(f"error: it cannot be run: {error.strerror}", exits)
    started.append(child)
    # The terminal interrupts both, and the child says what comes of it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    ended = child.wait()
    code = exits.ended(ended)
    if code != ended:
        return _say(f"error: the command ended with {ended}, which is no verdict", exits)
    return code


def _run(exits: Exits) -> int:
    # Children are started by exec, never by a bare fork; gRPC's fork handlers would only talk.
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "false")
    # What gRPC's core has to say (a busy port) reaches the user as our own error.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    from sidecar.cli.root import root

    try:
        result = root.main(standalone_mode=False)
        return result if isinstance(result, int) else ExitCode.GOOD
    except click.exceptions.Abort:
        return _say("interrupted", exits)
    except click.exceptions.Exit as error:
        return error.exit_code
    except click.ClickException as error:
        error.show(sys.stderr)
        return exits.code(Outcome.USAGE)
    except SidecarError as error:
        return _say(f"error: {error.text()}", exits, outcome_of(error.code))
    except KeyboardInterrupt:
        return _say("interrupted", exits)
    except SystemExit as error:
        # Nobody but this file ends the process: a number from elsewhere is no verdict of ours.
        return _say(f"error: internal fault: {named(error)} asked to exit", exits)
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and not _ours(error.name or ""):
            return _say(
                f"error: {error.name} is not installed. "
                "Install the extra that has it, e.g. pip install 'agenttwin-sidecar[server]'.",
                exits,
                Outcome.USAGE,
            )
        if os.environ.get("AGENTTWIN_TRACEBACK"):
            traceback.print_exc()
        return _say(
            f"error: internal fault: {named(error)}. "
            "Set AGENTTWIN_TRACEBACK=1 to see where, and report it.",
            exits,
        )


def _ours(module: str) -> bool:
    return module.partition(".")[0] in ("sidecar", "processors")


def _say(message: str, exits: Exits, outcome: Outcome = Outcome.INTERNAL) -> int:
    print(plain_lines(message), file=sys.stderr)
    return exits.code(outcome)


if __name__ == "__main__":
    main()
