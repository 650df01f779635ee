"""OTLP/HTTP as a sender meets it: what is taken, what is refused, and in which words."""

import asyncio
import gzip
import json
import zlib

import aiohttp
import pytest
import zstandard
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from multidict import CIMultiDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from sidecar.errors import StoreUnavailable

PROTOBUF, JSON = "application/x-protobuf", "application/json"
SPAN = {"traceId": "5b8aa5a2d2c872e8321cf37308d69df2", "spanId": "051581bf3cb55c13", "name": "chat"}


def json_body(*spans):
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": list(spans)}]}]}).encode()


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body


async def post(
    url, body, *, key=None, path="/v1/traces", type_=PROTOBUF, encoding=None, method="POST"
):
    headers = {"Content-Type": type_}
    if key:
        headers["Authorization"] = f"Bearer {key}"
    if encoding:
        headers["Content-Encoding"] = encoding
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, url + path, data=body, headers=headers) as response,
    ):
        return Answer(response.status, response.headers, await response.read())


def run(kit, body, **options):
    config = options.pop("config", {})
    sink = options.pop("sink", None)

    async def scenario():
        async with kit.http(sink=sink, **config) as url:
            return await post(url, body, **options)

    return asyncio.run(scenario())


PACKED = {
    None: bytes, "gzip": gzip.compress, "deflate": zlib.compress, "zstd": zstandard.compress,
}  # fmt: skip


@pytest.mark.requirement("REC-01")
@pytest.mark.requirement("REC-02")
@pytest.mark.parametrize("coding", PACKED)
def test_an_acknowledged_protobuf_request_is_in_the_journal_as_it_came(kit, requests, coding):
    payload = requests[0](3).SerializeToString()
    answer = run(kit, PACKED[coding](payload), key=kit.key(), encoding=coding)
    assert (answer.status, answer.body) == (200, b"")
    (record,) = kit.records()
    assert record.entry.payload == payload
    assert (record.entry.signal, record.entry.encoding) == ("traces", "protobuf")


def test_logs_have_their_own_path(kit, requests):
    payload = requests[1]().SerializeToString()
    assert run(kit, payload, key=kit.key(), path="/v1/logs").status == 200
    assert kit.records()[0].entry.signal == "logs"


def test_gzip_json_is_taken_and_answered_in_json(kit):
    body = gzip.compress(json_body(SPAN))
    answer = run(kit, body, key=kit.key(), type_=JSON + "; charset=utf-8", encoding="gzip")
    assert (answer.status, json.loads(answer.body)) == (200, {})
    assert answer.headers["Content-Type"].startswith(JSON)
    assert kit.records()[0].entry.encoding == "json"


@pytest.mark.requirement("REC-05")
def test_the_tenant_is_the_keys_project_whatever_the_attributes_say(kit, requests):
    request = requests[0](1, attributes=[("project", "other"), ("tenant.id", "other")])
    run(kit, request.SerializeToString(), key=kit.key(project="mine"))
    assert kit.records()[0].entry.project == "mine"


@pytest.mark.requirement("REC-05")
def test_without_a_key_nothing_is_taken(kit, requests):
    body = requests[0]().SerializeToString()
    for key in (None, "sk_agent_nonsense", "sk_agent_0123456789abcdef_" + "A" * 43):
        answer = run(kit, body, key=key)
        assert answer.status == 401
        assert answer.headers["WWW-Authenticate"] == "Bearer"
        assert Status.FromString(answer.body).code == 16
    assert kit.records() == []


@pytest.mark.parametrize("kind", ["approver", "reader", "admin"])
def test_only_agents_may_send(kit, requests, kind):
    answer = run(kit, requests[0]().SerializeToString(), key=kit.key(kind))
    assert (answer.status, Status.FromString(answer.body).code) == (403, 7)


def test_a_refused_sender_is_told_before_its_body_is_looked_at(kit):
    assert run(kit, b"\xff" * 100, encoding="gzip").status == 401


@pytest.mark.requirement("REC-04")
@pytest.mark.parametrize("type_", [PROTOBUF, JSON])
def test_an_undecodable_body_is_a_bad_request_in_its_own_encoding(kit, type_):
    answer = run(kit, b"\xff\xff\xff not otlp", key=kit.key(), type_=type_)
    assert answer.status == 400
    assert answer.headers["Content-Type"].startswith(type_)
    code = json.loads(answer.body)["code"] if type_ == JSON else Status.FromString(answer.body).code
    assert code == 3
    assert kit.records() == []


@pytest.mark.requirement("REC-04")
def test_a_bad_span_does_not_sink_its_batch(kit, requests):
    request = requests[0](3)
    request.resource_spans[0].scope_spans[0].spans[1].span_id = b"short"
    answer = run(kit, request.SerializeToString(), key=kit.key())
    assert answer.status == 200
    partial = ExportTraceServiceResponse.FromString(answer.body).partial_success
    assert partial.rejected_spans == 1
    assert partial.error_message
    answer = run(kit, json_body(SPAN, {"traceId": "zz"}), key=kit.key(), type_=JSON)
    assert json.loads(answer.body)["partialSuccess"]["rejectedSpans"] == "1"
    assert len(kit.records()) == 2


