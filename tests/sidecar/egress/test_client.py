"""Egress against real sockets: pinned addresses, one attempt, exact bytes, honest failures."""

import asyncio
import datetime
import ipaddress
import ssl
import time

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from sidecar.egress.client import Egress, EgressFailed
from sidecar.egress.rules import Target

SECOND = 1_000_000_000
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Type: text/plain\r\n\r\nok"


class Upstream:
    """A raw TCP server that keeps every request and answers with given bytes (None: hang up)."""

    def __init__(self, *answers, tls=None):
        self.answers = list(answers)
        self.requests = []
        self.connections = 0
        self.tls = tls

    async def __aenter__(self):
        self.server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self.tls)
        self.port = self.server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_):
        self.server.close()

    async def _serve(self, reader, writer):
        self.connections += 1
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = 0
                for line in head.split(b"\r\n"):
                    if line.lower().startswith(b"content-length:"):
                        length = int(line.split(b":")[1])
                self.requests.append(head + await reader.readexactly(length))
                answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
                if answer is None:
                    break
                if answer == "hang":
                    await reader.read()
                    break
                writer.write(answer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    def target(self, host="127.0.0.1", scheme="http", path="", allow=("127.0.0.0/8",)):
        return Target(name="up", url=f"{scheme}://{host}:{self.port}{path}", allow_cidrs=allow)


def run(scenario):
    return asyncio.run(scenario())


async def failing(egress, target, **kwargs):
    with pytest.raises(EgressFailed) as caught:
        await egress.request(target, "POST", "/x", **{"deadline_ns": 2 * SECOND, **kwargs})
    return caught.value


@pytest.mark.requirement("GW-05")
def test_the_wire_gets_exactly_the_path_headers_and_bytes_given():
    async def scenario():
        async with Upstream(OK) as upstream:
            egress = Egress()
            reply = await egress.request(
                upstream.target(path="/base"),
                "POST",
                "/a%2Eb/%3F;x?q=%2B&c=1",
                (("content-type", "application/json"),),
                b'{"a": 1.50}',
                deadline_ns=2 * SECOND,
            )
            await egress.close()
            return reply, upstream.requests, upstream.port

    reply, requests, port = run(scenario)
    assert (reply.status, reply.body, reply.address) == (200, b"ok", "127.0.0.1")
    head, _, body = requests[0].partition(b"\r\n\r\n")
    lines = head.split(b"\r\n")
    assert lines[0] == b"POST /base/a%2Eb/%3F;x?q=%2B&c=1 HTTP/1.1"
    assert body == b'{"a": 1.50}'
    names = sorted(line.split(b":")[0].lower() for line in lines[1:])
    assert names == sorted(
        [b"host", b"accept-encoding", b"content-type", b"content-length", b"connection"]
    )
    assert f"host: 127.0.0.1:{port}".encode() in [line.lower() for line in lines]


@pytest.mark.row("F", "T62", "CVE-2026-77822")
@pytest.mark.requirement("GW-06")
def test_the_vetted_address_is_dialled_and_a_flipping_resolver_gains_nothing():
    answers = [["127.0.0.1"], ["10.0.0.9", "127.0.0.1"], ["169.254.169.254"]]
    asked = []

    async def resolve(host, port):
        asked.append(host)
        return answers.pop(0)

    async def scenario():
        async with Upstream(OK) as upstream:
            egress = Egress(resolve=resolve)
            target = upstream.target(host="shop.example")
            await egress.request(target, "GET", "/", deadline_ns=2 * SECOND)
            failures = [await failing(egress, target), await failing(egress, target)]
            await egress.close()
            return upstream.requests, failures, upstream.port

    requests, failures, port = run(scenario)
    assert asked == ["shop.example"] * 3
    assert len(requests) == 1 and f"shop.example:{port}".encode() in requests[0]
    assert [failure.sent for failure in failures] == [False, False]
    assert "allow_cidrs" in failures[0].reason and "metadata" in failures[1].reason


@pytest.mark.row("F")
@pytest.mark.requirement("GW-06")
def test_loopback_must_be_named_and_the_sidecars_own_ports_are_never_dialled():
    async def scenario():
        async with Upstream(OK) as upstream:
            unnamed = await failing(Egress(), upstream.target(allow=()))
            own = await failing(Egress(own_ports=frozenset({upstream.port})), upstream.target())
            return unnamed, own, upstream.connections

    unnamed, own, connections = run(scenario)
    assert not unnamed.sent and "127.0.0.0/8" in unnamed.reason
    assert not own.sent and "sidecar's own" in own.reason
    assert connections == 0


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "POST"])
@pytest.mark.parametrize("reuse", [True, False])
def test_a_dropped_connection_is_one_attempt_and_counts_as_sent(method, reuse):
    async def scenario():
        async with Upstream(OK, None, OK) as upstream:
            egress = Egress()
            arguments = {"deadline_ns": 2 * SECOND, "reuse": reuse}
            await egress.request(upstream.target(), method, "/1", **arguments)
            with pytest.raises(EgressFailed) as caught:
                await egress.request(upstream.target(), method, "/2", **arguments)
            await egress.close()
            return caught.value, upstream

    failure, upstream = run(scenario)
    assert failure.sent
    assert [request.split()[1] for request in upstream.requests] == [b"/1", b"/2"]
    assert upstream.connections == (1 if reuse else 2)


