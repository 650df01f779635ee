"""What of telemetry is sent on to exporters, while the pipeline works on it.

Rules
1. Pure: what leaves follows from the parts, the conclusion and what has left before.
2. What has passed this sidecar already is no news: it is neither kept nor sent on again.
3. A project's keeping is made once; what repeats from trace to trace is looked at once.
"""

import hashlib
from collections.abc import Sequence

from msgspec.structs import replace

from processors.model.span import Batch
from sidecar.export.metrics import Passing, passing
from sidecar.export.outgoing import Judged, Mark, Sending, came_back, sending
from sidecar.pipeline.batch import Concluded, Rules
from sidecar.store.journal import JournalEntry


class Leaving:
    """Builds what exporters are to send. One a pipeline; only where there are exporters.

    ``sidecar_id`` marks what has passed here; ``secret`` keys the digests in masked metrics.
    """

    def __init__(self, rules: Rules, *, sidecar_id: str, secret: bytes) -> None:
        self._rules = rules
        self._sidecar_id = sidecar_id
        self._secret = secret
        self._marks: dict[str, Mark] = {}

    def metrics(self, entry: JournalEntry) -> Passing:
        """A metrics request as it is passed on. Raises Undecodable."""
        key = hashlib.blake2b(entry.project.encode(), key=self._secret).digest()
        return passing(entry, self._mark(entry.project), key)

    def strangers(self, batch: Batch) -> tuple[Batch, int]:
        """The batch without what has passed this sidecar before, and how many items that were."""
        resources = {id(span.resource): span.resource for span in batch.spans}
        resources.update((id(record.resource), record.resource) for record in batch.logs)
        back = {place: came_back(it, self._sidecar_id) for place, it in resources.items()}
        if not any(back.values()):
            return batch, 0
        spans = tuple(span for span in batch.spans if not back[id(span.resource)])
        logs = tuple(record for record in batch.logs if not back[id(record.resource)])
        looped = len(batch.spans) + len(batch.logs) - len(spans) - len(logs)
        return replace(batch, spans=spans, logs=logs), looped

    def sending(
        self, project: str, batch: Batch, concluded: Sequence[Concluded], sent: bytes, now_ns: int
    ) -> Sending:
        """What of an open trace has not left yet, with what was concluded of it."""
        judged = [Judged(trace=item.trace, digest=item.digests.content) for item in concluded]
        return sending(batch, judged, sent, self._mark(project), now_ns=now_ns)

    def _mark(self, project: str) -> Mark:
        keep = self._rules.keep(project)
        found = self._marks.get(project)
        if found is None or found.keep is not keep:
            found = Mark(project=project, sidecar_id=self._sidecar_id, keep=keep)
            self._marks[project] = found
        return found
