"""TLS of a listener: what it shows, whom it asks, how it follows its files, what it refuses."""

import asyncio
import ssl
import time

import aiohttp
import grpc
import pytest
import uvloop
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric import ec

from sidecar.errors import SidecarError
from sidecar.identity.client import certificate_of
from sidecar.identity.grpc import shown
from sidecar.listen.config import Tls
from sidecar.listen.fault import ConnectionLimits
from sidecar.listen.files import Certificate
from sidecar.listen.grpc import bind
from sidecar.listen.http import Listener, Manners
from tests.tls_rig import Authority, key_pem, write

HERE = ("ip:127.0.0.1", "dns:localhost")
AGENT = "uri:spiffe://shop/agent"


async def whoami(request):
    return web.json_response(list(certificate_of(request)))


@pytest.fixture(scope="module")
def authority():
    return Authority()


@pytest.fixture(scope="module")
def server_pair(authority):
    return authority.issue(*HERE)


def settings(folder, pair, *, clients=None, auth="none"):
    cert_file, key_file = write(folder, pair)
    ca_file = ""
    if clients is not None:
        (folder / "clients.pem").write_bytes(clients.pem)
        ca_file = str(folder / "clients.pem")
    return Tls(cert_file=cert_file, key_file=key_file, client_ca_file=ca_file, client_auth=auth)


def opened(tls, told=None):
    given = {"tell": lambda what, error: told.append((what, error))} if told is not None else {}
    where = "configuration key x.tls"
    return Certificate(tls, where=where, now_s=time.time, look_seconds=0.02, **given)


def certificate(folder, pair, *, told=None, **more):
    return opened(settings(folder, pair, **more), told)


class Http:
    """An HTTP listener with TLS, and requests to it."""

    def __init__(self, made, **limits):
        manners = Manners(record=lambda *_: None, tls=made, limits=ConnectionLimits(**limits))
        self.listener = Listener(whoami, "127.0.0.1", 0, manners)

    async def __aenter__(self):
        await self.listener.start()
        self.port = self.listener.port
        return self

    async def __aexit__(self, *_):
        await self.listener.stop()

    async def names(self, context):
        connector = aiohttp.TCPConnector(ssl=context, force_close=True)
        url = f"https://127.0.0.1:{self.port}/"
        async with (
            aiohttp.ClientSession(connector=connector) as session,
            session.get(url) as answer,
        ):
            return await answer.json()


class Grpc:
    """A gRPC server with TLS that answers the caller's certificate names."""

    def __init__(self, made):
        self.made = made

    async def __aenter__(self):
        async def names(_, context):
            return "\n".join(shown(context).certificate).encode()

        self.server = grpc.aio.server()
        handlers = {"Names": grpc.unary_unary_rpc_method_handler(names)}
        self.server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler("x.X", handlers),)
        )
        self.port = bind(self.server, "127.0.0.1:0", self.made)
        await self.server.start()
        return self

    async def __aexit__(self, *_):
        await self.server.stop(0)

    async def names(self, authority, *pair):
        certificate, key = pair or (None, None)
        credentials = grpc.ssl_channel_credentials(authority.pem, key, certificate)
        async with grpc.aio.secure_channel(f"localhost:{self.port}", credentials) as channel:
            said = await channel.unary_unary("/x.X/Names")(b"", timeout=5)
        return said.decode().split("\n") if said else []


@pytest.mark.requirement("OPS-01")
def test_http_speaks_tls_and_nothing_before_1_2(tmp_path, authority, server_pair):
    async def run():
        async with Http(certificate(tmp_path, server_pair)) as http:
            assert await http.names(authority.trusting(tmp_path)) == []
            with pytest.raises(aiohttp.ClientConnectorCertificateError):
                await http.names(Authority("another").trusting(tmp_path))
            old = authority.trusting(tmp_path)
            old.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
            old.maximum_version = ssl.TLSVersion.TLSv1_1
            old.set_ciphers("ALL:@SECLEVEL=0")
            with pytest.raises(aiohttp.ClientConnectorError):
                await http.names(old)
            # In clear, over the same port, nobody is served.
            async with aiohttp.ClientSession() as session:
                with pytest.raises(aiohttp.ClientError):
                    await session.get(f"http://127.0.0.1:{http.port}/")

    with pytest.warns(DeprecationWarning):
        asyncio.run(run())


