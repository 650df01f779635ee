"""Holes that were found in others (gateway.md §3.5), tried on us: one test a kind, by advisory."""

import ast
import asyncio
import json
import re
import sqlite3
from contextlib import AsyncExitStack, closing
from pathlib import Path

import pytest
import yaml
from control_rig import control
from gateway_rig import AllowAll, rig
from ledger_rig import ledgers
from mcp_rig import Crm, definitions_of, gated, served
from msgspec import inspect
from test_mcp import call, code_of, envelope, modern_call, modern_headers

from sidecar.config import Config
from sidecar.control.openapi import document
from sidecar.control.operations import API_VERSION, OPERATIONS
from sidecar.egress.rules import Target
from sidecar.gateway.config import Match, McpServer, Tool, Upstream
from sidecar.gateway.draft.openapi import draft_openapi
from sidecar.gateway.draft.tool import as_yaml
from sidecar.gateway.explicit import explicit_request
from sidecar.gateway.forward import below, read_absolute
from sidecar.gateway.problem import Refused
from sidecar.gateway.registry import Registry
from sidecar.gateway.rpc.definition import unusable_name
from sidecar.gateway.target import NotCanonicalTarget, canonical_path

ROOT = Path(__file__).parents[3] / "sidecar"
SOURCES = sorted(ROOT.rglob("*.py"))


# -- commands ----------------------------------------------------------------------------------

SPAWNS = {"Popen", "run", "check_output", "check_call", "call", "create_subprocess_exec"}
SHELLS = {"system", "popen", "create_subprocess_shell", "getoutput", "getstatusoutput"}
STARTERS = {
    "demo/processes.py", "gateway/checkpoint/process.py", "gateway/policy/client.py",
    "pipeline/process.py", "probe/sql/worker.py", "receive/client.py",
    "replay/leftover/process.py", "store/postgres/upkeep.py",
}  # fmt: skip
"""Who starts a process: of our own code or, for the anchor, of the operator's configuration."""
AT_THE_COMMAND_LINE = {
    "__main__.py", "app/attesting.py", "capture/process.py", "cli/tape_run.py", "gallery/make.py",
    "gate/process.py", "replay/pinned/process.py", "replay/worker.py",
    "replay/bisect/process/git.py", "replay/bisect/process/running.py",
}  # fmt: skip
"""Who starts what a person named at the command line, git, or that command line again; none of it
runs in a sidecar."""


def calls_of(path):
    text = path.read_text()
    if not re.search(r"subprocess|shell|popen|system\(|getoutput|getstatusoutput", text):
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            yield ast.unparse(node.func), node


@pytest.mark.row("CVE-2025-6514", "CVE-2026-55887", "CVE-2026-42271")
def test_no_shell_is_ever_asked_and_processes_are_started_in_few_places():
    spawning = set()
    for path in SOURCES:
        for name, node in calls_of(path):
            owner, _, method = name.rpartition(".")
            if owner in ("os", "subprocess", "asyncio") and method in SHELLS:
                raise AssertionError(f"{path}: {name}")
            assert not any(each.arg == "shell" for each in node.keywords), path
            spawned = method in SPAWNS and owner in ("subprocess", "asyncio")
            if spawned and name != "asyncio.run":
                spawning.add(path.relative_to(ROOT).as_posix())
    assert spawning == STARTERS | AT_THE_COMMAND_LINE


def members(kind, seen=()):
    """Every key of a configuration."""
    if isinstance(kind, inspect.StructType) and kind.cls not in seen:
        for field in kind.fields:
            yield field.encode_name, kind.cls.__name__
            yield from members(field.type, (*seen, kind.cls))
    for each in getattr(kind, "types", ()):
        yield from members(each, seen)
    for inner in ("item_type", "key_type", "value_type"):
        if hasattr(kind, inner):
            yield from members(getattr(kind, inner), seen)


COMMANDS = re.compile(r"\A(command|cmd|args?|argv|env|environment|shell|exec|cwd|stdio)\Z")


@pytest.mark.row("CVE-2026-42271", "CVE-2026-55887")
def test_no_request_and_no_mcp_server_of_the_configuration_names_a_command():
    described = document(API_VERSION)
    names = set(re.findall(r'"([A-Za-z_]+)": \{"', json.dumps(described["components"])))
    assert len(names) > 50 and not [name for name in names if COMMANDS.match(name)]
    assert not [each.path for each in OPERATIONS if "test" in each.path or "connect" in each.path]
    found = {owner for name, owner in members(inspect.type_info(Config)) if COMMANDS.match(name)}
    assert found <= {"Anchor", "Checkpoints", "Audit"}, found  # the operator's own, for the anchor
    assert not [name for name, _ in members(inspect.type_info(McpServer)) if COMMANDS.match(name)]


