"""Real clients through the gateway, by reverse and forward proxy: what they send and what they get
are the bytes, on every way."""

import asyncio
import base64
import gzip
import hashlib
import json
import shutil
import subprocess
import sys
from urllib.parse import urlsplit

import pytest
from aiohttp import web
from gateway_rig import AllowAll, keyring

from sidecar import clock
from sidecar.egress.client import Egress
from sidecar.gateway.client import HttpUpstreams
from sidecar.gateway.config import Match, Tool, Upstream
from sidecar.gateway.driver import Gateway, Ports, Settings
from sidecar.gateway.http import GatewayServer
from sidecar.gateway.registry import Registry
from sidecar.identity.keys import authenticate, mint
from sidecar.store.sqlite.keys import SqliteKeys
from sidecar.store.sqlite.ledger import SqliteLedger

BODIES = {
    "spaced JSON": ("application/json", b'{ "b":1.50,  "a":[1,2 ,3], "t":"\\u00e9" }\n'),
    "JSON in UTF-8": ("application/json; charset=utf-8", '{"t":"é€😀","n":null}'.encode()),
    "a form": ("application/x-www-form-urlencoded", b"a=1&a=2&b=%20x+y"),
    "half a mebibyte": ("application/json", b'{"t":"' + b"x" * (512 * 1024) + b'"}'),
}
PATHS = ("/echo/plain", "/echo/a%20b", "/echo/%C3%A9", "/echo/a:b@c?x=1&x=2&y=%2F")
SAID = {
    "binary": ("application/octet-stream", bytes(range(256)) * 512),
    "coded": ("application/json", gzip.compress(b'{"a": 1}', mtime=0)),
    "empty": ("text/plain", b""),
}

CURL = r"""
args=(-sS -X "$METHOD" "$URL" -H "$CREDENTIAL" -H "Idempotency-Key: $KEY" -o "$OUT")
[ -n "$PROXY" ] && args+=(--proxy "$PROXY" --noproxy "")
[ -n "$BODY" ] && args+=(--data-binary "@$BODY" -H "Content-Type: $TYPE" -H "Expect:")
[ -n "$CHUNKED" ] && args+=(-H "Transfer-Encoding: chunked")
exec curl "${args[@]}"
"""
NODE = r"""
const fs = require("fs"), http = require("http"), env = process.env;
const headers = {"Idempotency-Key": env.KEY};
const [name, value] = env.CREDENTIAL.split(": ");
headers[name] = value;
const body = env.BODY ? fs.readFileSync(env.BODY) : undefined;
if (body) headers["Content-Type"] = env.TYPE;
if (env.PROXY) {
  const proxy = new URL(env.PROXY);
  headers["Host"] = new URL(env.URL).host;
  if (body && !env.CHUNKED) headers["Content-Length"] = body.length;
  const asked = http.request({host: proxy.hostname, port: proxy.port, method: env.METHOD,
    path: env.URL, headers}, (answer) => {
    const parts = [];
    answer.on("data", (part) => parts.push(part));
    answer.on("end", () => fs.writeFileSync(env.OUT, Buffer.concat(parts)));
  });
  asked.end(body);
} else {
  fetch(env.URL, {method: env.METHOD, headers, body}).then(async (answer) =>
    fs.writeFileSync(env.OUT, Buffer.from(await answer.arrayBuffer())));
}
"""
REQUESTS = r"""
import os, requests
env = os.environ
name, _, value = env["CREDENTIAL"].partition(": ")
headers = {name: value, "Idempotency-Key": env["KEY"]}
body = open(env["BODY"], "rb").read() if env["BODY"] else None
if body is not None:
    headers["Content-Type"] = env["TYPE"]
    body = iter([body[:7], body[7:]]) if env["CHUNKED"] else body
proxies = {"http": env["PROXY"]} if env["PROXY"] else {}
session = requests.Session()
session.trust_env = False
answer = session.request(env["METHOD"], env["URL"], headers=headers, data=body, proxies=proxies)
open(env["OUT"], "wb").write(answer.content)
"""
AIOHTTP = r"""
import asyncio, os, aiohttp
from yarl import URL
env = os.environ
name, _, value = env["CREDENTIAL"].partition(": ")
headers = {name: value, "Idempotency-Key": env["KEY"]}
body = open(env["BODY"], "rb").read() if env["BODY"] else None
if body is not None:
    headers["Content-Type"] = env["TYPE"]
async def parts():
    yield body[:7]
    yield body[7:]
async def main():
    async with aiohttp.ClientSession() as session:
        data = parts() if env["CHUNKED"] and body is not None else body
        async with session.request(env["METHOD"], URL(env["URL"], encoded=True), headers=headers,
                                   data=data, proxy=env["PROXY"] or None) as answer:
            open(env["OUT"], "wb").write(await answer.read())
asyncio.run(main())
"""
HTTPX = r"""
import os, httpx2
env = os.environ
name, _, value = env["CREDENTIAL"].partition(": ")
headers = {name: value, "Idempotency-Key": env["KEY"]}
body = open(env["BODY"], "rb").read() if env["BODY"] else None
if body is not None:
    headers["Content-Type"] = env["TYPE"]
    body = iter([body[:7], body[7:]]) if env["CHUNKED"] else body
with httpx2.Client(proxy=env["PROXY"] or None, trust_env=False, timeout=30) as client:
    answer = client.request(env["METHOD"], env["URL"], headers=headers, content=body)
    open(env["OUT"], "wb").write(answer.content)
"""
CLIENTS = {
    "curl": ["bash", "-c", CURL],
    "node": ["node", "-e", NODE],
    "requests": [sys.executable, "-c", REQUESTS],
    "aiohttp": [sys.executable, "-c", AIOHTTP],
    "httpx2": [sys.executable, "-c", HTTPX],
}


