"""``sidecar release``: kill switches and freezes.

Rules
1. A stop goes to the running sidecar with the person's own key, and counts before the next byte of
   any call, in every gateway on the store.
2. ``status`` reads the store, running or not.
"""

import re
from collections.abc import Callable
from typing import Any

import click

from sidecar.app import opening
from sidecar.app.loading import load_config
from sidecar.cli.asking import control
from sidecar.cli.moments import instant
from sidecar.cli.options import common, deciding, emit, talk
from sidecar.config import Loaded
from sidecar.errors import SidecarError
from sidecar.plain import plain
from sidecar.store.stop import LIFTERS, Stop

_AGENT = re.compile(r"key:[0-9a-f]{16}|(?!key:)[a-z]+:.+")
"""A key's principal, or one that is not of a key (``oidc:``, ``mtls:``)."""


@click.group()
def command() -> None:
    """Stop and resume what agents do.

    \b
    Example:
      $ sidecar release kill --tool issue_refund --reason "refunds go twice"
      0192… kill tool issue_refund
    """


def _whom(function: Callable[..., None]) -> Callable[..., None]:
    for option in (
        deciding(whose="Your own key"),
        click.option("--tool", default=None, help="Only calls of this tool."),
        click.option("--agent", default=None, help="Only calls of this agent: its key's id."),
    ):
        function = option(function)
    return function


@command.command()
@_whom
def kill(
    agent: str | None,
    tool: str | None,
    reason: str,
    loaded: Loaded,
    output: str,
) -> None:
    """Stop every call of the project, or of one agent or tool, reads too. One person kills.

    \b
    Example:
      $ sidecar release kill --tool issue_refund --reason "refunds go twice"
      0192… kill tool issue_refund
    """
    _set(
        "kill",
        _scope(agent, tool),
        reason,
        loaded,
        output,
    )


@command.command()
@_whom
def freeze(
    agent: str | None,
    tool: str | None,
    reason: str,
    loaded: Loaded,
    output: str,
) -> None:
    """Stop calls with effects of the project, or of one agent or tool; reads go on.

    \b
    Example:
      $ sidecar release freeze --agent 0a1b2c3d4e5f6071 --reason "under review"
      0192… freeze agent key:0a1b2c3d4e5f6071
    """
    _set(
        "freeze",
        _scope(agent, tool),
        reason,
        loaded,
        output,
    )


@command.command()
@_whom
def unkill(
    agent: str | None,
    tool: str | None,
    reason: str,
    loaded: Loaded,
    output: str,
) -> None:
    """Vote to lift a kill. Two people unkill.

    \b
    Example:
      $ sidecar release unkill --tool issue_refund --reason "fixed in 1.3.1"
      0192… kill tool issue_refund: 1 of 2 to lift it
    """
    _lift(
        "kill",
        _scope(agent, tool),
        reason,
        loaded,
        output,
    )


@command.command()
@_whom
def unfreeze(
    agent: str | None,
    tool: str | None,
    reason: str,
    loaded: Loaded,
    output: str,
) -> None:
    """Lift a freeze.

    \b
    Example:
      $ sidecar release unfreeze --agent 0a1b2c3d4e5f6071 --reason "reviewed"
      0192… freeze agent key:0a1b2c3d4e5f6071: lifted
    """
    scope = _scope(agent, tool)
    _lift(
        "freeze",
        scope,
        reason,
        loaded,
        output,
    )


@command.command()
@click.option("--project", default=None, help="Only this project's.")
@click.option("--limit", type=click.IntRange(1, 1000), default=100, show_default=True)
@common(outputs=("text", "json", "jsonl"))
def status(
    project: str | None, limit: int, config: str | None, store: str | None, output: str
) -> None:
    """List what is stopped, then what was.

    \b
    Example:
      $ sidecar release status
      0192…  kill   default tool issue_refund  since 2026-11-30T09:14:02Z by key:77aa…  stands: …
    """
    with opening.open_ledger(load_config(config, store)) as ledger:
        found = ledger.list_stops(project, limit)
    emit(found, output, lambda: "\n".join(map(_line, found)) or "nothing is stopped")


def _scope(agent: str | None, tool: str | None) -> dict[str, str]:
    if agent and tool:
        raise SidecarError("a stop is of one agent or of one tool, not of both")
    if agent:
        subject = agent if ":" in agent else f"key:{agent}"
        return {"scope": "agent", "subject": subject}
    return {"scope": "tool", "subject": tool} if tool else {"scope": "project", "subject": ""}


def _set(kind: str, scope: dict[str, str], reason: str, loaded: Loaded, output: str) -> None:
    made = control(loaded, "/v1/stops", {"kind": kind, "reason": reason, **scope})
    emit(made, output, lambda: _told(made))
    _doubt(loaded, scope)


def _doubt(loaded: Loaded, scope: dict[str, str]) -> None:
    """Say so where what was stopped may be a misspelling: the stop stands all the same."""
    subject = scope["subject"]
    if scope["scope"] == "tool":
        known = {each["name"] for each in control(loaded, "/v1/tools")["tools"]}
        if subject not in known:
            talk(f"warning: no tool {subject!r} is registered there: see sidecar tools list")
    elif scope["scope"] == "agent" and not _AGENT.fullmatch(subject):
        talk(f"warning: {subject!r} is no agent's id (key:<16 hex digits>): see sidecar key list")


def _lift(kind: str, scope: dict[str, str], reason: str, loaded: Loaded, output: str) -> None:
    wanted = {"kind": kind, "lifted_at_ns": None, **scope}
    standing = control(loaded, "/v1/stops?limit=1000")["stops"]
    found = [each for each in standing if wanted.items() <= each.items()]
    if not found:
        raise SidecarError(f"there is no such {kind} to lift", do="Run: sidecar release status")
    lifted = control(loaded, f"/v1/stops/{found[0]['stop_id']}/lift", {"reason": reason})
    emit(lifted, output, lambda: _told(lifted))


def _told(stop: dict[str, Any]) -> str:
    subject = stop["subject"] or stop["project"]  # whose, where the key is for several
    what = f"{stop['stop_id']} {stop['kind']} {stop['scope']} {subject}"
    if stop["lifted_at_ns"] is not None:
        return plain(f"{what}: lifted")
    votes = f": {len(stop['lifts'])} of {LIFTERS[stop['kind']]} to lift it" if stop["lifts"] else ""
    return plain(what + votes)


def _line(stop: Stop) -> str:
    state = "stands" if stop.lifted_at_ns is None else f"lifted {instant(stop.lifted_at_ns)}"
    what = f"{stop.kind:6} {stop.project} {stop.scope} {stop.subject}".rstrip()
    since = f"since {instant(stop.set_at_ns)} by {stop.set_by}"
    return plain(f"{stop.stop_id}  {what}  {since}  {state}: {stop.reason}")
