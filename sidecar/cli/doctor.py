"""``sidecar doctor``: everything a start needs, checked, each with its remedy."""

import asyncio

import click

from sidecar.app.loading import load_config
from sidecar.cli.examination import examine
from sidecar.cli.found import Check, good, wrong
from sidecar.cli.options import common, say, show_lines, to_json
from sidecar.errors import ExitCode, SidecarError

_MARKS = {"good": ("ok", "green"), "warning": ("warn", "yellow"), "wrong": ("WRONG", "bold red")}


@click.command("doctor")
@common()
def command(config: str | None, store: str | None, output: str) -> None:
    """Check configuration, clock, seal key, store, keys, ports, policy, secrets and services.

    Nothing is changed and no request is sent. Exit 3 where something is wrong, 0 with warnings.

    \b
    Example:
      $ sidecar doctor
      ok     configuration    ./sidecar.yaml
      WRONG  gateway.listen   cannot listen on 127.0.0.1:4319: Address already in use
             do: Stop what uses the port, or configure another address.
    """
    checks = asyncio.run(_all(config, store))
    if output == "json":
        say(to_json(checks))
    else:
        show_lines([line for check in checks for line in _lines(check)])
    if any(check.state == "wrong" for check in checks):
        raise click.exceptions.Exit(ExitCode.FAULT)


async def _all(config: str | None, store: str | None) -> list[Check]:
    try:
        loaded = load_config(config, store, thorough=True)
    except SidecarError as error:
        return [wrong("configuration", error)]
    first = good("configuration", loaded.file or "defaults; there is no sidecar.yaml here")
    return [first, *[check async for check in examine(loaded)]]


def _lines(check: Check) -> list[tuple[str, str]]:
    mark, style = _MARKS[check.state]
    what, *more = check.what.rstrip().splitlines()
    lines = [(f"{mark:<5}  {check.name:<16} {what}", style if check.state != "good" else "")]
    lines += [(f"       {'':<16} {each}", "") for each in more]
    if check.do:
        lines.append((f"       do: {check.do}", ""))
    return lines
