"""How the demo speaks: its talk is its result, so it goes to stdout; colours on a terminal only.

Rules
1. Plain text carries all of it: colour and weight repeat what words already say.
2. Text that comes from agents, policies or people is printed as it is, never as markup.
"""

import sys
from collections.abc import Callable, Iterable

from rich.console import Console
from rich.text import Text

from sidecar.demo.check import Act, Check

Print = Callable[[str, str], None]
_MARKS = {True: ("held", "green"), False: ("FAILED", "bold red"), None: ("waived", "yellow")}


def printer(*, terminal: bool) -> Print:
    """A function that prints a line in a style: rich on a terminal, plain text otherwise."""
    if not terminal:
        return lambda line, _style: print(line, flush=True)
    console = Console(file=sys.stdout, highlight=False, soft_wrap=True)
    return lambda line, style: console.print(Text(line, style=style))


class Telling:
    """Tells acts as they end."""

    def __init__(self, show: Print) -> None:
        self._show = show
        self._number = 0

    def opening(self, lines: Iterable[str]) -> None:
        """What is about to be shown."""
        for line in lines:
            self._show(line, "")
        self._show("", "")

    def begin(self, title: str) -> None:
        """Announce the next act."""
        self._number += 1
        self._show(f"{self._number}. {title}", "bold")

    def act(self, act: Act) -> None:
        """Tell an act that was announced: its story, then its facts."""
        for line in act.story:
            self._show(f"   {line}", "")
        for check in act.checks:
            self._check(check)
        self._show("", "")

    def closing(self, lines: Iterable[str], *, good: bool) -> None:
        """The end."""
        for line in lines:
            self._show(line, "" if good else "bold red")

    def _check(self, check: Check) -> None:
        word, style = _MARKS[check.held]
        detail = f": {check.detail}" if check.detail else ""
        self._show(f"   [{word}] {check.name}{detail}", style)
