"""The processes of the gateway's benchmark: upstream, bare proxy, gateway; and nginx with OPA.

Each process of ours prints its port and serves until its stdin closes; between the lines ``begin``
and ``end N`` it profiles what it does for N requests.
"""

import asyncio
import copy
import cProfile
import io
import json
import pstats
import shutil
import sys
from pathlib import Path

import aiohttp
import uvloop
from aiohttp import web
from msgspec import structs

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parent)]
from _peers import CACHE, Peer, free_ports  # noqa: E402
from gateway_rig import keyring  # noqa: E402

from processors.model.principal import Principal  # noqa: E402
from sidecar.egress.client import Egress  # noqa: E402
from sidecar.gateway.client import HttpUpstreams  # noqa: E402
from sidecar.gateway.config import Approvals, Cost, Fatigue, Match, Tool, Upstream  # noqa: E402
from sidecar.gateway.driver import Gateway, Ports, Settings  # noqa: E402
from sidecar.gateway.http import GatewayServer  # noqa: E402
from sidecar.gateway.policy.files import load_bundle  # noqa: E402
from sidecar.gateway.policy.worker import PolicyWorker  # noqa: E402
from sidecar.gateway.registry import Registry  # noqa: E402
from sidecar.receive.memory import keep_objects  # noqa: E402
from sidecar.store.sqlite.keys import SqliteKeys  # noqa: E402
from sidecar.store.sqlite.ledger import SqliteLedger  # noqa: E402

AGENT = Principal(id="key:bench", kind="agent", project="bench")
CLOSE = []
"""What this process opened, to be closed when stdin ends."""
ANSWER = json.dumps({"refunded": True, "order": "x" * 100}).encode()
DENIED = "close_order"
END = "end of the profile"

_REGO = """package bench
import rego.v1
allow := true if {
    input.method in {"GET", "POST"}
    startswith(input.uri, "/orders/")
    not endswith(input.uri, "/close")
}
"""
_NGINX = """
worker_processes 1;
error_log FOLDER/error.log;
pid FOLDER/nginx.pid;
events { worker_connections 256; }
http {
  access_log off;
  client_body_temp_path FOLDER/body; proxy_temp_path FOLDER/proxy; fastcgi_temp_path FOLDER/fastcgi;
  uwsgi_temp_path FOLDER/uwsgi; scgi_temp_path FOLDER/scgi;
  upstream opa { server 127.0.0.1:OPA; keepalive 32; }
  upstream tool { server 127.0.0.1:TOOL; keepalive 32; }
  server {
    listen 127.0.0.1:NGINX;
    keepalive_requests 1000000;
    location / {
      auth_request /allowed;
      proxy_pass http://tool;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
    }
    location = /allowed {
      internal;
      proxy_method POST;
      proxy_set_body '{"method":"$request_method","uri":"$request_uri"}';
      proxy_set_header Content-Type application/json;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_pass http://opa/v0/data/bench/allow;
      proxy_intercept_errors on;
      error_page 404 = @undefined;
    }
    location @undefined { return 403; }
  }
}
"""


async def listen(handler):
    """Serve a low-level handler on a free port; the port."""
    runner = web.ServerRunner(web.Server(handler, access_log=None))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    return runner.addresses[0][1]


async def upstream():
    async def answer(request):
        await request.read()
        return web.Response(body=ANSWER, content_type="application/json")

    return await listen(answer)


async def bare_proxy(target):
    session = aiohttp.ClientSession(auto_decompress=False)
    CLOSE.append(session.close)

    async def forward(request):
        body = await request.read()
        url = f"http://127.0.0.1:{target}{request.raw_path}"
        async with session.request(request.method, url, data=body or None) as answer:
            kept = {"Content-Type": answer.headers["Content-Type"]}
            return web.Response(status=answer.status, body=await answer.read(), headers=kept)

    return await listen(forward)


async def known(_):
    return AGENT


def bundle():
    """The default bundle, which never lets one tool be called."""
    found = load_bundle()
    data = copy.deepcopy(found.data)
    data["settings"]["tools"]["denied"] = [DENIED]
    return structs.replace(found, data=data)


