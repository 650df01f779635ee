"""Two hundred hostile requests to a real sidecar: right answers, bounded memory, nobody harmed."""

import asyncio
import contextlib
import io
import json
import socket
import sys
import time
from pathlib import Path

import aiohttp
import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

sys.path.insert(0, str(Path(__file__).parent))
from hostile_table import OK, STATUSES, Row, attribute, group, ids, rows, text
from kill_rounds import _descendants
from sidecar_process import SidecarProcess

from sidecar.otlp.wire import field
from sidecar.store.sqlite.traces import SqliteTraces

SERVICES = {
    "traces": "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
    "logs": "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
    "metrics": "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
}
MEMORY_MAX = 512 << 20
TABLE = list(rows())


@pytest.fixture
def sidecar(tmp_path):
    made = SidecarProcess(tmp_path)
    made.keys = {"agent": made.key(), "reader": made.key("reader")}
    made.start()
    yield made
    made.stop()


def trace_of(number):
    """The trace id of a row."""
    return (0xBAD << 64 | number + 1).to_bytes(16, "big")


def headers(sidecar, row):
    key = sidecar.keys.get(row.key, row.key)
    return {"authorization": f"Bearer {key}"} if key else {}


async def over_http(sidecar, row, trace, session):
    """(status, rejected)."""
    sent = headers(sidecar, row)
    if row.type_ is not None:
        sent["content-type"] = row.type_
    if row.coding:
        sent["content-encoding"] = row.coding
    address = sidecar.addresses["receive.http"]
    url = f"http://{address}{row.path or '/v1/' + row.signal}"
    body = row.body(trace)
    skip = ("Content-Type",) if row.type_ is None else ()
    try:
        async with session.request(
            row.method, url, data=io.BytesIO(body), headers=sent, skip_auto_headers=skip
        ) as answer:
            return answer.status, rejected(row, await answer.read(), row.type_)
    except aiohttp.ClientOSError:
        # The refusal may meet what is still being sent; then nobody reads it.
        return (413 if len(body) > 20 << 20 else None), 0


def rejected(row, body, type_):
    """The count in partial_success."""
    if not body or row.answer != OK or row.signal == "metrics":
        return 0
    if type_ and "json" in type_:
        partial = json.loads(body).get("partialSuccess", {})
        return int(partial.get("rejectedSpans", 0))
    if row.signal == "logs":
        partial = ExportLogsServiceResponse.FromString(body).partial_success
        return partial.rejected_log_records
    return ExportTraceServiceResponse.FromString(body).partial_success.rejected_spans


async def over_grpc(sidecar, row, trace, channel):
    """(code's name, rejected)."""
    call = channel.unary_unary(row.path or SERVICES[row.signal])
    try:
        body = await call(
            row.body(trace), metadata=tuple(headers(sidecar, row).items()), timeout=60
        )
        return OK, rejected(row, body, None)
    except grpc.aio.AioRpcError as error:
        return error.code().name, 0


def over_nothing(sidecar, row):
    """Bytes on a bare connection; whatever comes back is read and forgotten."""
    wire, raw = row.raw
    host, _, port = sidecar.addresses[f"receive.{wire}"].rpartition(":")
    with socket.create_connection((host, int(port)), timeout=5) as connection:
        connection.settimeout(0.2)
        with contextlib.suppress(OSError):
            connection.sendall(raw)
            while connection.recv(65536):
                pass


async def all_answers(sidecar):
    """What was answered otherwise than it should have been."""
    wrong = []
    options = [("grpc.max_send_message_length", -1)]
    timeout = aiohttp.ClientTimeout(total=60)
    async with (
        grpc.aio.insecure_channel(sidecar.addresses["receive.grpc"], options=options) as channel,
        aiohttp.ClientSession(timeout=timeout) as session,
    ):
        for number, row in enumerate(TABLE):
            trace = trace_of(number)
            if row.raw:
                await asyncio.to_thread(over_nothing, sidecar, row)
                continue
            for wire in row.wires:
                if wire == "http":
                    found = await over_http(sidecar, row, trace, session)
                    want = row.http or STATUSES[row.answer], row.rejected
                else:
                    found = await over_grpc(sidecar, row, trace, channel)
                    want = row.answer, row.rejected
                if found != want:
                    wrong.append((row.name, wire, found, want))
            await healthy(channel)
    return wrong


async def healthy(channel):
    stub = health_pb2_grpc.HealthStub(channel)
    answer = await stub.Check(health_pb2.HealthCheckRequest(), timeout=20)
    assert answer.status == health_pb2.HealthCheckResponse.SERVING


def peaks(sidecar):
    """The highest resident bytes of each process of the tree so far."""
    found = {}
    for pid in (sidecar.process.pid, *_descendants(sidecar.process.pid)):
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{pid}/status").read_text().splitlines():
                if line.startswith("VmHWM"):
                    found[pid] = int(line.split()[1]) << 10
    return found


def missing(traces):
    """Rows whose neighbours, or whose own span, are not in the store."""
    absent = []
    for number, row in enumerate(TABLE):
        if row.answer != OK or not row.neighbours:
            continue
        trace = traces.get_trace(trace_of(number).hex())
        found = {s.span_id for step in trace.steps for s in step.sources} if trace else set()
        want = {f"{n:016x}" for n in ((1, 2, 3) if row.kept else (1, 3))}
        if not want <= found:
            absent.append((row.name, sorted(want - found)))
    return absent


async def at_once(sidecar, count):
    """Answers to as many large bodies at the same time, on each wire."""
    spans = [
        ids(b"m" * 16, n + 1) + field(9, attribute(b"k", text(b"v" * 400_000))) for n in range(45)
    ]
    body = group(*spans)
    row = Row(name="large", body=lambda _: body)
    options = [("grpc.max_send_message_length", -1)]
    async with (
        grpc.aio.insecure_channel(sidecar.addresses["receive.grpc"], options=options) as channel,
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=60)) as session,
    ):
        over = [over_http(sidecar, row, b"", session) for _ in range(count)]
        by_http = await asyncio.gather(*over)
        over = [over_grpc(sidecar, row, b"", channel) for _ in range(count)]
        return {status for status, _ in by_http}, {code for code, _ in await asyncio.gather(*over)}


@pytest.mark.requirement("REC-03")
def test_many_large_bodies_at_once_take_no_more_memory_than_there_is_room(sidecar):
    statuses, codes = asyncio.run(at_once(sidecar, 20))
    assert 200 in statuses and statuses <= {200, 429}
    assert OK in codes and codes <= {OK, "RESOURCE_EXHAUSTED"}
    assert max(peaks(sidecar).values()) < MEMORY_MAX, peaks(sidecar)


@pytest.mark.requirement("REC-03")
@pytest.mark.requirement("REC-04")
def test_two_hundred_hostile_requests_harm_nobody(sidecar):
    assert len(TABLE) >= 200
    assert asyncio.run(all_answers(sidecar)) == []
    traces = SqliteTraces(sidecar.folder / "data" / "traces.db")
    deadline = time.monotonic() + 240  # the pipeline gives way to whatever else runs
    absent = missing(traces)
    while absent and time.monotonic() < deadline:
        time.sleep(0.5)
        absent = missing(traces)
    traces.close()
    assert absent == []
    high = peaks(sidecar)
    assert sidecar.process.pid in high and len(high) >= 3
    assert max(high.values()) < MEMORY_MAX, high
    assert sidecar.stop() == 0
    assert "Traceback" not in sidecar.errors()
