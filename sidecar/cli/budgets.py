"""``sidecar budgets``: what may still be spent, by whom, until when."""

import click

from sidecar import clock
from sidecar.app import allowances
from sidecar.app.loading import load_config
from sidecar.cli.moments import instant
from sidecar.cli.options import common, emit
from sidecar.errors import SidecarError
from sidecar.gateway.allowance import BudgetStanding

_PROJECT = click.option("--project", default=None, help="Only what this project can see.")


@click.group()
def command() -> None:
    """List and show budgets: limit, used, held, left, and when the window ends.

    \b
    Example:
      $ sidecar budgets list
      refunds a month  key:0a1b2c3d  EUR  used 180 + held 20 of 200  until 2026-12-01T00:00:00Z
    """


@command.command("list")
@_PROJECT
@common(outputs=("text", "json", "jsonl"))
def list_(project: str | None, config: str | None, store: str | None, output: str) -> None:
    """List every account of every configured budget; one is there once it was used.

    \b
    Example:
      $ sidecar budgets list
      refunds a month  key:0a1b2c3d  EUR  used 180 + held 20 of 200  until 2026-12-01T00:00:00Z
    """
    loaded = load_config(config, store)
    found = allowances.standings(loaded, project, clock.now_ns())
    emit(found, output, lambda: "\n".join(map(_line, found)) or "no budget was used")


@command.command()
@click.argument("name")
@_PROJECT
@common(outputs=("text", "json", "jsonl"))
def show(
    name: str, project: str | None, config: str | None, store: str | None, output: str
) -> None:
    """Show the accounts of one budget, by its name.

    \b
    Example:
      $ sidecar budgets show "refunds a month"
      refunds a month  key:0a1b2c3d  EUR  used 180 + held 20 of 200  until 2026-12-01T00:00:00Z
    """
    loaded = load_config(config, store)
    if name not in {each.known_as for each in loaded.config.budgets}:
        raise SidecarError(
            f"there is no budget {name!r}",
            where="budgets",
            do="List what was used with: sidecar budgets list",
        )
    every = allowances.standings(loaded, project, clock.now_ns())
    found = [each for each in every if each.name == name]
    emit(found, output, lambda: "\n".join(map(_line, found)) or "this budget was not used")


def _line(each: BudgetStanding) -> str:
    whose = f"{each.project} {each.subject}".strip() or "-"
    until = f"in any {each.window}"
    if each.window_ends_at_ns is not None:
        until = f"until {instant(int(each.window_ends_at_ns))}"
    over = "  OVERDRAWN" if each.overdrawn else ""
    taken = f"used {each.used} + held {each.held} of {each.limit}"
    return f"{each.name}  {whose}  {each.unit}  {taken}  {until}{over}"
