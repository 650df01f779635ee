"""The framing corpus on the raw socket: each head and body is read in one way only, or refused.

Every request is followed on its connection by a read of ``/payments/orders/smuggled``. What is
refused closes the connection, so the read behind it is never made; what is taken is sent on with
exactly its own body, and the read behind it is the second request, made once.
"""

import asyncio
import re

import pytest
from gateway_rig import AllowAll, rig

BODY = b'{"amount": 20, "currency": "EUR"}'
SIZE = b"%x" % len(BODY)
LENGTH = f"Content-Length: {len(BODY)}"
CHUNKED = "Transfer-Encoding: chunked"
WHOLE = SIZE + b"\r\n" + BODY + b"\r\n0\r\n\r\n"
TARGET = "/payments/orders/17/refunds"
STATUS = re.compile(rb"HTTP/[0-9]\.[0-9] ([0-9]{3}) ")
LAST = b"Connection: close\r\n\r\n"


def written(each, lines, body=b"", *, method="POST", target=TARGET, version="HTTP/1.1", host=True):
    """One request as bytes, with the agent's credential; ``lines`` are its other headers."""
    given = [
        f"{method} {target} {version}",
        *([f"Host: 127.0.0.1:{each.server.port}"] if host else []),
        f"Authorization: Bearer {each.agent}",
        "Content-Type: application/json",
        *lines,
    ]
    return ("\r\n".join(given) + "\r\n\r\n").encode("latin-1") + body


