"""``sidecar demo``: the closed loop on embedded defaults."""

import contextlib
import importlib.util
import signal
import sys
from pathlib import Path
from types import FrameType

import click

from processors.model.names import Capture
from sidecar.cli.options import talk
from sidecar.errors import SidecarError

_EXTRA = {
    "openai": "openai",
    "opentelemetry.exporter.otlp.proto.http": "opentelemetry-exporter-otlp-proto-http",
    "opentelemetry.instrumentation.genai.openai": "opentelemetry-instrumentation-genai-openai",
}
_STORE = "sqlite:///"


@click.command("demo")
@click.option("--keep", is_flag=True, help="Leave everything running afterwards, until Ctrl-C.")
@click.option(
    "--capture",
    type=click.Choice(["off", "redacted", "full"]),
    default="full",
    show_default=True,
    help="What the sidecar keeps of texts (key projects.content.capture).",
)
@click.option(
    "--candidate",
    type=click.Choice(["1.2.4", "1.3.0", "1.3.1"]),
    default=None,
    help="Judge this version only [default: 1.3.0, then 1.3.1].",
)
@click.option(
    "--policy",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=None,
    help="A policy bundle to use instead of the one that ships.",
)
@click.option(
    "--store",
    default=f"{_STORE}demo-data",
    show_default=True,
    help="The demo's own data folder; emptied first if the demo made it.",
)
def command(
    keep: bool, capture: Capture, candidate: str | None, policy: Path | None, store: str
) -> int:
    """Run the closed loop on embedded defaults, then exit.

    A support-refund agent works through the gateway; what it did is verified; its next version is
    judged. Every statement is checked: exit 0 only when all of it held. Writes demo.json.

    \b
    Example:
      $ sidecar demo --candidate 1.3.1
      ...
      Everything shown held.
    """
    _check_extra()
    if not store.startswith(_STORE):
        raise SidecarError(f"{store!r} is no data folder", do=f"Name one as {_STORE}FOLDER.")
    from sidecar.demo import closed_loop
    from sidecar.demo.stage import Options, Stage
    from sidecar.demo.telling import Telling, printer

    def hold(stage: Stage) -> None:
        talk(f"kept running: gateway {stage.url('gateway.listen')}")
        talk(f"control {stage.url('control.listen')}")
        talk(f"agent key {stage.keys.agent}\napprover key {stage.keys.approver}\nCtrl-C ends it")
        with contextlib.suppress(KeyboardInterrupt):
            signal.pause()

    options = Options(
        folder=Path(store.removeprefix(_STORE)),
        capture=capture,
        candidate=candidate or "",
        policy=policy,
        keep=keep,
    )
    signal.signal(signal.SIGTERM, _interrupt)
    telling = Telling(printer(terminal=sys.stdout.isatty()))
    return closed_loop.run(options, telling, record=Path(closed_loop.RECORD), hold=hold)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _check_extra() -> None:
    missing = [package for module, package in _EXTRA.items() if not _found(module)]
    if missing:
        raise SidecarError(
            f"the demo needs {', '.join(missing)}, not installed here",
            do="Install the extra: pip install 'agenttwin-sidecar[demo]'",
        )


def _found(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False