HOSTILE = (
    *("--help", "; rm -rf /", "$(id)", "`id`", "| sh", "&& id", "\n- name: x", "a: {b: c}", "\x00"),
    *("../../etc/passwd", "${jndi:ldap://x}", "!!python/object:os.system", "%s%n", "'", '"', "\\"),
    *("\u2028- x", "\x85- x", "*alias", "&anchor", "# c", "-", "{", "[", "null", "~", "@x"),
)


@pytest.mark.row("CVE-2026-55887", "GHSA-v2x6-wwfw-r2rq")
@pytest.mark.parametrize("text", HOSTILE)
def test_what_a_description_says_becomes_a_name_a_text_or_a_comment_and_nothing_else(text):
    described = {
        "openapi": "3.1.0",
        "info": {"title": text, "version": text},
        "paths": {
            "/a/{id}": {
                "post": {
                    "operationId": text, "summary": text, "description": text,
                    "parameters": [{"name": "id", "in": "path", "schema": {"type": "string"}}],
                    "responses": {},
                }
            }
        },
    }  # fmt: skip
    written = as_yaml(draft_openapi(described, "up"), {})
    assert not re.search("[\x00-\x09\x0b-\x1f\x85\u2028]", written)
    (tool,) = yaml.safe_load(written)["tools"]
    assert set(tool) <= {"name", "upstream", "match", "class", "arguments"}
    assert re.fullmatch(r"[a-z0-9_]{1,64}", tool["name"])
    assert (tool["upstream"], tool["class"]) == ("up", "irreversible")
    assert tool["match"] == {"method": "POST", "path": "/a/{id}"}


# -- paths and places --------------------------------------------------------------------------


@pytest.mark.row("CVE-2026-78573", "CVE-2026-32871")
@pytest.mark.parametrize(
    "path",
    ["/api/../admin", "/api/%2e%2e/admin", "/apiadmin", "/api%2f..%2fadmin", "/api/x/../../admin",
     "/api/%2e%2e%2fadmin", "/api//admin", "/api/..;/admin", "/API/x", "/api/%252e%252e/admin"],
)  # fmt: skip
def test_a_call_stays_below_the_path_of_its_upstream(path):
    target = Target(name="one", url="http://tools.example/api")
    found = below(read_absolute(f"http://tools.example{path}", "tools.example"), [target])
    if found is not None:
        with pytest.raises(NotCanonicalTarget):
            canonical_path(found[1])


PLACES = Registry.from_config(
    (Upstream(name="u", url="http://u.example/api"),),
    (
        Tool(name="read", upstream="u", class_="read", match=Match(method="GET", path="/a/{x}")),
        Tool(name="make", upstream="u", match=Match(method="POST", path="/a/{x}")),
    ),
    {},
)
INJECTED = (
    *("../admin", "..", ".", "a/b", "a%2Fb", "a?admin=1", "a#x", "a;b", "a\\b", "a\r\nX-A: b"),
    *("a b HTTP/1.1\r\nHost: evil", "\x00", "%00", "%2e%2e", "//evil.example", "@evil.example"),
)


@pytest.mark.row("GHSA-v2x6-wwfw-r2rq", "CVE-2026-32871")
@pytest.mark.parametrize("text", INJECTED)
def test_an_argument_never_becomes_a_path_a_query_or_a_header_of_its_own(text):
    for tool in ("read", "make"):
        asked = json.dumps({"tool": tool, "arguments": {"x": "1", "y": text, text: "z"}}).encode()
        try:
            made = explicit_request(asked, (), PLACES)
        except Refused:
            continue
        path, _, query = made.raw_path.partition("?")
        assert path == "/a/1" and re.fullmatch(r"[A-Za-z0-9%&=._~-]*", query)
        assert not any("\r" in value or "\n" in value for pair in made.headers for value in pair)
        in_path = json.dumps({"tool": tool, "arguments": {"x": text}}).encode()
        try:
            found = explicit_request(in_path, (), PLACES).raw_path
        except Refused:
            continue
        assert found.count("/") == 2 and re.fullmatch(r"/a/[A-Za-z0-9%._~-]+", found)


# -- credentials -------------------------------------------------------------------------------

