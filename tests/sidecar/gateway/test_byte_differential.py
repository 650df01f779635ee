"""Path, query, JSON and Unicode on the raw socket: each mutated request is refused, or what policy
judged is what the upstream got, byte for byte, whichever of several readers the upstream has.

The whole gateway stands between two raw sockets: no client or server library spells anything.
"""

import asyncio
import json
import posixpath
import random
from contextlib import asynccontextmanager, suppress
from urllib.parse import parse_qsl, unquote, unquote_to_bytes, urlsplit

import msgspec
import orjson
import pytest
from gateway_rig import AllowAll, rig
from yarl import URL

from sidecar.gateway.config import Match, Tool
from sidecar.gateway.registry import Registry

REQUESTS = 520
TOOLS = tuple(
    Tool(
        name=f"{method}-{depth}".lower(),
        upstream="payments",
        class_="read",
        match=Match(method=method, path="/" + "/".join(f"{{p{n}}}" for n in range(depth))),
    )
    for method in ("POST", "PUT")
    for depth in range(1, 6)
)
PATHS = (
    *("a", "b", "/", "/", "/", "/", ".", "..", "%2e", "%2E%2E", "%2f", "%5c", "%25", "%252e"),
    *("%41", "%c3%a9", "%7e", ";", "//", "%00", "\xe9", "%", "@", ":", "+", "%2B", "%20", "$"),
    *("(", "%3F", "%23", "\\", "%3B", "%u002e", "%e2%80%ae", "%ef%bc%8f", "%c0%af", "%ff"),
    *("e%cc%81", "%ed%a0%80", "%F0%9F%92%A9", "A", "%61", "...", "%2e.", "~", "%0a", "%09"),
)
BEFORE = (
    *["/payments"] * 12,
    "/%70ayments",
    "//payments",
    "/./payments",
    "/PAYMENTS",
    "/payments/..",
)
QUERIES = (
    *("a=1", "&", "a=2", "b", "=", "+", "%2B", "%20", ";", "\xe9", "%00", "c=%C3%A9", "%26"),
    *("?", "/", "%3D", "a%3D1=2", "d[]=1", "d[0]=2", "e.f=1", "%0d%0a", "#", "%23", "[", "{}"),
    *("%ff", "a=e%CC%81", "a=%EF%BC%81", "=x", "&&", "A=1"),
)
MEMBERS = (
    *('"x": 1', '"x": 2', '"\\u0078": 3', '"y": 1.50', '"z": "\\u00e9"', '"z": "e\\u0301"'),
    *('"w": 1e400', '"v": 1E2', '"v": 100', '"u": 9007199254740993', '"t": -0', '"t": -0.0'),
    *('"s": "\\ud83d\\udca9"', '"s": "\\ud83d"', '"r": "\\u0000"', '"q\\u0000": 1', '"p": null'),
    *('"o": {"x": 1, "x": 2}', '"n": [1, 2, {"m": true}]', '"X": 1', '"k": "\\u202e"'),
    *('"__proto__": {"a": 1}', '"j": "\\/"', '"i": "/"', '"h": 0.1', '"h": 1e-7', '"g": ""'),
    *('"f": "\ufeff"', '"e": "\u00e9"', '"d": NaN', '"c": 01', '"b": +1', '"a": .5', '"a": "\t"'),
)
FRAMES = (
    *("{%s}", "{%s}", "{%s}", "{%s}", " {%s} ", "{%s,}", "[{%s}]", "\ufeff{%s}", "{%s}{}"),
    *("{%s}//", "{%s} \n", "{%s}\x00", "{/**/%s}"),
)
TYPES = (
    *("application/json", "application/json", "application/json; charset=utf-8"),
    *("application/json; charset=utf-16", "application/vnd.api+json", "APPLICATION/JSON"),
)


def mutations(seed, count):
    """Target, content type and body of each request."""
    dice = random.Random(seed)
    for number in range(count):
        path, query, kind, body = "/orders/17", "", TYPES[0], '{"x": 1}'
        if number % 3 == 0 or dice.random() < 0.2:
            path = dice.choice(("/orders", "")) + "/"
            path += "".join(dice.choices(PATHS, k=dice.randint(1, 4)))
        if number % 3 == 1 or dice.random() < 0.2:
            query = "?" + "".join(dice.choices(QUERIES, k=dice.randint(0, 3)))
        if number % 3 == 2 or dice.random() < 0.2:
            kind = dice.choice(TYPES)
            members = ", ".join(dice.choices(MEMBERS, k=dice.randint(0, 3)))
            body = dice.choice(FRAMES) % members
        target = dice.choice(BEFORE) + path + query
        content = body.encode("utf-8", "surrogatepass")
        yield dice.choice(("POST", "PUT")), target.encode("latin-1"), kind, content


class Recording(AllowAll):
    """Allows, and keeps what it was asked."""

    def __init__(self):
        self.asked = []

    async def decide(self, document):
        self.asked.append(document)
        return await super().decide(document)


class Raw:
    """An upstream that keeps the bytes of every request and knows nothing of HTTP but its frame."""

    def __init__(self):
        self.seen, self.writers = [], []

    async def serve(self, reader, writer):
        self.writers.append(writer)
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                line, *fields = head[:-4].split(b"\r\n")
                named = dict(field.lower().split(b": ", 1) for field in fields)
                body = await reader.readexactly(int(named.get(b"content-length", 0)))
                self.seen.append((*line.split(b" "), named.get(b"content-type", b""), body))
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def stop(self):
        for writer in self.writers:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()


