"""``sidecar twin``: twins, before and without a replay."""

import click

from sidecar.cli.twin_check import check


@click.group("twin")
def command() -> None:
    """Check twins: what is wrong with them, and what they leave open.

    \b
    Example:
      $ sidecar twin check twin.yaml
      twin.yaml:14: warning: queues.settlements nothing puts a message into this queue
      1 twin: 0 problems, 1 warning
    """


command.add_command(check)