def test_what_is_no_otlp_is_refused_by_its_type_coding_path_and_method(kit):
    key = kit.key()
    assert run(kit, b"a=b", key=key, type_="application/x-www-form-urlencoded").status == 415
    assert run(kit, b"", key=key, encoding="br").status == 415
    assert run(kit, b"", key=key, path="/v1/other").status == 404
    answer = run(kit, None, key=key, method="GET")
    assert (answer.status, answer.headers["Allow"]) == (405, "POST")


@pytest.mark.requirement("REC-03")
def test_a_body_beyond_the_limit_is_refused_packed_or_not(kit, requests):
    big = requests[0](1, name="x" * 5000).SerializeToString()
    limits = {"request_bytes_max": 4096}
    assert run(kit, big, key=kit.key(), config=limits).status == 413
    for coding in ("gzip", "deflate", "zstd"):
        packed = PACKED[coding](big)
        assert run(kit, packed, key=kit.key(), encoding=coding, config=limits).status == 413
    small = requests[0]().SerializeToString()
    assert run(kit, small, key=kit.key(), config=limits).status == 200


@pytest.mark.requirement("REC-04")
@pytest.mark.parametrize("coding", ["gzip", "deflate", "zstd"])
def test_a_broken_cut_off_or_continued_packed_body_is_a_bad_request(kit, requests, coding):
    packed = PACKED[coding](requests[0](50).SerializeToString())
    cuts = (packed[:-20], packed[:-1], packed[:5], packed[:1])
    for body in (b"not packed at all", *cuts, packed + b"t", packed + b"tail"):
        assert run(kit, body, key=kit.key(), encoding=coding).status == 400
    assert kit.records() == []


@pytest.mark.requirement("REC-03")
def test_a_full_journal_says_when_to_come_back(small_kit, requests):
    kit = small_kit
    key = kit.key()

    async def scenario():
        async with kit.http() as url:
            while True:
                answer = await post(url, requests[0](4).SerializeToString(), key=key)
                if answer.status != 200:
                    return answer, await post(url, json_body(SPAN), key=key, type_=JSON)

    answer, in_json = asyncio.run(scenario())
    assert answer.status == 429
    assert int(answer.headers["Retry-After"]) > 0
    status = Status.FromString(answer.body)
    info = RetryInfo()
    assert status.code == 8 and status.details[0].Unpack(info)
    assert info.retry_delay.seconds == int(answer.headers["Retry-After"])
    if in_json.status == 429:
        (detail,) = json.loads(in_json.body)["details"]
        assert detail["@type"].endswith("google.rpc.RetryInfo")


def test_a_failing_store_is_temporary_and_tells_no_path(kit, requests):
    class Broken:
        async def append(self, entry):
            raise StoreUnavailable("disk full", where="/secret/place/journal.db")

    answer = run(kit, requests[0]().SerializeToString(), key=kit.key(), sink=Broken())
    assert (answer.status, Status.FromString(answer.body).code) == (503, 14)
    assert b"secret" not in answer.body
    assert "Retry-After" in answer.headers


def test_two_credentials_are_none(kit, requests):
    async def scenario():
        bearer = ("Authorization", f"Bearer {kit.key()}")
        headers = CIMultiDict([bearer, bearer, ("Content-Type", PROTOBUF)])
        async with kit.http() as url, aiohttp.ClientSession() as session:
            message = requests[0](1).SerializeToString()
            async with session.post(f"{url}/v1/traces", data=message, headers=headers) as answer:
                assert answer.status == 401

    asyncio.run(scenario())
    assert kit.records() == []


class Broken:
    """A sink that fails in a way nobody foresaw."""

    async def append(self, entry):
        raise KeyError("secret of the entry")


@pytest.mark.parametrize("type_", [PROTOBUF, JSON])
def test_a_fault_of_ours_is_a_status_in_the_requests_encoding(kit, requests, type_, caplog, capsys):
    body = requests[0](1).SerializeToString() if type_ == PROTOBUF else json_body(SPAN)
    answer = run(kit, body, key=kit.key(), type_=type_, sink=Broken())
    assert (answer.status, answer.headers["Content-Type"]) == (500, type_)
    if type_ == PROTOBUF:
        code, message = Status.FromString(answer.body).code, Status.FromString(answer.body).message
    else:
        code, message = json.loads(answer.body)["code"], json.loads(answer.body)["message"]
    assert code == 13
    assert "secret" not in message + "".join(capsys.readouterr()) + caplog.text


def test_a_malformed_request_is_a_status_too(kit):
    async def scenario():
        async with kit.http() as url:
            reader, writer = await asyncio.open_connection(*url.removeprefix("http://").split(":"))
            writer.write(b"POST /v1/traces HTTP/1.1\r\nHost: x\r\nAuthorization hidden\r\n\r\n")
            answer = await asyncio.wait_for(reader.read(), 10)
            writer.close()
        assert json.loads(answer.partition(b"\r\n\r\n")[2])["code"] == 3
        assert b"hidden" not in answer

    asyncio.run(scenario())
