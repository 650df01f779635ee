"""The pipeline beside the OpenTelemetry Collector, in spans per CPU second of the process.

Ours: sealed journal to published traces (``pipeline.py``): decode, normalise, assemble, judge,
redact, store. The Collector: OTLP/gRPC in, the transform processor renaming the attributes of three
dialects to their GenAI names (``transform.yaml``), then nop, or a zstd file in place of a store. It
makes no trace, judges nothing and redacts nothing; the comparison says what that costs. By turns in
the same run, medians of three.
"""

import argparse
import asyncio
import multiprocessing
import statistics
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent)]
import _payloads as payloads  # noqa: E402
import _peers as peers  # noqa: E402
import pipeline  # noqa: E402
import receive  # noqa: E402

CONFIG = (Path(__file__).parent / "transform.yaml").read_text()
EXPORTERS = ("nop", "file")
ROUNDS = 3
SECONDS = 1.5


@contextmanager
def collectors(folder):
    """The Collector with each exporter, by name; empty where it was not built."""
    running = {}
    try:
        for exporter in EXPORTERS:
            place = folder / exporter
            place.mkdir()
            server = peers.collector(place, CONFIG.replace("EXPORTER", exporter))
            if server is not None:
                running[f"Collector -> {exporter}"] = server
        yield running
    finally:
        for server in running.values():
            server.stop()


def ours(requests, capture):
    """Spans per CPU second of the pipeline, in a process that nothing has run in before."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        spans, spent, _, _ = pool.apply(pipeline.measure, (requests, capture))
    return spans / spent


def theirs(server, requests):
    """The Collector's."""
    bodies = [request.SerializeToString() for request in requests]
    mean = sum(map(payloads.spans, requests)) / len(requests)
    before = server.cpu()
    sent = asyncio.run(receive.over_grpc(server.ports["grpc"], bodies, SECONDS))
    time.sleep(peers.SETTLE_SECONDS)
    return sent * mean / (server.cpu() - before)


def sets(count):
    """Requests by name, as ``pipeline.py`` has them."""
    real = payloads.captured()
    numbers = range(count)
    return {
        "small spans": [payloads.small(seed) for seed in numbers],
        "captured spans": [payloads.renumbered(real[n % len(real)], n + 1) for n in numbers]
        if real
        else [],
    }


def main():
    """Print a table for each payload."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--requests", type=int, default=20)
    parser.add_argument("--capture", default="off")
    options, _ = parser.parse_known_args()
    with (
        tempfile.TemporaryDirectory(dir=".") as folder,
        collectors(Path(folder)) as running,
    ):
        if not running:
            print("the Collector is not built (make collector): ours alone")
        for name, requests in sets(options.requests).items():
            if not requests:
                print(f"{name:15} skipped: needs ../shared corpora")
                continue
            seen = {"ours": [], **{peer: [] for peer in running}}
            for _ in range(ROUNDS):
                seen["ours"].append(ours(requests, options.capture))
                for peer, server in running.items():
                    seen[peer].append(theirs(server, requests))
            own = statistics.median(seen.pop("ours"))
            print(f"{name:15} {own:9,.0f} spans/CPU-s, journal to published traces")
            for peer, rates in seen.items():
                rate = statistics.median(rates)
                print(f"    {peer:19} {rate:9,.0f}; ratio {own / rate:.2f}", flush=True)


if __name__ == "__main__":
    main()
