"""The decision log as configured: where it is written, and what of a decision is told."""

import hashlib
import hmac
from typing import Literal

from sidecar.config import Loaded
from sidecar.gateway.decisions.event import Hiding
from sidecar.gateway.decisions.files import DecisionFile


def open_decisions(loaded: Loaded, master: bytes) -> DecisionFile | None:
    """The decision log, None where it is off. Its digests are keyed by the seal key."""
    config = loaded.config
    said = config.audit.decisions
    if not said.file:
        return None

    def captures(project: str) -> Literal["off", "redacted", "full"]:
        return config.project(project).content.capture

    secret = hmac.new(master, b"decision log/1", hashlib.sha256).digest()
    hiding = Hiding(rules=said.hide, captures=captures, secret=secret)
    return DecisionFile(loaded.path(said.file), hiding, dict(said.labels))
