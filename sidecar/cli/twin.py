"""``sidecar twin``: twins, before and without a replay."""

import click

from sidecar.cli.twin_check import check
from sidecar.cli.twin_draft import draft_
from sidecar.cli.twin_episode import episode
from sidecar.cli.twin_fidelity import fidelity_
from sidecar.cli.twin_serve import serve
from sidecar.cli.twin_sync import sync


@click.group("twin")
def command() -> None:
    """Check twins, draft and measure them on traffic, serve them, lead their episodes.

    \b
    Example:
      $ sidecar twin check twin.yaml
      twin.yaml:14: warning: queues.settlements nothing puts a message into this queue
      1 twin: 0 problems, 1 warning
    """


command.add_command(check)
command.add_command(draft_)
command.add_command(fidelity_)
command.add_command(serve)
command.add_command(episode)
command.add_command(sync)