@pytest.mark.parametrize(
    "answer",
    [
        *("hang", None, b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nok", b"garbage\r\n\r\n"),
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n" + b"x" * 100,
    ],
)
def test_no_whole_answer_is_a_failure_that_says_it_was_sent(answer):
    async def scenario():
        async with Upstream(answer, None) as upstream:
            egress = Egress(response_bytes_max=50)
            started = time.monotonic()
            failure = await failing(egress, upstream.target(), deadline_ns=SECOND // 2)
            await egress.close()
            return failure, time.monotonic() - started

    failure, took = run(scenario)
    assert failure.sent and failure.reason.startswith("up: ")
    assert took < 1.5


def test_a_refused_connection_a_missing_name_and_a_late_resolver_sent_nothing():
    async def never(host, port):
        await asyncio.Event().wait()

    async def unknown(host, port):
        raise OSError("no such host")

    async def scenario():
        async with Upstream(OK) as upstream:
            port = upstream.port
        closed = Target(name="up", url=f"http://127.0.0.1:{port}", allow_cidrs=("127.0.0.0/8",))
        named = Target(name="up", url="http://nowhere.example")
        egress, blind, slow = Egress(), Egress(resolve=unknown), Egress(resolve=never)
        failures = [
            await failing(egress, closed),
            await failing(blind, named),
            await failing(slow, named, deadline_ns=SECOND // 10),
        ]
        for each in (egress, blind, slow):
            await each.close()
        return failures

    assert [failure.sent for failure in run(scenario)] == [False, False, False]


def test_another_address_is_tried_only_while_nothing_was_sent():
    async def resolve(host, port):
        return ["127.0.0.2", "127.0.0.1"]

    async def scenario():
        async with Upstream(OK) as upstream:
            egress = Egress(resolve=resolve)
            target = upstream.target(host="shop.example")
            reply = await egress.request(target, "POST", "/", deadline_ns=2 * SECOND)
            await egress.close()
            return reply, upstream.connections

    reply, connections = run(scenario)
    assert (reply.address, connections) == ("127.0.0.1", 1)


@pytest.mark.row("F", "T54")
def test_redirects_cookies_and_encodings_are_handed_on_as_they_came(monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    moved = (
        b"HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/\r\nSet-Cookie: a=b\r\n"
        b"Content-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc"
    )

    async def scenario():
        async with Upstream(moved, OK) as upstream:
            egress = Egress()
            replies = [
                await egress.request(upstream.target(), "GET", "/", deadline_ns=SECOND, reuse=True)
                for _ in range(2)
            ]
            await egress.close()
            return replies, upstream

    replies, upstream = run(scenario)
    assert (replies[0].status, replies[0].body) == (302, b"abc")
    assert b"cookie" not in upstream.requests[1].lower()
    assert len(upstream.requests) == 2 and upstream.connections == 1


def certificate(tmp_path):
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "shop.example")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("shop.example")]), False)
        .sign(key, hashes.SHA256())
    )
    pem = tmp_path / "tls.pem"
    pem.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        + made.public_bytes(serialization.Encoding.PEM)
    )
    return pem


def test_tls_is_verified_against_the_name_and_not_the_address(tmp_path):
    pem = certificate(tmp_path)
    seen = []
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(pem)
    server.sni_callback = lambda _socket, name, _context: seen.append(name)
    trusting = ssl.create_default_context(cafile=str(pem))

    async def resolve(host, port):
        return ["127.0.0.1"]

    async def scenario():
        async with Upstream(OK, tls=server) as upstream:
            egress = Egress(resolve=resolve, tls=trusting)
            good = upstream.target(host="shop.example", scheme="https")
            reply = await egress.request(good, "GET", "/", deadline_ns=2 * SECOND)
            other = await failing(egress, upstream.target(host="evil.example", scheme="https"))
            plain = Egress(resolve=resolve)
            untrusted = await failing(plain, good)
            await egress.close()
            await plain.close()
            return reply, other, untrusted, upstream.requests

    reply, other, untrusted, requests = run(scenario)
    assert reply.status == 200 and seen[0] == "shop.example"
    assert (other.sent, untrusted.sent, len(requests)) == (False, False, 1)


def test_ipv6_literals_are_dialled_with_brackets_in_host():
    async def scenario():
        try:
            server = await asyncio.start_server(answer, "::1", 0)
        except OSError:
            pytest.skip("needs an IPv6 loopback")
        port = server.sockets[0].getsockname()[1]
        egress = Egress()
        target = Target(name="up", url=f"http://[::1]:{port}", allow_cidrs=("::1/128",))
        reply = await egress.request(target, "GET", "/", deadline_ns=2 * SECOND)
        await egress.close()
        server.close()
        return reply

    heads = []

    async def answer(reader, writer):
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(OK)
        writer.close()

    assert ipaddress.ip_address(run(scenario).address).is_loopback
    assert b"[::1]:" in heads[0]