@pytest.mark.requirement("GW-07")
@pytest.mark.parametrize("auth", ["optional", "required"])
def test_http_tells_the_names_of_a_certificate_it_verified(tmp_path, authority, server_pair, auth):
    clients, strangers = Authority("clients"), Authority("strangers")
    good = clients.issue(AGENT, "dns:agent.internal", client=True)
    bad = {
        "another authority": strangers.issue(AGENT, client=True),
        "expired": clients.issue(AGENT, client=True, days=(-9, -1)),
        "a listener's": clients.issue(AGENT, client=False),
    }

    async def run():
        made = certificate(tmp_path, server_pair, clients=clients, auth=auth)
        async with Http(made) as http:
            said = await http.names(authority.trusting(tmp_path, *good))
            assert said == [AGENT, "dns:agent.internal"]
            for why, pair in bad.items():
                with pytest.raises(aiohttp.ClientError):
                    await http.names(authority.trusting(tmp_path, *pair))
                    pytest.fail(why)
            if auth == "optional":
                assert await http.names(authority.trusting(tmp_path)) == []
            else:
                with pytest.raises(aiohttp.ClientError):
                    await http.names(authority.trusting(tmp_path))

    asyncio.run(run())


@pytest.mark.requirement("GW-07")
def test_grpc_tells_the_names_of_a_certificate_it_verified(tmp_path, authority, server_pair):
    clients = Authority("clients")
    good = clients.issue(AGENT, "dns:agent.internal", client=True)
    refused = (
        clients.issue(AGENT, client=True, days=(-9, -1)),
        Authority().issue(AGENT, client=True),
    )

    async def run():
        made = certificate(tmp_path, server_pair, clients=clients, auth="required")
        async with Grpc(made) as server:
            assert await server.names(authority, *good) == [AGENT, "dns:agent.internal"]
            for pair in (*refused, ()):
                with pytest.raises(grpc.aio.AioRpcError) as caught:
                    await server.names(authority, *pair)
                assert caught.value.code() == grpc.StatusCode.UNAVAILABLE

    asyncio.run(run())


async def until(condition, seconds=10):
    async with asyncio.timeout(seconds):
        while not await condition():
            await asyncio.sleep(0.01)


def works(ask, *given):
    async def asked():
        try:
            await ask(*given)
        except (aiohttp.ClientError, grpc.aio.AioRpcError):
            return False
        return True

    return asked


