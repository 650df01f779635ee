"""The certificates of listeners."""

from msgspec.structs import replace

from sidecar import clock
from sidecar.config import Loaded
from sidecar.errors import SidecarError
from sidecar.listen.config import Tls
from sidecar.listen.files import Certificate
from sidecar.telemetry import log


def open_certificate(loaded: Loaded, key: str, tls: Tls) -> Certificate | None:
    """The certificate of a listener; None where it speaks in clear. Raises SidecarError."""
    if not tls.on:
        return None

    def path(file: str) -> str:
        return str(loaded.path(file)) if file else ""

    def tell(what: str, error: SidecarError | None) -> None:
        say = log("listen").info if error is None else log("listen").error
        say(what, listener=key, **({} if error is None else {"why": error}))

    files = replace(
        tls,
        cert_file=path(tls.cert_file),
        key_file=path(tls.key_file),
        client_ca_file=path(tls.client_ca_file),
    )
    where = f"configuration key {key}"
    return Certificate(files, where=where, now_s=lambda: clock.now_ns() / 1e9, tell=tell)
