"""The demo's stage: the shop, the model and a real ``sidecar serve``, each a process, ready to use.

Rules
1. The sidecar is the shipped one, started as a user would start it, from a configuration file that
   stays behind for them to read.
2. Ports are free ones of this machine, all on loopback; keys are those of ``--dev``.
3. The data folder is the demo's own: one that holds anything else is refused, never emptied.
"""

import os
import shutil
import string
from collections.abc import Mapping
from importlib import resources
from pathlib import Path

from msgspec import Struct, json

from processors.model.names import Capture
from sidecar.app import serving
from sidecar.app.loading import load_config
from sidecar.config import Loaded
from sidecar.demo.processes import Family, Service, python
from sidecar.demo.shop import Order
from sidecar.demo.wire import send
from sidecar.errors import SidecarError

MARKER = ".made-by-sidecar-demo"
_ASSETS = ("twin.yaml", "suite.yaml", "regression.yaml", "issue_refund.json")
_READY_SECONDS = 60.0
_LISTENING = r"^listening (\S+)$"


class Options(Struct, frozen=True, kw_only=True):
    """What the command line asked for; an empty ``candidate`` means the whole story."""

    folder: Path
    capture: Capture = "full"
    candidate: str = ""
    policy: Path | None = None
    keep: bool = False


class Keys(Struct, frozen=True, kw_only=True):
    """Credentials of this run."""

    agent: str
    approver: str


class Stage(Struct, frozen=True, kw_only=True):
    """Where everything is, and the family that all children belong to."""

    options: Options
    files: Path
    loaded: Loaded
    addresses: dict[str, str]
    model_url: str
    shop_url: str
    keys: Keys
    family: Family

    def url(self, listener: str) -> str:
        """The base URL of a listener, such as ``gateway.listen``."""
        return f"http://{self.addresses[listener]}"

    @property
    def config_file(self) -> Path:
        """The sidecar's configuration."""
        return self.files / "sidecar.yaml"

    @property
    def shop_database(self) -> Path:
        """The commerce service's own SQLite file."""
        return self.files / "shop.db"

    @property
    def store_url(self) -> str:
        """The store, as ``--store`` takes it."""
        return f"sqlite:///{self.options.folder}"

    def place(self, order: Order) -> None:
        """Put an order into the shop, over its own counter."""
        url = f"{self.shop_url}/desk/orders/{order.order_id}"
        answer = send("PUT", url, key="", body=json.encode(order))
        if answer.status != 201:
            raise SidecarError(f"the demo's shop took no order: {answer.value}")

    def run(
        self,
        name: str,
        command: list[str],
        *,
        stdin: bytes = b"",
        environment: Mapping[str, str] | None = None,
    ) -> Service:
        """Start a child of the demo, in a clean environment plus ``environment``."""
        return self.family.start(
            name,
            command,
            log=self.files / f"{name}.log",
            environment={**clean_environment(), **(environment or {})},
            stdin=stdin,
        )


def set_up(options: Options, family: Family) -> Stage:
    """Start everything and wait until it serves. Raises SidecarError."""
    files = _own_folder(options.folder)
    environment = clean_environment()
    services = {
        "model": python("sidecar.demo.model_server"),
        "shop": python("sidecar.demo.commerce", "--database", str(files / "shop.db")),
    }
    started = {
        name: family.start(name, command, log=files / f"{name}.log", environment=environment)
        for name, command in services.items()
    }
    urls = {name: service.wait_for(_LISTENING)[1] for name, service in started.items()}
    config = _configure(options, files, urls["shop"])
    serving = _serve(files, family)
    return Stage(
        options=options,
        files=files,
        loaded=load_config(str(config), None),
        addresses=serving.addresses,
        model_url=f"{urls['model']}/v1",
        shop_url=urls["shop"],
        keys=Keys(**serving.keys),
        family=family,
    )


def clean_environment() -> dict[str, str]:
    """The caller's environment without what would configure a sidecar, an SDK or a proxy."""
    prefixes = ("SIDECAR_", "OTEL_", "OPENAI_", "TRACEPARENT", "BAGGAGE")
    return {name: value for name, value in os.environ.items() if not name.startswith(prefixes)}


def _own_folder(folder: Path) -> Path:
    """An empty folder for this run's data. Raises SidecarError for a folder of somebody else."""
    files = folder / "demo"
    try:
        if folder.exists() and any(folder.iterdir()):
            if not (folder / MARKER).is_file():
                raise SidecarError(
                    "the demo's data folder holds something the demo did not make",
                    where=str(folder),
                    do="Name another one with --store sqlite:///FOLDER.",
                )
            shutil.rmtree(folder)
        files.mkdir(parents=True)
        (folder / MARKER).touch()
        for name in _ASSETS:
            source = resources.files("sidecar.demo") / "assets" / name
            (files / name).write_bytes(source.read_bytes())
    except OSError as error:
        raise SidecarError(
            f"the demo's data folder cannot be used: {error.strerror}",
            where=str(folder),
            do="Make it writable, or name another one with --store sqlite:///FOLDER.",
        ) from None
    return files


def _configure(options: Options, files: Path, shop_url: str) -> Path:
    template = (resources.files("sidecar.demo") / "assets" / "sidecar.yaml").read_text("utf-8")
    policy = str(options.policy.resolve()) if options.policy else ""
    text = string.Template(template).substitute(
        store=options.folder.resolve(),
        capture=options.capture,
        commerce=shop_url,
        policy=policy,
    )
    path = files / "sidecar.yaml"
    path.write_text(text, "utf-8")
    return path


def _serve(files: Path, family: Family) -> serving.Serving:
    """Start the sidecar; the line it prints once everything listens."""
    config = str(files / "sidecar.yaml")
    words = python("sidecar", "serve", "--dev", "--config", config, "--output", "json")
    log = files / "sidecar.log"
    service = family.start("sidecar", words, log=log, environment=clean_environment())
    line = service.wait_for(r"^\{.*\}$", seconds=_READY_SECONDS)
    return json.decode(line[0].encode(), type=serving.Serving)
