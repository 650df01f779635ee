"""``sidecar serve``: the whole sidecar."""

import json
from collections.abc import Callable

import click
import msgspec

from sidecar.app import serving
from sidecar.app.loading import load_config
from sidecar.cli.options import common, say, talk
from sidecar.telemetry import configure_logging


@click.command("serve")
@click.option(
    "--dev",
    is_flag=True,
    help="Loopback only: make a seal key, an agent key and an approver key, and print them.",
)
@common()
def command(dev: bool, config: str | None, store: str | None, output: str) -> None:
    """Run receivers, pipeline, gateway and control until SIGTERM.

    With --output json one line on stdout tells addresses (and --dev keys) once all listens.

    \b
    Example:
      $ sidecar serve --dev
      DEV LOGIN IS ON: …
      receive.grpc    127.0.0.1:4317
      …
      ready
    """
    configure_logging()
    loaded = load_config(config, store, thorough=True)
    serving.run_server(loaded, dev=dev, ready=_reporter(output))


def _reporter(output: str) -> Callable[[serving.Serving], None]:
    def ready(serving: serving.Serving) -> None:
        if output == "json":
            say(json.dumps(msgspec.to_builtins(serving)))
        if serving.keys:
            talk("DEV LOGIN IS ON: these keys work while this store is served with --dev")
        for name, address in serving.addresses.items():
            talk(f"{name:<15} {address}")
        for kind, key in serving.keys.items() if output != "json" else ():
            talk(f"{kind + ' key':<15} {key}")
        talk(f"{'data':<15} {serving.data_folder}")
        talk("ready")

    return ready
