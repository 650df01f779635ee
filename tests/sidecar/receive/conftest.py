"""A receiver of each wire over a real journal and real keys, in a folder of its own."""

import hashlib
from contextlib import asynccontextmanager

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from sidecar import clock
from sidecar.identity.keys import authenticate, mint
from sidecar.receive.config import Config
from sidecar.receive.grpc import GrpcReceiver
from sidecar.receive.http import HttpReceiver
from sidecar.store.envelope import Sealer
from sidecar.store.sqlite.journal import SqliteJournal, SqliteJournalReader
from sidecar.store.sqlite.keys import SqliteKeys


def sealers(project):
    return Sealer(hashlib.sha256(project.encode()).digest(), clock.random_bytes)


class Kit:
    """Journal, keys and receivers; ``records()`` reads back what is durable."""

    def __init__(self, folder, bytes_max=1 << 30):
        self.keys = SqliteKeys(folder / "ledger.db")
        self.path = folder / "journal.db"
        self.journal = SqliteJournal(
            self.path, sealers=sealers, bytes_max=bytes_max, new_id=clock.new_id
        )

    def key(self, kind="agent", project="shop"):
        text, row = mint(
            kind,
            project,
            "t",
            id_bytes=clock.random_bytes(8),
            secret_bytes=clock.random_bytes(32),
            now_ns=clock.now_ns(),
        )
        self.keys.add_key(row)
        return text

    async def authenticate(self, shown):
        return authenticate(shown.authorization, self.keys, now_ns=clock.now_ns())

    @asynccontextmanager
    async def http(self, sink=None, at="127.0.0.1:0", **config):
        receiver = HttpReceiver(Config(http=at, **config), sink or self.journal, self.authenticate)
        await receiver.start()
        try:
            yield f"http://127.0.0.1:{receiver.port}"
        finally:
            await receiver.stop()

    @asynccontextmanager
    async def grpc(self, sink=None, at="127.0.0.1:0", **config):
        receiver = GrpcReceiver(Config(grpc=at, **config), sink or self.journal, self.authenticate)
        await receiver.start()
        try:
            yield f"127.0.0.1:{receiver.port}"
        finally:
            await receiver.stop()

    def records(self):
        reader = SqliteJournalReader(self.path, sealers=sealers)
        found = reader.records_after(0, count_max=10_000, bytes_max=1 << 40)
        reader.close()
        return found

    def close(self):
        self.journal.close()
        self.keys.close()


@pytest.fixture
def kit(tmp_path):
    made = Kit(tmp_path)
    yield made
    made.close()


@pytest.fixture
def small_kit(tmp_path):
    made = Kit(tmp_path, bytes_max=2000)
    yield made
    made.close()


def trace_request(spans=1, name="chat", attributes=()):
    request = ExportTraceServiceRequest()
    scope = request.resource_spans.add().scope_spans.add()
    for _ in range(spans):
        span = scope.spans.add(
            trace_id=clock.random_bytes(16), span_id=clock.random_bytes(8), name=name
        )
        for key, value in attributes:
            span.attributes.add(key=key).value.string_value = value
    return request


def logs_request():
    request = ExportLogsServiceRequest()
    record = request.resource_logs.add().scope_logs.add().log_records.add()
    record.body.string_value = "hello"
    return request


@pytest.fixture
def requests():
    return trace_request, logs_request
