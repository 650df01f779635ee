"""What the SDK does with an agent's own OpenTelemetry, where the agent has it: claims onto the
current span, and spans redacted before any exporter sees them.

**Rules**
1. OpenTelemetry is never imported here: it is used where the agent has imported it already.
2. Nothing here fails an agent. A span that cannot be looked at is not exported, and counted.
"""

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from sidecar.capture.seams.session import active
from sidecar.sdk.claims import EVENT, Attributes
from sidecar.sdk.redact import DEFAULT, Redactor, redact, redact_attributes


def tell(said: Attributes) -> bool:
    """Put a claim (``claims.claim``) onto the agent's current span, as an event of it.

    A tape that is being recorded has its status in the terminal event. False where there was no
    span that records.
    """
    session = active()
    if session is not None:
        before = session.output.get("claimed") or []
        session.output["claimed"] = sorted({*before, str(said[f"{EVENT}.status"])})
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None:
        return False
    span = trace.get_current_span()
    if not span.is_recording():
        return False
    span.add_event(EVENT, attributes=said)
    return True


class RedactingExporter:
    """A span exporter around another one: what it is handed has been redacted.

    ``refused`` counts spans that could not be looked at and were not exported.
    """

    def __init__(self, exporter: Any, redactor: Redactor = DEFAULT) -> None:
        self._exporter, self._redactor = exporter, redactor
        self.refused = 0

    def export(self, spans: Sequence[Any]) -> Any:
        """Redact and hand on; the result is the other exporter's."""
        kept: list[Any] = []
        for span in spans:
            try:
                kept.append(_Redacted(span, self._redactor))
            except Exception:
                self.refused += 1
        return self._exporter.export(kept)

    def shutdown(self) -> None:
        """As the other exporter."""
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """As the other exporter."""
        return bool(self._exporter.force_flush(timeout_millis))


class _View:
    """Something of OpenTelemetry's with a few of its attributes replaced."""

    def __init__(self, inner: Any, **replaced: Any) -> None:
        self._inner = inner
        self.__dict__.update(replaced)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class _Redacted(_View):
    """A finished span without what must not leave: names, attributes, events, links, status."""

    def __init__(self, span: Any, redactor: Redactor) -> None:
        def attributes(of: Any) -> dict[str, Any]:
            said: Mapping[str, Any] = of.attributes or {}
            return redact_attributes(said, redactor)

        status = span.status
        if status is not None and status.description:
            status = _View(status, description=redact(status.description, redactor))
        super().__init__(
            span,
            name=redact(span.name, redactor),
            attributes=attributes(span),
            events=tuple(
                _View(one, name=redact(one.name, redactor), attributes=attributes(one))
                for one in span.events
            ),
            links=tuple(_View(one, attributes=attributes(one)) for one in span.links),
            status=status,
        )
