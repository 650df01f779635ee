"""Which open traces to look at together: words that traces of one run share, as digests.

Rules
1. Whether two traces are one run the assembly alone decides; a clue only brings them together.
2. At intake only what is cheap: links, and spans without a parent, which are traces of their own
   where nothing but the model's client is instrumented. What else there is, the assembly finds.
3. A clue is stored as 16 bytes of SHA-256: names and ids in it are not redacted yet.
"""

import hashlib
from collections.abc import Iterable

from processors.assemble.trace import clues_of
from processors.model.span import Batch
from processors.normalise.detect import normalise


def digests(words: Iterable[str]) -> tuple[bytes, ...]:
    """The words as they are stored, in order."""
    return tuple(
        sorted(
            hashlib.sha256(word.encode("utf-8", "surrogatepass")).digest()[:16] for word in words
        )
    )


def early(batch: Batch) -> tuple[bytes, ...]:
    """The clues that a piece of one trace gives at once."""
    words = {f"trace {span.trace_id}" for span in batch.spans}
    words.update(f"trace {link.trace_id}" for span in batch.spans for link in span.links)
    roots = tuple(span for span in batch.spans if span.parent_span_id is None)
    if roots:
        try:
            words |= clues_of(normalise(Batch(spans=roots)))
        except Exception:  # noqa: S110 (whatever it is, the assembly meets it too and reports it)
            pass
    return digests(words)