class Peer:
    """A client that writes bytes and reads one answer; it dials anew where it was closed."""

    def __init__(self, port, agent):
        self.port, self.agent, self.writer = port, agent, None

    async def ask(self, method, target, kind, body):
        if self.writer is None:
            self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
        self.writer.write(
            b"%s %s HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer %s\r\nContent-Type: %s\r\n"
            b"Content-Length: %d\r\n\r\n%s"
            % (method.encode(), target, self.agent.encode(), kind.encode(), len(body), body)
        )
        head = (await self.reader.readuntil(b"\r\n\r\n")).lower()
        length = int(head.split(b"content-length: ")[1].split(b"\r\n")[0])
        await self.reader.readexactly(length)
        if b"connection: close" in head or head.startswith(b"http/1.0"):
            self.close()
        return int(head.split(b" ")[1])

    def close(self):
        if self.writer is not None:
            self.writer.close()
        self.writer = None


@asynccontextmanager
async def between(folder):
    """A raw client and a raw upstream with the gateway between them, and the policy it asks."""
    raw, policy = Raw(), Recording()
    server = await asyncio.start_server(raw.serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        async with rig(folder, policy=policy, upstream_url=url) as each:
            held = each.gateway._ports.registry
            made = Registry.from_config(tuple(held.upstreams.values()), TOOLS, {})
            held.tools, held._routes = made.tools, made._routes
            peer = Peer(each.server.port, each.agent)
            yield peer, policy, raw
            peer.close()
    finally:
        server.close()
        await raw.stop()


def first_wins(pairs):
    found = {}
    for name, value in pairs:
        found.setdefault(name, value)
    return found


def views(document, line, sent):
    """Pairs of readings that must be one: policy's and an upstream's."""
    method, target, version, kind, body = line
    judged = document["http"]
    path, mark, query = target.decode("ascii").partition("?")
    pairs = {}
    for name, value in parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query)):
        pairs.setdefault(name, []).append(value)
    yield judged["method"].encode(), method
    yield version, b"HTTP/1.1"
    yield judged["path"], path
    yield body, sent
    yield judged["media_type"], kind.decode().partition(";")[0]
    yield judged["query"], pairs
    yield bool(mark), bool(query)  # no empty query, which some cache under another key
    # Other readers of the path: each decodes once more, resolves or splits in its own way.
    decoded = unquote(path)
    yield decoded.encode(), unquote_to_bytes(path)
    yield decoded.count("/"), path.count("/")
    yield posixpath.normpath(decoded), decoded.rstrip("/") or "/"
    yield urlsplit(f"http://h{path}").path, path
    yield URL(f"http://h{path}").path, decoded
    yield unquote(decoded).count("/"), path.count("/")
    yield [part for part in unquote(decoded).split("/") if part in (".", "..")], []
    # Other readers of the query.
    read = URL(f"http://h/?{query}", encoded=True).query
    yield {name: read.getall(name) for name in read}, pairs
    yield {name: read.getall(name) for name in URL(f"http://h/?{query}").query}, pairs
    # Other readers of the body.
    yield judged["body"], json.loads(body)
    yield judged["body"], json.loads(body, object_pairs_hook=first_wins)
    yield judged["body"], orjson.loads(body)
    yield judged["body"], msgspec.json.decode(body)


@pytest.mark.requirement("GW-05")
@pytest.mark.row("E", "CVE-2026-26205", "CVE-2019-9901", "T57", "T58")
def test_what_policy_judged_is_what_each_reader_behind_the_gateway_reads(tmp_path):
    async def main():
        refused = passed = 0
        async with between(tmp_path) as (peer, policy, raw):
            for method, target, kind, body in mutations(seed=11, count=REQUESTS):
                policy.asked.clear()
                raw.seen.clear()
                status = await peer.ask(method, target, kind, body)
                if status != 200:
                    assert 400 <= status < 500 and raw.seen == [], (target, body, status)
                    refused += 1
                    continue
                (document,), (line,) = policy.asked, raw.seen
                for number, (one, other) in enumerate(views(document, line, body)):
                    assert one == other, (number, target, body, line)
                passed += 1
        assert passed > REQUESTS // 8 and refused > REQUESTS // 8, (passed, refused)

    asyncio.run(main())


@pytest.mark.requirement("GW-05")
@pytest.mark.row("E")
@pytest.mark.parametrize(
    "text", ["e\u0301", "\u00e9", "\ufb01", "\uff0e\uff0e\uff0f", "\u202eabc", "\u200b", "\u0130"]
)
def test_text_is_sent_as_it_came_and_only_a_copy_is_folded(tmp_path, text):
    """Nothing is normalised on its way: NFC, NFD and lookalikes stay apart (gateway.md §2.2)."""

    async def main():
        async with between(tmp_path) as (peer, policy, raw):
            body = json.dumps({"x": text}, ensure_ascii=False).encode()
            path = "/" + "".join(f"%{byte:02X}" for byte in text.encode())
            assert (
                await peer.ask("POST", f"/payments{path}".encode(), "application/json", body) == 200
            )
        (document,), ((_, target, _, _, got),) = policy.asked, raw.seen
        assert got == body and unquote(target.decode()) == f"/{text}"
        assert document["arguments"] == {"p0": text, "x": text}
        assert document["http"]["body"] == {"x": text}

    asyncio.run(main())
