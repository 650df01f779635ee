"""What policy judged and what a real upstream received are one: path, query and body, byte for
byte.
"""

import asyncio
import json
import random
from urllib.parse import parse_qsl

import pytest
from aiohttp import web

from processors.model.principal import Principal
from sidecar.egress.client import Egress
from sidecar.gateway.action import ToolRequest, prepare
from sidecar.gateway.client import HttpUpstreams
from sidecar.gateway.config import Match, Tool, Upstream
from sidecar.gateway.policy.document import Situation, document
from sidecar.gateway.problem import Refused
from sidecar.gateway.registry import Registry
from sidecar.gateway.upstream import UpstreamRequest

AGENT = Principal(id="key:1", kind="agent", project="shop")
TOOLS = tuple(
    Tool(
        name=f"{method}-{depth}".lower(),
        upstream="echo",
        class_="write",
        match=Match(method=method, path="/" + "/".join(f"{{p{n}}}" for n in range(depth))),
    )
    for method in ("POST", "PUT")
    for depth in range(1, 6)
)
PATHS = [
    *(
        "a",
        "/",
        "/",
        "/",
        ".",
        "..",
        "%2e",
        "%2E%2E",
        "%2f",
        "%5c",
        "%25",
        "%252e",
        "%41",
        "%c3%a9",
    ),
    *("%7e", ";", "//", "%00", "é", "%", "@", ":", "+", "%2B", "%20", "$", "(", "%3F", "%23", "\\"),
]
QUERIES = [
    "a=1",
    "&",
    "a=2",
    "b",
    "=",
    "+",
    "%2B",
    "%20",
    ";",
    "é",
    "%00",
    "c=%C3%A9",
    "%26",
    "?",
    "/",
]
BODIES = [
    '{"x": 1',
    ', "x": 2',
    ', "y": 1.50',
    ', "z": "\\u00e9"',
    ', "w": 1e400',
    "}",
    "}",
    " ",
    "\ufeff",
]


def mutations(seed, count):
    dice = random.Random(seed)
    for _ in range(count):
        path = "/" + "".join(dice.choices(PATHS, k=dice.randint(1, 7)))
        query = "?" + "".join(dice.choices(QUERIES, k=dice.randint(0, 4)))
        body = BODIES[0] + "".join(dice.choices(BODIES[1:], k=dice.randint(0, 2))) + "}"
        yield ToolRequest(
            upstream="echo",
            method=dice.choice(("POST", "PUT")),
            raw_path=path + query,
            headers=(("Content-Type", "application/json"),),
            body=body.encode(),
        )


async def echo(received):
    body = await received.read()
    return web.json_response({"raw": received.raw_path, "body": body.decode("utf-8")})


async def differences(requests):
    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", echo)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = site._server.sockets[0].getsockname()[1]
    upstream = Upstream(name="echo", url=f"http://127.0.0.1:{port}", allow_cidrs=("127.0.0.0/8",))
    registry = Registry.from_config((upstream,), TOOLS, {})
    upstreams = HttpUpstreams(registry, Egress())
    found, refused, sent = [], 0, 0
    for request in requests:
        try:
            prepared = prepare(request, AGENT, registry)
        except Refused:
            refused += 1
            continue
        sent += 1
        found += await compare(upstreams, prepared)
    await upstreams.close()
    await runner.cleanup()
    return found, refused, sent


async def compare(upstreams, prepared):
    judged = document(prepared.action, AGENT, Situation(time_ns=1, request_id="r"), prepared.value)
    reply = await upstreams.send(
        UpstreamRequest(
            tool=prepared.tool.name,
            class_="write",
            upstream="echo",
            method=prepared.action.method,
            path=prepared.path,
            query_raw=prepared.query_raw,
            headers=prepared.headers,
            body=prepared.body,
            timeout_ns=5_000_000_000,
            call_id="c",
        )
    )
    seen = json.loads(reply.body)
    path, _, query = seen["raw"].partition("?")
    pairs = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        pairs.setdefault(name, []).append(value)
    views = [
        (judged["http"]["path"], path),
        (judged["http"]["query"], pairs),
        (judged["http"]["body"], json.loads(seen["body"])),
        (prepared.body.decode(), seen["body"]),
    ]
    return [(one, other) for one, other in views if one != other]


@pytest.mark.row("E", "CVE-2026-26205")
@pytest.mark.requirement("GW-05")
def test_each_mutated_request_is_refused_or_the_upstream_sees_what_policy_saw():
    found, refused, sent = asyncio.run(differences(mutations(seed=7, count=4000)))
    assert found == []
    assert refused > 100 and sent > 100, (refused, sent)