@pytest.mark.requirement("OPS-01")
@pytest.mark.parametrize("loop", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_http_follows_a_renewed_certificate_and_keeps_open_connections(tmp_path, loop):
    old, new, told = Authority("old"), Authority("new"), []

    async def run():
        made = certificate(tmp_path, old.issue(*HERE), told=told)
        async with Http(made) as http:
            connector = aiohttp.TCPConnector(ssl=old.trusting(tmp_path), limit=1)
            async with aiohttp.ClientSession(connector=connector) as session:
                url = f"https://127.0.0.1:{http.port}/"
                async with session.get(url) as answer:
                    assert answer.status == 200
                write(tmp_path, new.issue(*HERE))
                await until(works(http.names, new.trusting(tmp_path)))
                async with session.get(url) as answer:  # the connection from before
                    assert answer.status == 200
            assert not await works(http.names, old.trusting(tmp_path))()
            for stem in (old, new) * 3:  # again and again, on the same port
                write(tmp_path, stem.issue(*HERE))
                await until(works(http.names, stem.trusting(tmp_path)))

    loop(run())
    assert [what for what, _ in told if what == "certificate_renewed"]


@pytest.mark.requirement("OPS-01")
def test_an_authority_for_clients_that_is_taken_out_is_trusted_no_more(
    tmp_path, authority, server_pair
):
    before, after = Authority("before"), Authority("after")
    old, new = before.issue(AGENT, client=True), after.issue(AGENT, client=True)

    async def run():
        http_made = certificate(tmp_path, server_pair, clients=before, auth="required")
        grpc_made = certificate(tmp_path, server_pair, clients=before, auth="required")
        async with Http(http_made) as http, Grpc(grpc_made) as server:
            assert await works(http.names, authority.trusting(tmp_path, *old))()
            assert await works(server.names, authority, *old)()
            (tmp_path / "clients.pem").write_bytes(after.pem)
            await until(works(http.names, authority.trusting(tmp_path, *new)))
            await until(works(server.names, authority, *new))
            assert not await works(http.names, authority.trusting(tmp_path, *old))()
            assert not await works(server.names, authority, *old)()

    asyncio.run(run())


def test_grpc_follows_a_renewed_certificate(tmp_path):
    old, new = Authority("old"), Authority("new")

    async def run():
        async with Grpc(certificate(tmp_path, old.issue(*HERE))) as server:
            assert await server.names(old) == []
            write(tmp_path, new.issue(*HERE))
            assert await server.names(new) == []
            with pytest.raises(grpc.aio.AioRpcError):
                await server.names(old)

    asyncio.run(run())


def test_a_renewal_that_cannot_be_used_changes_nothing_and_is_told_once(tmp_path, server_pair):
    told = []
    made = certificate(tmp_path, server_pair, told=told)
    before = made.material
    (tmp_path / "server.pem").write_bytes(b"half a certif")
    assert not made.renewed() and not made.renewed()
    assert made.material == before
    [(what, error)] = told
    assert what == "certificate_refused" and str(tmp_path / "server.pem") in error.text()
    write(tmp_path, server_pair)
    assert made.renewed() and not made.renewed()


def broken(folder, authority):
    other = ec.generate_private_key(ec.SECP256R1())
    good = authority.issue(*HERE)
    return {
        "expired at": authority.issue(*HERE, days=(-9, -1)),
        "not valid before": authority.issue(*HERE, days=(2, 9)),
        "does not belong": (good[0], key_pem(other)),
        "encrypted": (good[0], key_pem(other, b"secret")),
        "no private key": (good[0], b"nothing"),
        "no certificate": (b"nothing", good[1]),
    }


@pytest.mark.parametrize(
    "said",
    ["expired at", "not valid before", "does not belong", "encrypted", "no private key",
     "no certificate"],
)  # fmt: skip
def test_a_pair_that_cannot_be_used_stops_the_start_and_is_named(tmp_path, authority, said):
    with pytest.raises(SidecarError) as caught:
        certificate(tmp_path, broken(tmp_path, authority)[said])
    assert said in caught.value.what and str(tmp_path) in caught.value.where + caught.value.what
    assert caught.value.do


@pytest.mark.parametrize("gone", ["server.pem", "server.key", "clients.pem"])
def test_a_missing_file_stops_the_start_and_is_named(tmp_path, authority, server_pair, gone):
    tls = settings(tmp_path, server_pair, clients=authority, auth="required")
    (tmp_path / gone).unlink()
    with pytest.raises(SidecarError) as caught:
        opened(tls)
    assert "No such file" in caught.value.what and caught.value.where == str(tmp_path / gone)


@pytest.mark.parametrize(
    ("tls", "path"),
    [
        (Tls(cert_file="a"), "key_file"),
        (Tls(key_file="a"), "cert_file"),
        (Tls(client_auth="required"), "cert_file"),
        (Tls(cert_file="a", key_file="b", client_auth="required"), "client_ca_file"),
        (Tls(cert_file="a", key_file="b", client_ca_file="c"), "client_auth"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(tls, path):
    assert path in [problem.path for problem in tls.problems()]


def test_grpc_cannot_ask_and_do_without(tmp_path):
    tls = Tls(cert_file="a", key_file="b", client_ca_file="c", client_auth="optional")
    assert [each.path for each in tls.problems(grpc=True)] == ["client_auth"]
    assert list(tls.problems()) == []


def test_a_peer_that_never_begins_tls_is_hung_up_on(tmp_path, server_pair):
    async def run():
        async with Http(certificate(tmp_path, server_pair), head_seconds=0.2) as http:
            reader, writer = await asyncio.open_connection("127.0.0.1", http.port)
            async with asyncio.timeout(5):
                assert await reader.read() == b""
            writer.close()

    asyncio.run(run())