INJECTIONS = (
    *("' OR '1'='1", "x' UNION SELECT 1--", "'; DROP TABLE api_key;--", "\\'", '"', "%27", "$1"),
    *("sk_agent_' OR 1=1--_x", "sk_agent_0000000000000000_' OR '1'='1", "?", ":1", "NULL", "\x01"),
    *("sk_agent_0000000000000000_\xff", "sk_agent_%_%", "sk_agent_________________", "{}", "[]"),
)


def shown(text):
    return (f"Bearer {text}", f"Basic {text}", text, f"bearer  {text}", f"DPoP {text}")


@pytest.mark.row("CVE-2026-42208")
def test_no_credential_is_read_as_sql_on_any_route_of_any_listener(tmp_path):
    async def main():
        async with control(tmp_path) as each:
            before = kept(tmp_path)
            routes = [(each.web.port, operation.method, operation.path)
                      for operation in OPERATIONS if operation.method is not None]  # fmt: skip
            routes += [(each.web.port, "GET", path) for path in ("/nowhere", "/v1/openapi.json")]
            routes += [(each.server.port, method, path) for method, path in (
                ("POST", "/payments/orders/17/refunds"), ("GET", "/payments/orders/17"),
                ("GET", "/nowhere"), ("POST", "/v1/actions"), ("GET", "/v1/approvals/x"),
                ("GET", "/v1/approvals/x/events"), ("GET", "/v1/calls/x"), ("POST", "/mcp/x"),
            )]  # fmt: skip
            asked = 0
            for number, (port, method, path) in enumerate(routes):
                for text in INJECTIONS[number % 5 :: 5]:
                    for value in shown(text)[number % 2 :: 2]:
                        reply = await raw(port, method, path, value)
                        assert reply in (400, 401, 404), (method, path, value, reply)
                        asked += 1
            assert asked > 150
            assert kept(tmp_path) == before
            assert each.shop.requests == 0

    asyncio.run(main())


