"""What the receivers count, the same for each wire.

Rules
1. Every request is counted once, by transport, signal and answer.
2. An item that is not kept is counted by its reason, in the stage ``receive``.
"""

from functools import cache
from typing import Literal

from prometheus_client import Counter

from sidecar.otlp.check import Checked
from sidecar.receive.status import Refused
from sidecar.store.journal import Signal
from sidecar.telemetry import DROPPED, RECEIVED_ITEMS, RECEIVED_REQUESTS

Transport = Literal["grpc", "http"]


def count_accepted(transport: Transport, signal: Signal, checked: Checked) -> None:
    """Count a request that was acknowledged."""
    requests, items = _accepted(transport, signal)
    requests.inc()
    items.inc(checked.accepted)
    if checked.rejected:
        DROPPED.labels("receive", "unusable_item").inc(checked.rejected)


def count_refusal(transport: Transport, signal: Signal | None, refusal: Refused) -> None:
    """Count a request that was refused, under its reason."""
    RECEIVED_REQUESTS.labels(transport, signal or "none", refusal.reason).inc()


@cache
def _accepted(transport: Transport, signal: Signal) -> tuple[Counter, Counter]:
    """The counters of what is acknowledged: to find them costs more than to count."""
    return RECEIVED_REQUESTS.labels(transport, signal, "ok"), RECEIVED_ITEMS.labels(signal)
