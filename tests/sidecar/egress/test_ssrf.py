"""Ways to make the gateway dial what it must not: names that flip, disguises, redirects, proxies of
the environment, and its own ports. Real sockets on both sides of a whole gateway."""

import asyncio
import socket
import struct
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from gateway_rig import AllowAll, rig
from msgspec import structs

from sidecar.egress.client import Egress, EgressFailed
from sidecar.egress.rules import Target, undialable
from sidecar.gateway.client import HttpUpstreams
from sidecar.gateway.config import Upstream

SECOND = 1_000_000_000
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class FlipServer(asyncio.DatagramProtocol):
    """A DNS server that gives the next of its answers to every question for A, with a TTL of 0."""

    def __init__(self, *answers):
        self.answers, self.asked = list(answers), 0

    def connection_made(self, transport):
        self.transport = transport

    def datagram_received(self, data, address):
        self.asked += 1
        found = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        head = data[:2] + struct.pack("!HHHHH", 0x8180, 1, len(found), 0, 0)
        records = [
            b"\xc0\x0c" + struct.pack("!HHIH", 1, 1, 0, 4) + socket.inet_aton(each)
            for each in found
        ]
        self.transport.sendto(head + data[12:] + b"".join(records), address)


@asynccontextmanager
async def flipping(*answers):
    """A FlipServer on a port, and the resolver that asks it."""
    loop = asyncio.get_running_loop()
    transport, server = await loop.create_datagram_endpoint(
        lambda: FlipServer(*answers), local_addr=("127.0.0.1", 0)
    )
    where = transport.get_extra_info("sockname")

    async def resolve(host, port):
        labels = b"".join(bytes([len(part)]) + part.encode() for part in host.split("."))
        question = b"\x07\x07\x01\x00\x00\x01" + bytes(6) + labels + b"\x00\x00\x01\x00\x01"
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
            asking.setblocking(False)
            await loop.sock_sendto(asking, question, where)
            data = await loop.sock_recv(asking, 4096)
        return [
            socket.inet_ntoa(data[at + 12 : at + 16]) for at in range(len(question), len(data), 16)
        ]

    try:
        yield server, resolve
    finally:
        transport.close()


@asynccontextmanager
async def listening(answer=OK, host="127.0.0.1"):
    """A raw server that gives one answer; its port and the heads it was sent."""
    heads = []

    async def serve(reader, writer):
        try:
            heads.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(answer)
            await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        writer.close()

    server = await asyncio.start_server(serve, host, 0)
    try:
        yield server.sockets[0].getsockname()[1], heads
    finally:
        server.close()


async def failed(egress, target):
    """Why nothing was dialled."""
    with pytest.raises(EgressFailed) as caught:
        await egress.request(target, "GET", "/", deadline_ns=2 * SECOND)
    assert not caught.value.sent
    return caught.value.reason


def named(port, host="shop.example", allow=("127.0.0.0/8",)):
    return Target(name="up", url=f"http://{host}:{port}", allow_cidrs=allow)


@pytest.mark.requirement("GW-06")
@pytest.mark.row("F", "T62", "CVE-2026-77822")
def test_a_name_that_flips_is_asked_once_a_dial_and_judged_whole(tmp_path):
    flips = (
        ["127.0.0.1"],
        ["169.254.169.254"],
        ["127.0.0.1", "169.254.169.254"],
        ["10.0.0.1", "127.0.0.1"],
        ["0.0.0.0"],
        [],
        ["127.0.0.1"] + [f"127.0.1.{n}" for n in range(16)],
        ["127.0.0.1"],
    )

    async def main():
        async with AsyncExitStack() as stack:
            port, heads = await stack.enter_async_context(listening())
            dns, resolve = await stack.enter_async_context(flipping(*flips))
            egress = Egress(resolve=resolve)
            stack.push_async_callback(egress.close)

            def through(ports):
                made = Upstream(
                    name="payments", url=f"http://shop.example:{port}", allow_cidrs=("127.0.0.0/8",)
                )
                ports.registry.upstreams["payments"] = made
                return structs.replace(ports, upstreams=HttpUpstreams(ports.registry, egress))

            each = await stack.enter_async_context(rig(tmp_path, policy=AllowAll(), wrap=through))
            found = []
            for number in range(len(flips)):
                reply = await each.refund("17", key=f"k{number}")
                found.append(reply.status)
                told = "" if reply.status == 200 else reply.json["code"]
                assert told in ("", "upstream_unreachable")
            assert found == [200, *[502] * 6, 200]
            assert dns.asked == len(flips) and len(heads) == 2
            assert all(f"host: shop.example:{port}".encode() in head.lower() for head in heads)

    asyncio.run(main())


