"""What every command shares: ``--config``, ``--store``, ``--output``, and how results are printed.

Rules
1. Results go to stdout and nothing else does; talk goes to stderr.
2. ``--output`` lists only what the command can print.
3. All text passes ``plain`` on its way out, line by line; what must not break a line of ours passes
   it field by field before.
4. A reader that has gone (``| head``) is no fault: the command ends as it would have.
"""

import functools
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

import click
import msgspec

from sidecar.errors import SidecarError
from sidecar.outcome import PROFILES, Exits, Profile
from sidecar.plain import plain, plain_json, plain_lines

F = TypeVar("F", bound=Callable[..., Any])


def common(outputs: Sequence[str] = ("text", "json"), *, default: str = "text") -> Callable[[F], F]:
    """Add ``config``, ``store`` and ``output`` parameters to a command."""

    def decorate(function: F) -> F:
        options = [
            click.option(
                "--config",
                type=click.Path(dir_okay=False),
                default=None,
                help="Configuration file [default: ./sidecar.yaml if there].",
            ),
            click.option(
                "--store",
                default=None,
                help="Store URL, e.g. sqlite:///./sidecar-data [SIDECAR_STORE_URL, key store.url].",
            ),
            click.option(
                "--output",
                type=click.Choice(list(outputs)),
                default=default,
                show_default=True,
                help="Form of the result on stdout.",
            ),
        ]
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


def profiled(*, bisect: bool = False, warn: bool = False) -> Callable[[F], F]:
    """Add an ``exits`` parameter: how outcomes become exit codes, from ``--profile``.

    ``bisect`` adds ``--bisect``, ``warn`` ``--warn-exit``.
    """

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def run(
            *,
            profile: Profile,
            bisect: bool = False,
            warn_exit: int | None = None,
            **rest: Any,
        ) -> Any:
            if bisect and profile != "git":
                raise click.UsageError("--bisect is of --profile git")
            exits = Exits(profile=profile, bisect=bisect, warn_exit=warn_exit)
            return function(exits=exits, **rest)

        made = cast(F, run)
        if warn:
            made = click.option(
                "--warn-exit", type=click.IntRange(0, 100), help="Exit so on WARN [default: 0]."
            )(made)
        if bisect:
            made = click.option(
                "--bisect", is_flag=True, help="The tape is the bad run: reproducing it is bad."
            )(made)
        return click.option(
            "--profile",
            type=click.Choice(PROFILES),
            default="ci",
            show_default=True,
            help="Which exit codes (docs/reference/exit-codes.md).",
        )(made)

    return decorate


def packaged(function: F) -> F:
    """Add a ``packaging`` parameter: how a new tape keeps its payloads."""
    return click.option(
        "--packaging",
        type=click.Choice(["packed", "store"]),
        default="packed",
        show_default=True,
        help="`store` keeps blobs in a folder `blobs` beside the tape.",
    )(function)


def deciding(*, whose: str = "Your key", why: str = "Why") -> Callable[[F], F]:
    """Make a function of ``reason``, ``loaded`` (the configuration, with the person's key and
    project in it) and ``output`` a command by which a person decides something."""

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def decide(
            *,
            config: str | None,
            store: str | None,
            key: str | None,
            project: str | None,
            **rest: Any,
        ) -> None:
            from sidecar.app.loading import load_config  # here: others load no configuration

            loaded = load_config(config, store, client__key=key, client__project=project)
            function(loaded=loaded, **rest)

        told = f"{whose} [SIDECAR_CLIENT_KEY, client.key]."
        made = in_project(common()(cast(F, decide)))
        made = click.option("--key", default=None, help=told)(made)
        return click.option("--reason", required=True, help=f"{why}; kept in the audit chain.")(
            made
        )

    return decorate


def in_world(whose: str = "the twins") -> Callable[[F], F]:
    """Add a parameter ``state``: the folder that holds the world of twins, or None."""
    return click.option(
        "--state",
        type=click.Path(file_okay=False, exists=True, path_type=Path),
        default=None,
        help=f"World of {whose}: a folder of <entity>.json or .json.gz.",
    )


def in_project(function: F) -> F:
    """Add a ``project`` parameter: in which one a person acts whose key is for several."""
    told = "In which project, where your key is for several [default: its first]"
    return click.option(
        "--project", default=None, help=f"{told} [SIDECAR_CLIENT_PROJECT, client.project]."
    )(function)


def to_json(value: Any, *, indent: int | None = 2) -> str:
    """JSON text of a struct, list or dict; field ``class_`` is spelt ``class``."""
    built = msgspec.to_builtins(value, str_keys=True)
    return plain_json(json.dumps(built, indent=indent, ensure_ascii=False))


def emit(value: Any, output: str, text: Callable[[], str]) -> None:
    """Print a result: JSON of ``value``, JSON lines of a list, or what ``text`` renders."""
    if output == "json":
        say(to_json(value))
    elif output == "jsonl":
        for item in value:
            say(to_json(item, indent=None))
    elif shown := text():  # of nothing there is no line
        say(plain_lines(shown))


def say(text: str) -> bool:
    """Print a piece of the result; False when nobody reads any more."""
    try:
        click.echo(text)
    except BrokenPipeError:
        hush()
        return False
    except OSError as error:
        hush()
        raise SidecarError(
            f"the result cannot be written: {error.strerror}",
            where="standard output",
            do="Make room there, or send it elsewhere.",
        ) from None
    return True


def hush() -> None:
    """Write the rest of stdout to nowhere, so that nothing at exit tries to reach its reader."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def show_lines(lines: Sequence[tuple[str, str]]) -> bool:
    """Print lines, each with a style of ``rich`` that only a terminal shows; as ``say``."""
    lines = [(plain(text), style) for text, style in lines]
    if not sys.stdout.isatty():
        return say("\n".join(text for text, _ in lines))
    # Imported here: only a terminal pays for it.
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False, soft_wrap=True)
    for text, style in lines:
        console.print(Text(text, style=style))
    return True


def talk(message: str) -> None:
    """Say something to the person at the terminal, on stderr."""
    click.echo(plain_lines(message), err=True)


def on_terminal() -> bool:
    """Whether progress may be drawn: stderr is a terminal."""
    return sys.stderr.isatty()