class Echo:
    """An upstream that tells what it received, or says what it is asked for."""

    async def handle(self, request):
        body = await request.read()
        if request.path == "/echo/say":
            kind, data = SAID[request.query["what"]]
            headers = {"Content-Type": kind}
            if request.query["what"] == "coded":
                headers["Content-Encoding"] = "gzip"
            return web.Response(body=data, headers=headers)
        return web.json_response(
            {
                "method": request.method,
                "path": request.raw_path,
                "content_type": request.headers.get("Content-Type"),
                "body": hashlib.sha256(body).hexdigest(),
                "head": base64.b64encode(body[:64]).decode(),
                "credentials": [n for n in request.headers if "auth" in n.lower()],
                "coded": request.headers.get("Transfer-Encoding"),
            }
        )


def tools():
    methods = {"GET": "read", "POST": "write", "PUT": "write", "PATCH": "write", "DELETE": "write"}
    return tuple(
        Tool(name=method.lower(), upstream="up", class_=class_, timeout="10s",
             match=Match(method=method, path="/echo/{name}"))
        for method, class_ in methods.items()
    )  # fmt: skip


def through(folder, scenario):
    """Run a scenario with (the gateway's URL, the tool's own URL, the agent's key)."""

    async def main():
        runner = web.ServerRunner(web.Server(Echo().handle, access_log=None))
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        own = f"http://127.0.0.1:{runner.addresses[0][1]}"
        keys = SqliteKeys(folder / "ledger.db")
        ledger = SqliteLedger(folder / "ledger.db", keyring(keys))
        upstream = Upstream(name="up", url=own, allow_cidrs=("127.0.0.0/8",))
        registry = Registry.from_config((upstream,), tools(), {})
        egress = Egress()
        gateway = Gateway(
            Ports(ledger=ledger, registry=registry, policy=AllowAll(),
                  upstreams=HttpUpstreams(registry, egress)),
            Settings(accept_ephemeral_ledger=True),
        )  # fmt: skip
        await gateway.start()

        async def known(shown):
            return authenticate(shown.authorization, keys, now_ns=clock.now_ns())

        server = GatewayServer(gateway, known, listen="127.0.0.1:0")
        await server.start()
        text, row = mint("agent", "default", "echo", id_bytes=clock.random_bytes(8),
                         secret_bytes=clock.random_bytes(32), now_ns=clock.now_ns())  # fmt: skip
        keys.add_key(row)
        try:
            here = f"http://127.0.0.1:{server.port}"
            await asyncio.to_thread(scenario, here, own, text)
        finally:
            await server.stop()
            await egress.close()
            ledger.close()
            keys.close()
            await runner.cleanup()

    asyncio.run(main())


@pytest.mark.row("T54", "D")
@pytest.mark.full
@pytest.mark.parametrize("way", ["reverse", "forward"])
@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.requirement("GW-01")
def test_what_a_client_sends_and_gets_are_the_bytes(tmp_path, client, way):
    if shutil.which(CLIENTS[client][0]) is None:
        pytest.skip(f"needs {client}, which is not installed here")

    def scenario(here, own, key):
        numbers = iter(range(1000))

        def ask(method, path, body=None, kind="", chunked=False):
            number = next(numbers)
            out, sent = tmp_path / f"out{number}", tmp_path / f"sent{number}"
            if body is not None:
                sent.write_bytes(body)
            host = urlsplit(here).netloc
            by_proxy = way == "forward"
            environment = {
                "PATH": "/usr/bin:/bin:/usr/local/bin", "HOME": str(tmp_path),
                "METHOD": method, "KEY": f"k{number}", "OUT": str(out), "TYPE": kind,
                "URL": (own if by_proxy else f"{here}/up") + path,
                "PROXY": f"http://{host}" if by_proxy else "",
                "CREDENTIAL": f"{'Proxy-' if by_proxy else ''}Authorization: Bearer {key}",
                "BODY": str(sent) if body is not None else "",
                "CHUNKED": "1" if chunked else "",
            }  # fmt: skip
            done = subprocess.run(
                CLIENTS[client], env=environment, capture_output=True, timeout=60, check=False
            )
            assert done.returncode == 0, done.stderr.decode()
            return out.read_bytes()

        for path in PATHS:
            told = json.loads(ask("GET", path))
            assert told["path"] == path, told
            assert told["credentials"] == []
        for name, (kind, body) in BODIES.items():
            for method, chunked in (("POST", False), ("PUT", False), ("PATCH", True)):
                told = json.loads(ask(method, "/echo/x", body, kind, chunked))
                wanted = (method, hashlib.sha256(body).hexdigest(), None)
                assert (told["method"], told["body"], told["coded"]) == wanted, (name, told)
                assert told["content_type"] == kind
        assert json.loads(ask("DELETE", "/echo/x"))["method"] == "DELETE"
        for what, (_, data) in SAID.items():
            got = ask("GET", f"/echo/say?what={what}")
            decodes = (
                what == "coded" and client != "curl" and not (client == "node" and way == "forward")
            )
            assert got == (gzip.decompress(data) if decodes else data), what

    through(tmp_path, scenario)
