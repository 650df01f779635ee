"""A whole sidecar and peers that send nonsense with a good key in it, or nothing any more."""

import signal
import socket
import time

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from serving import EPHEMERAL, serving

HTTP = ("receive.http", "gateway.listen", "control.listen", "metrics.listen")


def address(told, name):
    host, _, port = told["addresses"][name].rpartition(":")
    return host.strip("[]"), int(port)


def exchanged(told, name, sent):
    with socket.create_connection(address(told, name), timeout=10) as peer:
        peer.sendall(sent)
        received = bytearray()
        while piece := peer.recv(65536):
            received += piece
    return bytes(received)


def malformed(key):
    head = b"POST /x HTTP/1.1\r\nHost: x\r\n"
    credential = b"Authorization: Bearer " + key.encode()
    yield head + credential + b"\xe2\x80\xa6\x01\r\nContent-Length: 0\r\n\r\n"
    yield head + credential + b"\0\r\n\r\n"
    yield head + credential + b"x" * 9000 + b"\r\n\r\n"
    yield head + credential.replace(b":", b"") + b"\r\n\r\n"
    yield head + credential + b"\r\nContent-Length: 3\n\nabc\r\n\r\n"


@pytest.mark.requirement("GW-02")
def test_a_key_in_a_malformed_request_is_neither_answered_nor_logged(tmp_path):
    with serving(tmp_path) as (_, told):
        key = told["keys"]["agent"]
        for name in HTTP:
            for sent in malformed(key):
                answer = exchanged(told, name, sent)
                assert b" 400 " in answer.partition(b"\r\n")[0], (name, sent)
                assert b"text/plain" not in answer
                assert b"aiohttp" not in answer
                assert key.encode() not in answer
        metrics = exchanged(
            told, "metrics.listen", b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        )
        assert b'faults_total{listener="gateway",reason="request_malformed"} 5.0' in metrics
    logged = (tmp_path / "stderr.txt").read_text()
    assert key[-20:] not in logged
    assert "Traceback" not in logged
    assert logged.count("request_turned_away") <= 4 * 5


def test_half_open_connections_do_not_hold_up_the_end(tmp_path):
    with serving(tmp_path) as (process, told):
        key = told["keys"]["agent"]
        credential = f"Host: x\r\nAuthorization: Bearer {key}\r\n"
        body = "Content-Type: application/json\r\nContent-Length: 99\r\n\r\n{"
        halves = [
            ("receive.http", f"POST /v1/traces HTTP/1.1\r\n{credential}{body}"),
            ("gateway.listen", f"POST /payments/x HTTP/1.1\r\n{credential}{body}"),
            ("gateway.listen", "POST /payments/x HTTP/1.1\r\n"),
            ("control.listen", "GET /"),
        ]
        peers = []
        for name, sent in halves:
            peer = socket.create_connection(address(told, name), timeout=10)
            peer.sendall(sent.encode())
            peers.append(peer)
        begun = time.monotonic()
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=20) == 0
        assert time.monotonic() - begun < 8
        for peer in peers:
            peer.close()


def has_ipv6():
    with socket.socket(socket.AF_INET6) as probe:
        try:
            probe.bind(("::1", 0))
        except OSError:
            return False
    return True


@pytest.mark.skipif(not socket.has_ipv6 or not has_ipv6(), reason="needs an IPv6 loopback")
def test_every_listener_listens_on_an_ipv6_address(tmp_path):
    asked = b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    with serving(tmp_path, EPHEMERAL.replace("127.0.0.1", "[::1]")) as (_, told):
        assert all(each.startswith("[::1]:") for each in told["addresses"].values())
        for name in HTTP:
            status = 404 if name == "receive.http" else 200
            assert exchanged(told, name, asked).startswith(f"HTTP/1.1 {status} ".encode()), name
        with grpc.insecure_channel(told["addresses"]["receive.grpc"]) as channel:
            health = health_pb2_grpc.HealthStub(channel)
            answer = health.Check(health_pb2.HealthCheckRequest(), timeout=10)
            assert answer.status == health_pb2.HealthCheckResponse.SERVING
