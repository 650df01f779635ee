"""Captures: files of OTLP requests, ``NNNN.{traces,logs}.{binpb,json}``, or one of them."""

import re
from collections.abc import Iterable
from pathlib import Path

from processors.model.span import Batch
from sidecar.errors import SidecarError
from sidecar.otlp.decode import Signal, Undecodable, decode

_REQUEST = re.compile(r"(\d+)\.(traces|logs)\.(binpb|json)")


class BadCapture(SidecarError):
    """A capture that cannot be read: which, and why."""


def requests_of(path: Path) -> Iterable[Path]:
    """The files of a capture, in order. Raises BadCapture."""
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise BadCapture("no such file or folder", where=str(path), do="Give a capture's path.")
    stems: dict[str, Path] = {}
    for file in sorted(path.iterdir(), key=lambda file: file.name, reverse=True):
        match = _REQUEST.fullmatch(file.name)
        if match:  # .json comes before .binpb in this order, so that the latter wins
            stems[f"{match[1]}.{match[2]}"] = file
    if not stems:
        raise BadCapture(
            "no OTLP request", where=str(path), do="Name them NNNN.traces.binpb or NNNN.logs.json."
        )
    return [stems[stem] for stem in sorted(stems)]


def decoded(file: Path) -> Batch:
    """What one request holds. Raises BadCapture."""
    signal: Signal = "logs" if ".logs." in file.name else "traces"
    try:
        payload = file.read_bytes()
        return decode(signal, "json" if file.suffix == ".json" else "protobuf", payload)
    except (OSError, Undecodable) as error:
        raise BadCapture(str(error), where=str(file), do="Capture it again.") from error