async def sent(port, data):
    """All that a connection says to these bytes until it is closed."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    received = b""
    try:
        writer.write(data)
        async with asyncio.timeout(10):
            while chunk := await reader.read(65536):
                received += chunk
    except ConnectionError:
        pass
    finally:
        writer.close()
    return received


def chunks(text):
    return ([CHUNKED], text)


# name: (header lines, body[, changes of the request line])
REFUSED = {
    "a coding in HTTP/1.0": ([CHUNKED], WHOLE, {"version": "HTTP/1.0"}),
    "HTTP/1.0 without a host": ([LENGTH], BODY, {"version": "HTTP/1.0", "host": False}),
    "HTTP/1.1 without a host": ([LENGTH], BODY, {"host": False}),
    "HTTP/2.0 on a line": ([LENGTH], BODY, {"version": "HTTP/2.0"}),
    "HTTP/3.0 on a line": ([LENGTH], BODY, {"version": "HTTP/3.0"}),
    "HTTP/1.2": ([LENGTH], BODY, {"version": "HTTP/1.2"}),
    "HTTP/0.9": ([LENGTH], BODY, {"version": "HTTP/0.9"}),
    "another protocol": ([LENGTH], BODY, {"version": "RTSP/1.0"}),
    "a length with _": (["Content-Length: 3_3"], BODY),
    "a length in hex": (["Content-Length: 0x21"], BODY),
    "a list of lengths": (["Content-Length: 33, 33"], BODY),
    "a length beyond 64 bits": (["Content-Length: 36893488147419103265"], BODY),
    "a length in two parts": (["Content-Length: 3 3"], BODY),
    "an empty length": (["Content-Length:"], BODY),
    "a length after a vertical tab": (["Content-Length: \x0b33"], BODY),
    "a length in words of another script": (["Content-Length: \xb3\xb3"], BODY),
    "a length and another in _": ([LENGTH, "Content_Length: 5"], BODY),
    "a coding and a length": ([CHUNKED, LENGTH], WHOLE),
    "a length and a coding": ([LENGTH, CHUNKED], WHOLE),
    "an empty coding and a length": (["Transfer-Encoding:", LENGTH], BODY),
    "a coding with _ and a length": (["Transfer_Encoding: chunked", LENGTH], BODY),
    "identity and a length": (["Transfer-Encoding: identity", LENGTH], BODY),
    "identity": (["Transfer-Encoding: identity"], BODY),
    "chunked before identity": (["Transfer-Encoding: chunked, identity"], WHOLE),
    "chunked before nothing": (["Transfer-Encoding: chunked,"], WHOLE),
    "nothing before chunked": (["Transfer-Encoding: ,chunked"], WHOLE),
    "chunked with a parameter": (["Transfer-Encoding: chunked;q=1"], WHOLE),
    "chunked in quotes": (['Transfer-Encoding: "chunked"'], WHOLE),
    "chunked after a vertical tab": (["Transfer-Encoding: \x0bchunked"], WHOLE),
    "a coding in two headers": ([CHUNKED, "Transfer-Encoding: identity"], WHOLE),
    "a space before the colon of a coding": (["Transfer-Encoding : chunked"], WHOLE),
    "a folded coding": (["Transfer-Encoding:\r\n chunked"], WHOLE),
    "a size in 0x": chunks(b"0x" + WHOLE),
    "a size with a sign": chunks(b"+" + WHOLE),
    "a negative size": chunks(b"-" + WHOLE),
    "no size": chunks(b"\r\n" + BODY + b"\r\n0\r\n\r\n"),
    "a size beyond 64 bits": chunks(b"10000000000000000" + WHOLE),
    "a size and a space": chunks(WHOLE.replace(SIZE, SIZE + b" ", 1)),
    "a size ended by LF": chunks(WHOLE.replace(b"\r\n", b"\n", 1)),
    "a size ended by CR": chunks(WHOLE.replace(b"\r\n", b"\r", 1)),
    "a chunk ended by LF": chunks(SIZE + b"\r\n" + BODY + b"\n0\r\n\r\n"),
    "a chunk with more than its size": chunks(SIZE + b"\r\n" + BODY + b"more\r\n0\r\n\r\n"),
    "an end in LF": chunks(SIZE + b"\r\n" + BODY + b"\r\n0\n\n"),
    "an extension with LF": chunks(WHOLE.replace(b"\r\n", b";a\nb\r\n", 1)),
    "an extension of megabytes": chunks(WHOLE.replace(b"\r\n", b";" + b"a" * 3_000_000, 1)),
    "a trailer that is a length": chunks(WHOLE[:-2] + b"Content-Length: 5\r\n\r\n"),
    "a trailer that is none": chunks(WHOLE[:-2] + b"X T: 1\r\n\r\n"),
    "a trailer that is a host": chunks(WHOLE[:-2] + b"Host: evil.example\r\n\r\n"),
    "trailers without end": chunks(WHOLE[:-2] + b"X-T: 1\r\n" * 100_000),
    "a tunnel": ([], b"", {"method": "CONNECT", "target": "127.0.0.1:443"}),
    "an upgrade to a socket": (
        *(["Connection: Upgrade", "Upgrade: websocket"], b""),
        {"method": "GET", "target": "/payments/orders/17"},
    ),
    "an upgrade to HTTP/2": (
        ["Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAAP__"],
        b"",
        {"method": "GET", "target": "/payments/orders/17"},
    ),
    "HTTP/2 with prior knowledge": ([], b"SM\r\n\r\n", {"method": "PRI", "target": "*"}),
    "a coded body": (["Content-Encoding: gzip", LENGTH], BODY),
    "codings stacked": (["Content-Encoding: gzip, gzip", LENGTH], BODY),
    "a coding that is empty": (["Content-Encoding:", LENGTH], BODY),
    "an empty expectation": (["Expect:", LENGTH], BODY),
    "two hosts": (["Host: evil.example", LENGTH], BODY),
    "two hosts in other cases": (["hOST: evil.example", LENGTH], BODY),
    "a host with a path": (["Host: a/?x=", LENGTH], BODY, {"host": False}),
    "a host with a user": (["Host: a@b", LENGTH], BODY, {"host": False}),
    "a list of hosts": (["Host: a,b", LENGTH], BODY, {"host": False}),
    "a host with an escape": (["Host: a%00b", LENGTH], BODY, {"host": False}),
    "an authority for a target": ([LENGTH], BODY, {"target": "@google.com/x"}),
    "a scheme without an authority": ([LENGTH], BODY, {"target": "http:/payments/orders"}),
    "an empty authority": ([LENGTH], BODY, {"target": "http:///payments/orders"}),
    "a file": ([LENGTH], BODY, {"target": "file:///etc/passwd"}),
    "any target": ([LENGTH], BODY, {"target": "*"}),
    "a method in lower case": ([LENGTH], BODY, {"method": "post"}),
    "a tab in the request line": ([LENGTH], BODY, {"method": "POST\t"}),
    "a tab in the target": ([LENGTH], BODY, {"target": TARGET + "\t"}),
    "a byte beyond ASCII in the target": ([LENGTH], BODY, {"target": "/payments/\xe9"}),
    "DEL in the target": ([LENGTH], BODY, {"target": "/payments/\x7f"}),
    "a header without a colon": (["Foo", LENGTH], BODY),
    "a header without a name": ([": x", LENGTH], BODY),
    "a name beyond ASCII": (["X\xe9: x", LENGTH], BODY),
    "a CR in a value": (["X-A: a\rX-B: b", LENGTH], BODY),
    "a LF in a value": (["X-A: a\nX-B: b", LENGTH], BODY),
    "a control character in a value": (["X-A: a\x01b", LENGTH], BODY),
    "101 headers": ([*(f"X-{n}: a" for n in range(101)), LENGTH], BODY),
    "a line of 9 KB": (["X-A: " + "a" * 9000, LENGTH], BODY),
}
TAKEN = {
    "a length": ([LENGTH], BODY),
    "a length with zeros before it": ([f"Content-Length: 00{len(BODY)}"], BODY),
    "a length after a tab": ([f"Content-Length:\t{len(BODY)}"], BODY),
    "chunks": ([CHUNKED], WHOLE),
    "chunks in another case": (["Transfer-Encoding: CHUNKED"], WHOLE),
    "chunks of one byte": (
        [CHUNKED],
        b"".join(b"1\r\n%c\r\n" % byte for byte in BODY) + b"0\r\n\r\n",
    ),
    "an extension": ([CHUNKED], WHOLE.replace(b"\r\n", b";a=b\r\n", 1)),
    "trailers that would decide": (
        [CHUNKED],
        WHOLE[:-2] + b"Authorization: Bearer x\r\nIdempotency-Key: other\r\n\r\n",
    ),
    "empty lines before": ([LENGTH], BODY, {"method": "\r\n\r\nPOST"}),
    "names of other headers for its connection": (
        ["Connection: Authorization, Idempotency-Key, Content-Type, Content-Length", LENGTH],
        BODY,
    ),
}


def run(folder, scenario, **options):
    async def main():
        async with rig(folder, policy=AllowAll(), **options) as each:
            await scenario(each)

    asyncio.run(main())


def behind(each):
    ends = written(each, (), method="GET", target="/payments/orders/smuggled")
    return ends[:-2] + LAST


@pytest.mark.requirement("GW-05")
@pytest.mark.row("D", "CVE-2026-34525", "CVE-2026-111750", "CVE-2026-48710", "T55")
def test_what_is_read_in_two_ways_is_refused_and_nothing_behind_it_is_read(tmp_path):
    async def scenario(each):
        for name, (lines, body, *changes) in REFUSED.items():
            lines = ["Idempotency-Key: k", *lines]
            request = written(each, lines, body, **(changes[0] if changes else {}))
            received = await sent(each.server.port, request + behind(each))
            if received:  # a peer that goes on writing may see a reset instead
                assert received.startswith((b"HTTP/1.1 4", b"HTTP/1.0 4")), (name, received[:200])
            assert len(STATUS.findall(received)) <= 1, (name, received)
            assert (name, each.shop.seen) == (name, [])

    run(tmp_path, scenario)


@pytest.mark.requirement("GW-05")
@pytest.mark.row("D")
def test_what_is_taken_ends_where_it_says_and_leaves_as_its_own_bytes(tmp_path):
    async def scenario(each):
        for number, (name, (lines, body, *changes)) in enumerate(TAKEN.items()):
            lines = [f"Idempotency-Key: k{number}", *lines]
            request = written(each, lines, body, **(changes[0] if changes else {}))
            received = await sent(each.server.port, request + behind(each))
            assert received.startswith(b"HTTP/1.1 201 "), (name, received[:300])
            assert STATUS.findall(received) == [b"201", b"200"], (name, received)
            (first, second) = each.shop.seen
            assert (first[0], first[1], first[3]) == ("POST", "/orders/17/refunds", BODY), name
            assert first[2]["content-length"] == str(len(BODY)), name
            assert not {"transfer-encoding", "trailer", "te"} & set(first[2]), name
            assert second[1] == "/orders/smuggled", name
            each.shop.seen.clear()

    run(tmp_path, scenario)


@pytest.mark.row("D")
def test_a_client_of_http_1_0_is_never_told_to_go_on(tmp_path):
    """RFC 9110 §10.1.1: it would take the 100 for its answer."""

    async def scenario(each):
        lines = ["Idempotency-Key: k", LENGTH, "Expect: 100-continue"]
        received = await sent(each.server.port, written(each, lines, BODY, version="HTTP/1.0"))
        assert received.startswith(b"HTTP/1.0 201 "), received

    run(tmp_path, scenario)


@pytest.mark.requirement("GW-01")
@pytest.mark.row("D")
def test_an_answer_to_head_has_no_body_and_no_wrong_length(tmp_path):
    """RFC 9110 §8.6: no length, or the one that the answer to GET would have."""

    async def scenario(each):
        for target, status in (("/payments/orders/17", 201), ("/payments/nowhere", 404)):
            request = written(each, (), method="HEAD", target=target)[:-2] + LAST
            received = await sent(each.server.port, request)
            head, _, body = received.partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 %d " % status) and body == b"", received
            assert (b"content-length: 0" in head.lower()) is False
            assert b"X-Content-Type-Options: nosniff" in head
        assert [(method, path) for method, path, _, _ in each.shop.seen] == [("HEAD", "/orders/17")]

    run(tmp_path, scenario)
