"""``sidecar twin serve``: twins as services of their own, for any agent and any language.

Rules
1. It serves until SIGTERM or SIGINT and then exits 0; open episodes are taken back.
2. With ``--output json`` one line on stdout tells everything once it listens.
"""

import json
from collections.abc import Callable
from pathlib import Path

import click
import msgspec

from processors.value import duration_ns
from sidecar.app import twinning
from sidecar.cli.options import common, say, talk
from sidecar.config import is_loopback
from sidecar.errors import SidecarError
from sidecar.listen.address import split_address
from sidecar.telemetry import configure_logging

_PATH = click.Path(path_type=Path)


@click.command("serve")
@click.argument("twins", nargs=-1, required=True, type=_PATH, metavar="TWIN...")
@click.option("--state", type=_PATH, default=None, help="Folder of rows, or of snapshots.")
@click.option("--listen", default="127.0.0.1:4330", show_default=True, help="Address; :0 is free.")
@click.option(
    "--key-file",
    type=_PATH,
    default=None,
    help="Of the operator's control key; made when it is not there [default: told once].",
)
@click.option("--mcp", is_flag=True, help="Serve all tools as one MCP server too, at /mcp.")
@click.option(
    "--silence",
    default="30s",
    show_default=True,
    help="How long a call that a fault leaves unanswered is held.",
)
@common()
def serve(
    twins: tuple[Path, ...],
    state: Path | None,
    listen: str,
    key_file: Path | None,
    mcp: bool,
    silence: str,
    config: str | None,  # noqa: ARG001
    store: str | None,  # noqa: ARG001
    output: str,
) -> None:
    """Serve twins over HTTP and MCP until SIGTERM, for any agent; an operator leads the episodes.

    Agents call tools at /<upstream>/<path>, and with --mcp at /mcp; episodes are at /v1/episodes.

    An agent's call names its episode by a token, which sidecar twin episode open gives. Code that a
    twin names is loaded and runs. Nothing is kept: a server that starts again has no episodes.

    \b
    Example:
      $ sidecar twin serve shop.yaml --key-file twin.key
      shop         http://127.0.0.1:4330/shop
      episodes     http://127.0.0.1:4330/v1/episodes
      ready
    """
    configure_logging()
    asked = twinning.Asked(
        twins=twins,
        listen=_address(listen),
        state=state,
        key_file=key_file,
        silence_seconds=_seconds(silence),
        mcp=mcp,
    )
    left = twinning.serve_twins(asked, _reporter(output))
    if left:
        talk(f"{left} open episode{'s were' if left > 1 else ' was'} taken back")


def _reporter(output: str) -> Callable[[twinning.Serving], None]:
    def ready(serving: twinning.Serving) -> None:
        if output == "json":
            say(json.dumps(msgspec.to_builtins(serving)))
        for why in serving.state.get("stale", ()):
            talk(f"stale: {why}")
        if not is_loopback(serving.address.removeprefix("http://")):
            talk("it listens beyond this machine, in clear: whoever reads a token can use it")
        for name, url in serving.upstreams.items():
            talk(f"{name:<12} {url}")
        if serving.mcp:
            talk(f"{'mcp':<12} {serving.mcp}")
        talk(f"{'episodes':<12} {serving.address}/v1/episodes")
        if serving.control_key and output != "json":
            talk(f"{'control key':<12} {serving.control_key}")
        talk("ready")

    return ready


def _address(text: str) -> str:
    try:
        split_address(text)
    except ValueError as error:
        raise SidecarError(str(error), where="--listen") from None
    return text


def _seconds(text: str) -> float:
    try:
        return duration_ns(text) / 1e9
    except ValueError as error:
        raise SidecarError(str(error), where="--silence") from None
