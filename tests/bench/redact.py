"""Redaction of traces, microseconds of CPU a span: each capture, once anew and once with a memory.

``anew`` begins without a memory, so that each text of the payload is looked at for the first time;
``steady`` goes over the same texts again, as the next traces of the same agents do. The peer is
Python's ``re`` with the same detectors on the same texts, one pattern after the other, which is how
redaction processors in Python usually do it; it stops at matching, nothing is replaced.
"""

import gc
import itertools
import re
import resource
import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent)]
import _payloads as payloads  # noqa: E402

from processors.redact.detectors import DETECTORS, matching  # noqa: E402
from processors.redact.rules import keeping, redact  # noqa: E402
from processors.redact.terms import KINDS, RedactionKey, Terms  # noqa: E402
from sidecar.otlp.decode import decode  # noqa: E402
from sidecar.pipeline.build import build  # noqa: E402
from sidecar.pipeline.split import split  # noqa: E402

ROUNDS = 3
PEER_SPANS = 512
KEY = RedactionKey(key_id="abcdefgh", secret=bytes(32))
TERMS = {
    "off": Terms(capture="off"),
    "redacted": Terms(capture="redacted"),
    "tokenised": Terms(capture="redacted", actions=dict.fromkeys(KINDS, "tokenise"), key=KEY),
}


def cpu():
    """User and system seconds of this process so far."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def traces_of(requests):
    """(spans, traces) of requests."""
    spans, traces = 0, []
    for request in requests:
        batch = decode("traces", "protobuf", request.SerializeToString())
        spans += len(batch.spans)
        for piece in split(batch).values():
            traces += build(piece, project="bench", now_ns=1)
    return spans, traces


def timed(traces, terms, keep):
    """Seconds for all traces with one memory."""
    before = cpu()
    for trace in traces:
        redact(trace, terms, keep)
    return cpu() - before


def texts_in(value):
    """Every text of a value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from itertools.chain.from_iterable(map(texts_in, value.values()))
    elif isinstance(value, list | tuple):
        yield from itertools.chain.from_iterable(map(texts_in, value))
    elif hasattr(value, "__struct_fields__"):
        for name in value.__struct_fields__:
            yield from texts_in(getattr(value, name))


def peer():
    """The same patterns for ``re``."""

    def translated(pattern):
        plain = pattern.replace(r"\pL\pN", r"\w").replace(r"\z", r"\Z")
        return plain.replace(r"(?s:.*?)", r"[\s\S]*?")

    return [re.compile(translated(detector.pattern)) for detector in DETECTORS]


def main():
    """Print a line for each payload and capture, and one for the peer."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000)
    for name, requests in (
        ("small", [payloads.small(seed) for seed in range(8)]),
        ("captured", payloads.captured()),
    ):
        if not requests:
            print(f"{name:9} skipped: needs ../shared corpora")
            continue
        spans, traces = traces_of(requests)
        for capture, terms in TERMS.items():
            anew, steady = [], []
            for _ in range(ROUNDS):
                keep = keeping(terms)
                anew.append(timed(traces, terms, keep) / spans * 1e6)
                steady.append(timed(traces, terms, keep) / spans * 1e6)
            print(
                f"{name:9} {capture:9} anew {min(anew):6.1f} µs a span,"
                f" steady {min(steady):6.1f} ({spans:,} spans)",
                flush=True,
            )
        compare(name, traces)


def compare(name, traces):
    """Matching alone: RE2's set against ``re``, every text of some traces, no memory."""
    steps, texts = 0, []
    for trace in traces:
        steps += len(trace.steps)
        texts += [text for text in texts_in(trace.steps) if len(text) >= 6]
        if steps >= PEER_SPANS:
            break
    patterns = peer()
    before = cpu()
    for text in texts:
        matching(text)
    ours, before = cpu() - before, cpu()
    for text in texts:
        for pattern in patterns:
            pattern.search(text)
    theirs = cpu() - before
    print(
        f"{name:9} matching  RE2 set {ours / steps * 1e6:6.1f} µs a step, Python re"
        f" {theirs / steps * 1e6:6.1f} ({theirs / ours:.0f}x; {len(texts):,} texts)",
        flush=True,
    )


if __name__ == "__main__":
    main()
