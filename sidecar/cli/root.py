"""The command ``sidecar``: one file per command, loaded when it is called.

Rules
1. A part that is not built is not listed.
2. A reader of help or of results that has gone (``| head``) is no fault.
3. Usage errors, uncaught exceptions and signals exit 3; they never look like a verdict.
"""

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from sidecar.cli.options import hush

COMMANDS = {
    "serve": "Run the whole sidecar: receivers, pipeline, gateway, control.",
    "demo": "Run the closed loop on embedded defaults, then exit.",
    "doctor": "Check everything a start needs; each fault with its remedy.",
    "trace": "Normalise, list, show and follow agent traces.",
    "replay": "Replay scenarios or captured traffic against twins and give a gate verdict.",
    "twin": "Check twins, serve them by themselves, lead the episodes of a server.",
    "scenario": "Lint scenarios, run them without a gate, calibrate their judge, find new ones.",
    "dataset": "Make datasets of runs and lines of JSON; list and export their versions.",
    "coverage": "Show what a suite's runs have tried, and what is missing, on eight surfaces.",
    "bisect": "Find the commit or revision that introduced a behaviour.",
    "tape": "Record and replay runs; show, verify, compare, assert on, import and migrate them.",
    "gallery": "Show six agents that go wrong, each beside the same errand done well.",
    "gate": "Show and explain gate verdicts.",
    "policy": "Check, test and run policy bundles.",
    "tools": "List the registered tools, and draft a registry.",
    "approvals": "List, show, approve and deny approval requests.",
    "calls": "List and show tool calls and their receipts; resolve unknown outcomes.",
    "budgets": "List and show budgets: what is used, held and left.",
    "release": "Kill switches and freezes.",
    "audit": "Verify and export the audit chain.",
    "chaos": "Prove what the gateway promises when it is killed or a part fails.",
    "store": "Migrate, back up and prune the store.",
    "key": "Create, list and revoke API keys.",
}


@contextmanager
def _unread() -> Iterator[None]:
    """End well where the reader has gone; click would exit 1 before we could say so."""
    try:
        yield
    except BrokenPipeError:
        hush()
        raise click.exceptions.Exit(0) from None


class Commands(click.Group):
    """Finds a command's module by its name."""

    def make_context(self, *args: Any, **more: Any) -> click.Context:
        """As click, which prints the root's help here."""
        with _unread():
            return super().make_context(*args, **more)

    def invoke(self, ctx: click.Context) -> Any:
        """As click, which runs the command here."""
        with _unread():
            return super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """The commands in the order of the README."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """The command of that name, imported now."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"sidecar.cli.{cmd_name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Help lines without importing the commands."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="agenttwin-sidecar", prog_name="sidecar")
def root() -> None:
    """Decide whether an AI agent can be trusted with real actions."""