async def gateway(target, folder):
    keys = SqliteKeys(Path(folder) / "ledger.db")
    ledger = SqliteLedger(Path(folder) / "ledger.db", keyring(keys))
    where = Upstream(name="t", url=f"http://127.0.0.1:{target}", allow_cidrs=("127.0.0.0/8",))
    cost = Cost(amount="arguments.amount", currency="arguments.currency")
    registry = Registry.from_config(
        (where,),
        (
            Tool(name="get", upstream="t", class_="read",
                 match=Match(method="GET", path="/orders/{order_id}")),
            Tool(name="refund", upstream="t", cost=cost,
                 match=Match(method="POST", path="/orders/{order_id}/refunds")),
            Tool(name=DENIED, upstream="t",
                 match=Match(method="POST", path="/orders/{order_id}/close")),
        ),
        {},
    )  # fmt: skip
    policy = PolicyWorker(bundle())
    await policy.start()
    CLOSE.append(policy.stop)
    upstreams = HttpUpstreams(registry, Egress())
    CLOSE.append(upstreams.close)
    ports = Ports(ledger=ledger, registry=registry, policy=policy, upstreams=upstreams)
    asked = Approvals(fatigue=Fatigue(requests_max=10**9))
    made = Gateway(ports, Settings(accept_ephemeral_ledger=True, approvals=asked))
    await made.start()
    server = GatewayServer(made, known, listen="127.0.0.1:0")
    await server.start()
    CLOSE.append(server.stop)
    return server.port


async def serve(arguments):
    """One of the processes: its port to stdout, then until stdin closes."""
    kind, *rest = arguments
    start = {"upstream": upstream, "proxy": bare_proxy, "gateway": gateway}[kind]
    port = await start(*rest)
    keep_objects()  # as a sidecar does
    print(port, flush=True)
    profile = cProfile.Profile()
    while line := await asyncio.to_thread(sys.stdin.readline):
        if line.startswith("begin"):
            profile.enable()
        else:
            profile.disable()
            told(profile, int(line.split()[1]))
    for close in reversed(CLOSE):
        await close()


def told(profile, requests):
    """Print what the event loop's thread did for each request, most of its own time first."""
    stats = pstats.Stats(profile, stream=(text := io.StringIO()))
    print(f"{stats.total_calls / requests:.0f} function calls a request")
    stats.strip_dirs().sort_stats("tottime").print_stats(25)
    print(text.getvalue() + END, flush=True)


def nginx_with_opa(folder, target):
    """(nginx with ``auth_request``, the OPA server it asks) in front of a port, and None; or None
    and which of them is not installed.
    """
    tools = CACHE / "bin"
    opa = shutil.which("opa") or shutil.which(str(tools / "opa"))
    nginx = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")
    missing = [name for name, found in (("nginx", nginx), ("opa", opa)) if found is None]
    if missing:
        return None, " and ".join(missing)
    folder = Path(folder).resolve()
    (folder / "bench.rego").write_text(_REGO)
    opa_ports, nginx_ports = ({"http": free_ports()["http"]} for _ in range(2))
    text = _NGINX.replace("FOLDER", str(folder)).replace("TOOL", str(target))
    text = text.replace("OPA", str(opa_ports["http"])).replace("NGINX", str(nginx_ports["http"]))
    (folder / "nginx.conf").write_text(text)
    with open(folder / "peers.out", "wb") as out:
        asked = [
            *(opa, "run", "--server", "--addr", f"127.0.0.1:{opa_ports['http']}"),
            *("--log-level", "error", "--disable-telemetry", str(folder / "bench.rego")),
        ]
        decides = Peer(asked, opa_ports, stdout=out, stderr=out).wait()
        command = [nginx, "-p", str(folder), "-c", "nginx.conf", "-g", "daemon off;"]
        try:
            return (Peer(command, nginx_ports, stdout=out, stderr=out).wait(), decides), None
        except BaseException:
            decides.stop()
            raise


if __name__ == "__main__":
    uvloop.run(serve(sys.argv[1:]))
