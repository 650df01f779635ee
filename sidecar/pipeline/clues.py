"""Which open traces to look at together: words that traces of one run share, as digests.

Rules
1. Whether two traces are one run the assembly alone decides; a clue only brings them together.
2. At intake only what is cheap: links, response ids, and spans without a parent, which are traces
   of their own where nothing but the model's client is instrumented; an agent's have no clue. What
   else there is, the assembly finds, and what it finds late is built twice.
3. A clue is stored as 16 bytes of SHA-256: names and ids in it are not redacted yet.
"""

import hashlib
from collections.abc import Iterable, Iterator

from processors.assemble.stitch import response_clue
from processors.assemble.trace import clues_of
from processors.model.span import Batch, Span
from processors.normalise.detect import normalise
from processors.value import first_name

_AGENTS = (("gen_ai.operation.name", "invoke_agent"), ("openinference.span.kind", "AGENT"))


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
    words.update(_responses(batch))
    roots = tuple([span for span in batch.spans if span.parent_span_id is None])
    if any(not _is_agent(span) for span in roots):
        try:
            words |= clues_of(normalise(Batch(spans=roots)))
        except Exception:  # noqa: S110 (whatever it is, the assembly meets it too and reports it)
            pass
    return digests(words)


def _is_agent(span: Span) -> bool:
    """Whether a span is an agent's by its plainest words; some are that do not say so here."""
    return any(span.attributes.get(key) == word for key, word in _AGENTS)


def _responses(batch: Batch) -> Iterator[str]:
    """The response ids that stand under the conventions' own key."""
    for span in batch.spans:
        response = span.attributes.get("gen_ai.response.id")
        if isinstance(response, str):
            service = first_name(span.resource, ("service.name",))
            yield response_clue(service, response.strip())
