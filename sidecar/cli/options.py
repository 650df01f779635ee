"""What every command shares: ``--config``, ``--store``, ``--output``, and how results are printed.

Rules
1. Results go to stdout and nothing else does; talk goes to stderr.
2. ``--output`` lists only what the command can print.
"""

import json
import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click
import msgspec

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


def to_json(value: Any, *, indent: int | None = 2) -> str:
    """JSON text of a struct, list or dict; field ``class_`` is spelt ``class``."""
    plain = msgspec.to_builtins(value, str_keys=True)
    return json.dumps(plain, indent=indent, ensure_ascii=False)


def emit(value: Any, output: str, text: Callable[[], str]) -> None:
    """Print a result: JSON of ``value``, JSON lines of a list, or what ``text`` renders."""
    if output == "json":
        click.echo(to_json(value))
    elif output == "jsonl":
        for item in value:
            click.echo(to_json(item, indent=None))
    else:
        click.echo(text())


def show_lines(lines: Sequence[tuple[str, str]]) -> None:
    """Print lines, each with a style of ``rich`` that only a terminal shows."""
    if not sys.stdout.isatty():
        click.echo("\n".join(text for text, _ in lines))
        return
    # Imported here: only a terminal pays for it.
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False, soft_wrap=True)
    for text, style in lines:
        console.print(Text(text, style=style))


def talk(message: str) -> None:
    """Say something to the person at the terminal, on stderr."""
    click.echo(message, err=True)


def on_terminal() -> bool:
    """Whether progress may be drawn: stderr is a terminal."""
    return sys.stderr.isatty()
