"""OTLP/gRPC as a sender meets it, with real channels; and the SDK's exporters over both wires."""

import asyncio

import grpc
import pytest
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import (
    OTLPSpanExporter as GrpcSpanExporter,
)
from opentelemetry.exporter.otlp.proto.http.trace_exporter import (
    OTLPSpanExporter as HttpSpanExporter,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from sidecar.errors import StoreUnavailable
from sidecar.otlp.errors import TooMany, Undecodable
from sidecar.receive.status import Refused, refused

TRACES = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
LOGS = "/opentelemetry.proto.collector.logs.v1.LogsService/Export"


async def export(target, message, *, key=None, path=TRACES, compression=None):
    """The reply's bytes, or the error."""
    options = [("grpc.max_send_message_length", -1)]
    async with grpc.aio.insecure_channel(target, options=options) as channel:
        metadata = (("authorization", f"Bearer {key}"),) if key else ()
        try:
            call = channel.unary_unary(path)
            return await call(message, metadata=metadata, compression=compression, timeout=10)
        except grpc.aio.AioRpcError as error:
            return error


def run(kit, message, **options):
    config, sink = options.pop("config", {}), options.pop("sink", None)

    async def scenario():
        async with kit.grpc(sink=sink, **config) as target:
            return await export(target, message, **options)

    return asyncio.run(scenario())


def details(error):
    """The google.rpc.Status a failed call carries."""
    found = dict(error.trailing_metadata())["grpc-status-details-bin"]
    return Status.FromString(found)


@pytest.mark.requirement("REC-02")
@pytest.mark.parametrize(
    "compression", [None, grpc.Compression.Gzip, grpc.Compression.Deflate], ids=str
)
def test_an_acknowledged_request_is_in_the_journal_as_it_came(kit, requests, compression):
    payload = requests[0](30).SerializeToString()
    assert run(kit, payload, key=kit.key(), compression=compression) == b""
    (record,) = kit.records()
    assert record.entry.payload == payload
    assert record.entry.project == "shop"


def test_logs_are_a_service_of_their_own(kit, requests):
    assert run(kit, requests[1]().SerializeToString(), key=kit.key(), path=LOGS) == b""
    assert kit.records()[0].entry.signal == "logs"


@pytest.mark.requirement("REC-05")
def test_without_a_key_nothing_is_taken(kit, requests):
    message = requests[0]().SerializeToString()
    for key in (None, "sk_agent_0123456789abcdef_" + "A" * 43):
        assert run(kit, message, key=key).code() is grpc.StatusCode.UNAUTHENTICATED
    assert run(kit, message, key=kit.key("reader")).code() is grpc.StatusCode.PERMISSION_DENIED
    assert kit.records() == []


@pytest.mark.requirement("REC-04")
def test_undecodable_is_invalid_and_a_bad_span_is_partial_success(kit, requests):
    error = run(kit, b"\xff\xff\xff", key=kit.key())
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert details(error).code == 3
    request = requests[0](2)
    request.resource_spans[0].scope_spans[0].spans[0].trace_id = b""
    answer = run(kit, request.SerializeToString(), key=kit.key())
    assert ExportTraceServiceResponse.FromString(answer).partial_success.rejected_spans == 1


@pytest.mark.requirement("REC-03")
def test_a_message_that_inflates_beyond_the_limit_is_refused_while_inflating(kit):
    bomb = bytes(200_000_000)
    error = run(
        kit,
        bomb,
        key=kit.key(),
        compression=grpc.Compression.Gzip,
        config={"request_bytes_max": 1 << 20},
    )
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "exceeds 1048576 bytes" in error.details()
    plain = run(kit, bytes(2 << 20), key=kit.key(), config={"request_bytes_max": 1 << 20})
    assert plain.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


@pytest.mark.requirement("REC-03")
def test_a_full_journal_says_when_to_come_back(small_kit, requests):
    key = small_kit.key()

    async def scenario():
        async with small_kit.grpc() as target:
            while True:
                answer = await export(target, requests[0](4).SerializeToString(), key=key)
                if answer != b"":
                    return answer

    error = asyncio.run(scenario())
    assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    info = RetryInfo()
    assert details(error).details[0].Unpack(info) and info.retry_delay.seconds > 0


def test_a_failing_store_is_unavailable_and_tells_no_path(kit, requests):
    class Broken:
        async def append(self, entry):
            raise StoreUnavailable("disk full", where="/secret/place/journal.db")

    error = run(kit, requests[0]().SerializeToString(), key=kit.key(), sink=Broken())
    assert error.code() is grpc.StatusCode.UNAVAILABLE
    assert "secret" not in error.details()


@pytest.mark.requirement("REC-03")
def test_a_refusal_keeps_nothing_of_its_request_alive():
    for error in (Undecodable("x"), TooMany("y"), Refused("busy", "z")):
        try:
            raise error
        except (ValueError, Refused) as caught:
            found = refused(caught)
        assert found.__traceback__ is None and error.__traceback__ is None


def test_health_needs_no_key(kit):
    async def scenario():
        async with kit.grpc() as target, grpc.aio.insecure_channel(target) as channel:
            stub = health_pb2_grpc.HealthStub(channel)
            services = ("", "opentelemetry.proto.collector.trace.v1.TraceService")
            return [
                (await stub.Check(health_pb2.HealthCheckRequest(service=name))).status
                for name in services
            ]

    assert asyncio.run(scenario()) == [health_pb2.HealthCheckResponse.SERVING] * 2


def reflection_call(channel, key):
    stub = reflection_pb2_grpc.ServerReflectionStub(channel)
    metadata = (("authorization", f"Bearer {key}"),) if key else ()
    return stub.ServerReflectionInfo(metadata=metadata, timeout=10)


async def reflected(channel, request, *, key):
    call = reflection_call(channel, key)
    await call.write(request)
    await call.done_writing()
    return [answer async for answer in call]


@pytest.mark.requirement("REC-01")
def test_reflection_describes_the_services_to_whoever_holds_a_key(kit):
    async def scenario():
        listing = reflection_pb2.ServerReflectionRequest(list_services="")
        symbol = TRACES[1:].partition("/")[0]
        asked = reflection_pb2.ServerReflectionRequest(file_containing_symbol=symbol)
        async with kit.grpc() as target, grpc.aio.insecure_channel(target) as channel:
            # Nothing is written: a write to an ended call is an error of the client itself.
            refused = await reflection_call(channel, None).code()
            services = await reflected(channel, listing, key=kit.key())
            files = await reflected(channel, asked, key=kit.key())
        return refused, services, files

    code, services, files = asyncio.run(scenario())
    assert code is grpc.StatusCode.UNAUTHENTICATED
    named = {each.name for each in services[0].list_services_response.service}
    assert {TRACES[1:].partition("/")[0], LOGS[1:].partition("/")[0]} <= named
    described = files[0].file_descriptor_response.file_descriptor_proto
    assert any(b"trace_service.proto" in each for each in described)


def test_a_taken_port_is_an_error_with_its_cause(kit):
    async def scenario():
        async with kit.grpc() as target, kit.http() as url:
            with pytest.raises(OSError, match="the address is taken"):
                async with kit.grpc(at=target):
                    pass
            with pytest.raises(OSError):
                async with kit.http(at=url.removeprefix("http://")):
                    pass

    asyncio.run(scenario())


def _emit(exporter, count):
    """Export spans with the SDK's own tracer; whether each was acknowledged."""
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("test")
    for number in range(count):
        with tracer.start_as_current_span(f"chat {number}"):
            pass
    provider.shutdown()


@pytest.mark.requirement("REC-01")
@pytest.mark.parametrize("wire", ["grpc", "http"])
def test_the_real_sdk_exporters_are_taken_and_without_a_key_are_not(kit, wire):
    key = kit.key()

    def exporter(address, headers):
        if wire == "grpc":
            return GrpcSpanExporter(endpoint=address, insecure=True, headers=headers)
        return HttpSpanExporter(endpoint=f"{address}/v1/traces", headers=headers)

    async def scenario():
        async with getattr(kit, wire)() as address:
            await asyncio.to_thread(_emit, exporter(address, {}), 1)
            refused = len(kit.records())
            headers = {"authorization": f"Bearer {key}"}
            await asyncio.to_thread(_emit, exporter(address, headers), 5)
            return refused

    assert asyncio.run(scenario()) == 0
    names = [
        span.name
        for record in kit.records()
        for resource in ExportTraceServiceRequest.FromString(record.entry.payload).resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]
    assert sorted(names) == [f"chat {number}" for number in range(5)]


def test_two_credentials_are_none(kit, requests):
    async def scenario():
        async with kit.grpc() as target, grpc.aio.insecure_channel(target) as channel:
            twice = (("authorization", f"Bearer {kit.key()}"),) * 2
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                message = requests[0](1).SerializeToString()
                await channel.unary_unary(TRACES)(message, metadata=twice, timeout=10)
            assert refused.value.code() == grpc.StatusCode.UNAUTHENTICATED

    asyncio.run(scenario())
    assert kit.records() == []


class Broken:
    """A sink that fails in a way nobody foresaw."""

    async def append(self, entry):
        raise KeyError("secret of the entry")


def test_a_fault_of_ours_is_told_in_fixed_words(kit, requests, caplog, capsys):
    error = run(kit, requests[0](1).SerializeToString(), key=kit.key(), sink=Broken())
    assert error.code() == grpc.StatusCode.INTERNAL
    assert "secret" not in error.details() + "".join(capsys.readouterr()) + caplog.text
