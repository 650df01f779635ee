"""An exporter from its configuration: its wire, its pauses, what it wants.

Rules
1. Each exporter has connections of its own; what one of them waits for delays no other.
"""

import ssl
from pathlib import Path

from msgspec.structs import replace

from processors.value import duration_ns
from sidecar.egress.client import Egress
from sidecar.errors import SidecarError
from sidecar.export.batch import Wanted
from sidecar.export.config import Exporter, Otlp
from sidecar.export.driver import Lane
from sidecar.export.grpc import GrpcSender
from sidecar.export.http import HttpSender
from sidecar.export.retry import Pauses


def open_lane(exporter: Exporter, folder: Path, own_ports: frozenset[int]) -> Lane:
    """The exporter, ready to run; relative paths start at ``folder``.

    Raises SidecarError for a ca_file that cannot be used.
    """
    otlp = _with_paths(exporter.otlp, folder)
    egress = Egress(own_ports=own_ports, tls=_trusting(otlp.ca_file))
    sender = GrpcSender if otlp.protocol == "grpc" else HttpSender
    return Lane(
        name=exporter.title,
        wanted=Wanted(
            signals=frozenset(otlp.signals),
            projects=frozenset(otlp.projects),
            bytes_max=otlp.batch.bytes_max,
        ),
        pauses=Pauses(
            initial_ns=duration_ns(otlp.retry.initial), max_ns=duration_ns(otlp.retry.max)
        ),
        sender=sender(exporter.target, otlp, egress, timeout_ns=duration_ns(otlp.timeout)),
    )


def _with_paths(otlp: Otlp, folder: Path) -> Otlp:
    if otlp.ca_file:
        otlp = replace(otlp, ca_file=str(folder / otlp.ca_file))
    if otlp.credential is not None:
        file = str(folder / otlp.credential.file)
        otlp = replace(otlp, credential=replace(otlp.credential, file=file))
    return otlp


def _trusting(ca_file: str) -> ssl.SSLContext | None:
    if not ca_file:
        return None
    try:
        return ssl.create_default_context(cafile=ca_file)
    except (OSError, ssl.SSLError) as error:
        raise SidecarError(
            f"an exporter's ca_file cannot be used: {error}",
            where=ca_file,
            do="Name a file of PEM certificates in otlp.ca_file.",
        ) from None