DISGUISES = (
    *("2130706433", "0x7f000001", "0x7f.1", "0177.0.0.1", "017700000001", "127.1", "127.0.1"),
    *("127.0.0.1.", "00127.0.0.1", "127.0.0.01", "0x7F.0.0.1", "①②⑦.⓪.⓪.①", "127。0。0。1"),
    *("１２７.0.0.1", "127.0.0.1%00.example", "127.0.0.1\t", "127.0.0.1\\@example", "[::]"),
    *("a@127.0.0.1", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::127.0.0.1]", "[64:ff9b::7f00:1]"),
    *("[2002:7f00:1::]", "[2001:0:7f00:1::]", "[64:ff9b:1::7f00:1]", "[fe80::5efe:7f00:1]"),
    *("[::1%25lo]", "[fe80::1%lo]", "[0:0:0:0:0:ffff:169.254.169.254]", "169.254.169.254"),
    *("[64:ff9b::a9fe:a9fe]", "[2002:a9fe:a9fe::]", "[fd00:ec2::254]", "168.63.129.16", "0"),
    *("100.100.100.200", "192.0.0.192", "0.0.0.0", "255.255.255.255", "[ff02::1]", "[fec0::1]"),
)


@pytest.mark.requirement("GW-06")
@pytest.mark.row("F", "CVE-2026-44430")
@pytest.mark.parametrize("allow", [(), ("0.0.0.0/0", "::/0"), ("8.8.8.0/24",)])
def test_no_spelling_of_an_address_is_dialled_that_is_not_named(allow):
    """Neither as the host of a URL nor as what a resolver makes of a name."""

    async def main():
        async with listening() as (port, heads):
            egress = Egress()
            for host in DISGUISES:
                why = await failed(egress, named(port, host, allow))
                assert why.startswith("up: "), host
            await egress.close()
            for address in (each.strip("[]") for each in DISGUISES):

                async def resolve(host, port, address=address):
                    return [address]

                egress = Egress(resolve=resolve)
                await failed(egress, named(port, allow=allow))
                await egress.close()
            assert heads == []

    asyncio.run(main())


@pytest.mark.requirement("GW-06")
@pytest.mark.row("F", "T62", "CVE-2026-32871")
@pytest.mark.parametrize("status", ["301", "302", "303", "307", "308"])
def test_a_redirect_is_an_answer_and_is_not_followed(tmp_path, status):
    async def main():
        async with listening() as (inside, reached):
            head = f"HTTP/1.1 {status} Moved\r\nLocation: http://127.0.0.1:{inside}/secret\r\n"
            async with listening(head.encode() + b"Content-Length: 0\r\n\r\n") as (port, heads):
                url = f"http://127.0.0.1:{port}"
                async with rig(tmp_path, policy=AllowAll(), upstream_url=url) as each:
                    address = f"http://127.0.0.1:{each.server.port}/payments/orders/17"
                    asked = each.http.get(
                        address,
                        headers={"Authorization": f"Bearer {each.agent}"},
                        allow_redirects=False,
                    )
                    async with asked as answer:
                        assert answer.status == int(status)
                    made = each.http.post(
                        f"{address}/refunds",
                        headers={"Authorization": f"Bearer {each.agent}", "Idempotency-Key": "k"},
                        json={"amount": 1, "currency": "EUR"},
                        allow_redirects=False,
                    )
                    async with made as answer:
                        assert answer.status == int(status)
            assert len(heads) == 2 and reached == []

    asyncio.run(main())


@pytest.mark.requirement("GW-06")
@pytest.mark.row("F")
def test_proxies_and_credentials_of_the_environment_are_not_used(tmp_path, monkeypatch):
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login root password secret\n")
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    monkeypatch.setenv("HOME", str(tmp_path))

    async def main():
        async with listening() as (port, heads), listening() as (proxy, reached):
            for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
                value = f"http://127.0.0.1:{proxy}" if name != "no_proxy" else ""
                monkeypatch.setenv(name, value)
                monkeypatch.setenv(name.upper(), value)
            egress = Egress()
            for reuse in (True, False):
                await egress.request(
                    named(port, "127.0.0.1"), "GET", "/", deadline_ns=SECOND, reuse=reuse
                )
            await egress.close()
            assert len(heads) == 2 and reached == []
            assert b"authorization" not in heads[0].lower()

    asyncio.run(main())


@pytest.mark.requirement("GW-06")
@pytest.mark.row("F")
def test_no_name_of_this_machine_leads_back_to_a_port_of_ours():
    async def main():
        async with listening(host="0.0.0.0") as (port, heads):

            async def resolve(host, _port):
                return [host.removesuffix(".example").replace("-", ".")]

            egress = Egress(own_ports=frozenset({port}), resolve=resolve)
            hosts = ("127.0.0.1", "127.9.8.7", "[::ffff:127.0.0.1]", "127-0-0-1.example")
            for host in hosts:
                reason = await failed(egress, named(port, host, ("127.0.0.0/8",)))
                assert "sidecar's own" in reason, (host, reason)
            await failed(egress, named(port, "0.0.0.0", ("0.0.0.0/8",)))
            await egress.close()
            assert heads == []

    asyncio.run(main())


@pytest.mark.requirement("GW-06")
@pytest.mark.row("T61")
def test_a_range_that_is_named_for_one_upstream_is_open_to_it_and_to_no_other():
    """What is refused by default is not refused for good: carrier-grade NAT, for one."""
    shared = "http://100.64.0.1:8080"
    assert undialable(Target(name="up", url=shared, allow_cidrs=("100.64.0.0/10",))) is None
    assert undialable(Target(name="other", url=shared)) is not None
    assert undialable(Target(name="other", url=shared, allow_cidrs=("10.0.0.0/8",))) is not None
