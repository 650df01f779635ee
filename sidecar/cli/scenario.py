"""``sidecar scenario``: scenarios before a gate hangs on them.

Rules
1. It reads the suites that ``sidecar replay`` reads, and stores no verdict.
"""

import click

from sidecar.cli.scenario_calibrate import calibrate
from sidecar.cli.scenario_fuzz import fuzz
from sidecar.cli.scenario_lint import lint
from sidecar.cli.scenario_run import run


@click.group("scenario")
def command() -> None:
    """Lint scenarios, run them without a gate, calibrate their judge, and find new ones.

    \b
    Example:
      $ sidecar scenario lint suite.yaml && \\
          sidecar scenario run suite.yaml --agent "cmd:agent --version 1.3.0"
    """


command.add_command(lint)
command.add_command(run)
command.add_command(calibrate)
command.add_command(fuzz)