async def raw(port, method, path, authorization):
    """The status that a request with this credential gets."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    path = path.replace("{", "").replace("}", "")
    head = f"{method} {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"
    head += f"Authorization: {authorization}\r\nContent-Length: 0\r\n\r\n"
    writer.write(head.encode("latin-1"))
    line = await reader.readline()
    await reader.read()
    writer.close()
    return int(line.split(b" ")[1])


def kept(folder):
    with closing(sqlite3.connect(folder / "ledger.db")) as connection:
        return connection.execute("SELECT * FROM api_key ORDER BY key_id").fetchall()


@pytest.mark.full
@pytest.mark.row("CVE-2026-42208")
def test_no_credential_is_read_as_sql_by_postgres(tmp_path):
    from sidecar import clock
    from sidecar.identity.keys import Unauthenticated, authenticate

    with ledgers("postgres", tmp_path) as store, store.keys() as keys:
        for text in INJECTIONS:
            for value in shown(text):
                with pytest.raises(Unauthenticated):
                    authenticate(value, keys, now_ns=clock.now_ns())


@pytest.mark.row("CVE-2025-64443")
def test_a_page_of_another_site_gets_nothing_from_any_listener(tmp_path):
    """Neither by a simple request nor by a preflight, under whatever name it reached us."""

    async def main():
        async with control(tmp_path) as each:
            for port in (each.server.port, each.web.port):
                for path in ("/payments/orders/17", "/v1/actions", "/v1/calls", "/mcp/x"):
                    for method in ("GET", "POST", "OPTIONS"):
                        reader, writer = await asyncio.open_connection("127.0.0.1", port)
                        writer.write(
                            f"{method} {path} HTTP/1.1\r\nHost: rebound.evil.example\r\n"
                            "Origin: http://rebound.evil.example\r\nContent-Type: text/plain\r\n"
                            "Access-Control-Request-Method: POST\r\nContent-Length: 2\r\n"
                            "Access-Control-Request-Headers: authorization\r\n"
                            "Connection: close\r\n\r\n{}".encode()
                        )
                        answer = await reader.read()
                        writer.close()
                        assert answer.split(b" ")[1] in (b"401", b"404", b"405"), (path, answer)
                        assert b"access-control-allow" not in answer.lower()
            assert each.shop.requests == 0

    asyncio.run(main())


# -- MCP ---------------------------------------------------------------------------------------


def with_mcp(folder, scenario):
    async def main():
        crm = Crm()
        async with AsyncExitStack() as stack:
            port = await stack.enter_async_context(served(crm.server()))
            reviewed = await definitions_of(port)
            each = await stack.enter_async_context(gated(folder, port, reviewed))
            each.crm = crm
            await scenario(each)

    asyncio.run(main())


@pytest.mark.row("CVE-2026-27896", "K")
def test_members_in_other_cases_and_lookalikes_are_not_read_below_the_top_either(tmp_path):
    async def scenario(each):
        good = {"name": "find_customer", "arguments": {"name": "Ada"}, "_meta": envelope()}
        for member in ("Name", "NAME", "name\u0000", "\u017fame", "Arguments", "_Meta", "naMe"):
            message, headers = modern_call("find_customer", {"name": "Ada"})
            message["params"] = {**good, member: "delete_customer"}
            status, _, answer = await each.post(message, headers=headers)
            assert (status, answer["error"]["code"]) in ((400, -32602), (400, -32700)), member
        for member in ("JSONRPC", "Id", "ID", "Params", "method\u0000", "Result", "x"):
            message, headers = modern_call("find_customer", {"name": "Ada"})
            message[member] = "tools/call"
            status, _, answer = await each.post(message, headers=headers)
            assert status == 400 and "error" in answer, member
        assert not each.crm.begun.is_set()

    with_mcp(tmp_path, scenario)


@pytest.mark.row("CVE-2026-59951", "K")
def test_sessions_that_are_opened_and_left_are_not_kept(tmp_path):
    """A session is what its client carries, sealed: the gateway keeps nothing of it."""

    async def scenario(each):
        hello = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {"elicitation": {"url": {}}},
            "clientInfo": {"name": "t", "version": "1"},
        }}  # fmt: skip
        wire = each.server._mcp
        opened = set()
        for _ in range(60):
            _, headers, _ = await each.post(hello)
            opened.add(headers["mcp-session-id"])
        held = [value for value in vars(wire).values() if hasattr(value, "__len__")]
        assert len(opened) == 60 and [len(value) for value in held if value is not wire._page]
        assert all(len(value) == 0 for value in (wire._pending, wire._running))
        assert len(each.upstreams._sessions) <= 1  # of ours at the server: one for each tenant

    with_mcp(tmp_path, scenario)


@pytest.mark.row("CVE-2026-30856", "K")
def test_two_tools_that_a_reader_may_take_for_one_are_told_apart_or_refused(tmp_path):
    for name in ("a\u200bb", "\u0430dmin", "a b", "a\nb", "", "x" * 129, "\u202eab"):
        assert unusable_name(name) is not None, name
    same = Tool(name="one", upstream="u", match=Match(method="GET", path="/a/{x}"))
    other = Tool(name="two", upstream="u", match=Match(method="GET", path="/a/{y}"))
    from sidecar.errors import SidecarError

    with pytest.raises(SidecarError, match="the same as"):
        Registry.from_config((Upstream(name="u", url="http://u.example"),), (same, other), {})


@pytest.mark.row("T60", "K")
def test_a_fault_in_one_call_ends_neither_its_session_nor_its_stream_without_a_word(tmp_path):
    async def scenario(each):
        held = each.gateway._ports.registry.match
        each.gateway._ports.registry.match = lambda *_: 1 / 0
        message, headers = modern_call("find_customer", {"name": "Ada"})
        status, _, answer = await each.post(message, headers=headers)
        assert status == 200 and code_of(answer) == (-32603, "gateway_fault")
        each.gateway._ports.registry.match = held
        found = await call(each, "find_customer", {"name": "Ada"}, number=2)
        assert found["result"]["content"][0]["text"] == "customer Ada"
        unknown = {"jsonrpc": "2.0", "id": 3, "method": "logging/setLevel",
                   "params": {"_meta": envelope(), "level": "debug"}}  # fmt: skip
        status, _, answer = await each.post(unknown, headers=modern_headers("logging/setLevel"))
        assert (status, answer["error"]["code"]) == (404, -32601)

    with_mcp(tmp_path, scenario)


@pytest.mark.row("T60")
def test_a_read_whose_answer_looks_like_secrets_is_answered_with_it(tmp_path):
    """What a tool tells its agent is policy's to mask, and nobody's to guess at."""
    secrets = b'{"key": "sk_live_4eC39HqLyjWDarjtT1zdp7dc", "aws": "AKIAIOSFODNN7EXAMPLE"}'

    async def serve(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(secrets), secrets))
        writer.close()

    async def main():
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with rig(tmp_path, policy=AllowAll(), upstream_url=url) as each:
            reply = await each.ask("GET", "/payments/orders/17")
            assert (reply.status, reply.body) == (200, secrets)
        server.close()

    asyncio.run(main())
