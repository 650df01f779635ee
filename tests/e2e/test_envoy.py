"""A real Envoy before a real upstream asks the gateway about every request it carries."""

import asyncio
import json
import socket
import subprocess
from contextlib import asynccontextmanager

import aiohttp
import grpc
import pytest
from gateway_rig import rig
from mcp_rig import AllowListed

from sidecar.gateway.authz.grpc import ExtAuthz
from tests.built_tools import program

pytestmark = [pytest.mark.full, pytest.mark.requirement("EXT-01")]

HTTP = "type.googleapis.com/envoy.extensions.filters"
BODY = {"amount": 20, "currency": "EUR"}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def cluster(name, port, **more):
    end = {"address": {"socket_address": {"address": "127.0.0.1", "port_value": port}}}
    return {
        "name": name, "type": "STATIC", "connect_timeout": "1s",
        "load_assignment": {
            "cluster_name": name,
            "endpoints": [{"lb_endpoints": [{"endpoint": end}]}],
        }, **more,
    }  # fmt: skip


def configured(listen, shop, sidecar, bodies):
    """What docs/specs/gateway.md tells Envoy to do; without ``bodies`` it keeps them to itself."""
    check = {
        "@type": f"{HTTP}.http.ext_authz.v3.ExtAuthz",
        "transport_api_version": "V3", "failure_mode_allow": False,
        "grpc_service": {"envoy_grpc": {"cluster_name": "sidecar"}, "timeout": "2s"},
        "with_request_body": {
            "max_request_bytes": 49152, "allow_partial_message": False, "pack_as_bytes": True,
        },
    }  # fmt: skip
    if not bodies:
        del check["with_request_body"]
    route = {
        "match": {"prefix": "/"}, "route": {"cluster": "shop"},
        "typed_per_filter_config": {
            "envoy.filters.http.ext_authz": {
                "@type": f"{HTTP}.http.ext_authz.v3.ExtAuthzPerRoute",
                "check_settings": {"context_extensions": {"agenttwin.upstream": "payments"}},
            }
        },
    }  # fmt: skip
    manager = {
        "@type": f"{HTTP}.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "mesh",
        "route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [route]}]},
        "http_filters": [
            {"name": "envoy.filters.http.ext_authz", "typed_config": check},
            {"name": "envoy.filters.http.router",
             "typed_config": {"@type": f"{HTTP}.http.router.v3.Router"}},
        ],
    }  # fmt: skip
    options = {
        "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
            "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
            "explicit_http_config": {"http2_protocol_options": {}},
        }
    }
    listener = {
        "name": "mesh",
        "address": {"socket_address": {"address": "127.0.0.1", "port_value": listen}},
        "filter_chains": [{"filters": [
            {"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}
        ]}],
    }  # fmt: skip
    clusters = [
        cluster("shop", shop),
        cluster("sidecar", sidecar, typed_extension_protocol_options=options),
    ]
    return {"static_resources": {"listeners": [listener], "clusters": clusters}}


@asynccontextmanager
async def envoy(folder, listen, shop, sidecar, bodies):
    """Envoy's process, listening."""
    config = folder / "envoy.json"
    config.write_text(json.dumps(configured(listen, shop, sidecar, bodies)))
    with (folder / "envoy.log").open("wb") as log:
        process = subprocess.Popen(
            [program("envoy"), "-c", str(config), "--disable-hot-restart", "--concurrency", "1"],
            stdout=log, stderr=log,
        )  # fmt: skip
        try:
            async with asyncio.timeout(30):
                while True:
                    assert process.poll() is None, (folder / "envoy.log").read_text()
                    try:
                        _, writer = await asyncio.open_connection("127.0.0.1", listen)
                        break
                    except OSError:
                        await asyncio.sleep(0.02)
            writer.close()
            yield
        finally:
            process.terminate()
            process.wait(10)


def run(folder, scenario, *, irreversible=False, bodies=True, **options):
    async def main():
        policy = AllowListed(denied={"get_order"} if options.pop("deny", False) else ())
        async with rig(folder, policy=policy, **options) as each:
            server = grpc.aio.server()
            service = ExtAuthz(each.gateway, each.authenticate, irreversible=irreversible)
            server.add_generic_rpc_handlers((service.handlers,))
            port, listen = server.add_insecure_port("127.0.0.1:0"), free_port()
            await server.start()
            each.policy, each.check = policy, server
            try:
                async with envoy(folder, listen, each.shop.port, port, bodies):
                    each.mesh = f"http://127.0.0.1:{listen}"
                    await scenario(each)
            finally:
                await server.stop(None)

    asyncio.run(main())


async def ask(each, method, path, *, json=None, data=None, credential=None, **headers):
    """One request through the mesh: status, headers, body."""
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    sent["Authorization"] = f"Bearer {credential or each.agent}"
    async with (
        aiohttp.ClientSession() as http,
        http.request(method, each.mesh + path, json=json, data=data, headers=sent) as answer,
    ):
        return answer.status, answer.headers, await answer.read()


def code(body):
    return json.loads(body)["code"]


def test_what_is_let_through_reaches_the_tool_as_it_was_judged_and_without_its_credential(tmp_path):
    async def scenario(each):
        status, _, body = await ask(each, "GET", "/orders/17?a=b")
        assert (status, json.loads(body)["path"]) == (200, "/orders/17?a=b")
        _, _, headers, _ = each.shop.seen[0]
        assert "authorization" not in headers
        assert headers["x-agenttwin-enforcement"] == "decision-only"
        assert headers["gateway-decision"]
        status, _, _ = await ask(each, "POST", "/orders/17/notes", json={"text": "caf\u00e9"})
        assert each.policy.asked[-1]["arguments"] == {"order_id": "17", "text": "caf\u00e9"}

        async def chunks():
            yield b'{"text": '
            yield b'"in parts"}'

        kind = {"Content_Type": "application/json"}
        status, _, _ = await ask(each, "POST", "/orders/17/notes", data=chunks(), **kind)
        assert each.policy.asked[-1]["arguments"]["text"] == "in parts"
        assert json.loads(each.shop.seen[-1][3]) == {"text": "in parts"}
        assert len(each.shop.seen) == 3

    run(tmp_path, scenario)


def test_what_is_refused_is_told_the_caller_and_reaches_nobody(tmp_path):
    async def scenario(each):
        status, headers, body = await ask(
            each, "POST", "/orders/17/refunds", json=BODY, Idempotency_Key="k"
        )
        assert (status, code(body)) == (403, "irreversible_not_here")
        assert headers["Content-Type"] == "application/problem+json"
        assert headers["x-agenttwin-enforcement"] == "decision-only"
        status, _, body = await ask(each, "GET", "/orders/17")
        assert (status, code(body)) == (403, "not_this_one")
        status, _, body = await ask(each, "GET", "/orders/17", credential="nonsense")
        assert (status, code(body)) == (401, "unauthenticated")
        status, _, body = await ask(each, "DELETE", "/orders/17")
        assert (status, code(body)) == (404, "no_such_tool")
        status, _, body = await ask(each, "GET", "/orders/17", X_HTTP_Method_Override="DELETE")
        assert (status, code(body)) == (400, "method_override")
        large = {"text": "x" * 60_000}
        status, _, _ = await ask(each, "POST", "/orders/17/notes", json=large)
        assert status == 413  # Envoy's own word: it may not ask about a part of a body
        assert each.shop.requests == 0

    run(tmp_path, scenario, deny=True)


@pytest.mark.row("CVE-2026-26205", "CVE-2019-9901", "T57")
def test_a_path_is_judged_as_it_reaches_the_tool_or_not_at_all(tmp_path):
    paths = (
        "/orders/17", "/orders//17", "/orders/./17", "/orders/../orders/17", "/orders/%2e%2e/17",
        "/orders/17%2fnotes", "/orders/%31%37", "/orders/17;a=b", "//orders/17", "/orders/17/",
        "/orders/17?x=a+b", "/orders/17%00",
    )  # fmt: skip

    async def scenario(each):
        for path in paths:
            before, asked = len(each.shop.seen), len(each.policy.asked)
            reader, writer = await asyncio.open_connection(*each.mesh[7:].split(":"))
            lines = [f"GET {path} HTTP/1.1", "Host: mesh", f"Authorization: Bearer {each.agent}"]
            writer.write("\r\n".join([*lines, "Connection: close", "", ""]).encode())
            await reader.read()
            writer.close()
            for _, raw_path, _, _ in each.shop.seen[before:]:
                assert raw_path.partition("?")[0] == each.policy.asked[-1]["http"]["path"], path
                assert len(each.policy.asked) == asked + 1
        assert each.shop.seen[0][1] == "/orders/17"
        assert all(seen[1].startswith("/orders/17") for seen in each.shop.seen)

    run(tmp_path, scenario)


def test_a_mesh_that_keeps_bodies_to_itself_gets_nothing_through_that_has_one(tmp_path):
    async def chunks():
        yield b'{"text": "unseen"}'

    async def scenario(each):
        spoofed = {"X_Envoy_Auth_Partial_Body": "false", "Content_Type": "application/json"}
        for given in (
            {"json": {"text": "unseen"}}, {"data": chunks(), **spoofed}, {"data": chunks()},
        ):  # fmt: skip
            status, _, body = await ask(each, "POST", "/orders/17/notes", **given)
            assert (status, code(body)) == (400, "body_missing")
        assert each.shop.requests == 0

    run(tmp_path, scenario, bodies=False)


@pytest.mark.row("T17")
def test_where_the_gateway_cannot_be_asked_nothing_is_let_through(tmp_path):
    async def scenario(each):
        await each.check.stop(None)
        status, _, _ = await ask(each, "GET", "/orders/17")
        assert status == 403
        assert each.shop.requests == 0

    run(tmp_path, scenario)
