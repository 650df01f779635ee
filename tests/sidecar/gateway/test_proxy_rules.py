"""Rules of the proxy that a reader of its code or a handshake tells (gateway.md §3.1, §3.2)."""

import ast
import asyncio
import ssl
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tls_rig import Authority

from sidecar.egress.client import Egress, EgressFailed
from sidecar.egress.http import head
from sidecar.egress.rules import Target
from sidecar.gateway.http import KEEP_ALIVE_SECONDS

ROOT = Path(__file__).parents[3] / "sidecar"
HTTP_FILES = [
    path for path in sorted((ROOT / "gateway").rglob("*.py")) if "aiohttp" in path.read_text()
]
DECODED = {"url", "rel_url", "path", "path_qs", "host", "query", "query_string", "match_info"}
REBUILT = DECODED | {"scheme", "secure", "cookies", "if_modified_since", "post"}


@pytest.mark.row("D", "E", "CVE-2026-48710")
@pytest.mark.parametrize("path", HTTP_FILES, ids=lambda path: path.parent.name + path.name)
def test_nothing_that_the_server_library_decoded_or_rebuilt_of_a_request_is_used(path):
    """Of ``web.BaseRequest`` only what is as it came decides: ``raw_path`` and ``raw_headers``."""
    tree = ast.parse(path.read_text())
    requests = {
        argument.arg
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for argument in (*node.args.args, *node.args.kwonlyargs)
        if argument.annotation and "BaseRequest" in ast.unparse(argument.annotation)
    }
    used = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and (ast.unparse(node.value) in requests or ast.unparse(node.value) == "self._request")
    }
    assert not used & REBUILT, used & REBUILT
    taken = [
        ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Subscript | ast.Call)
    ]
    for name in requests:  # it gives one of two, where a header stands twice
        assert not [
            text for text in taken if text.startswith((f"{name}.headers[", f"{name}.headers."))
        ]


@pytest.mark.row("T53")
def test_a_silent_stream_hears_of_us_before_anybody_takes_it_for_dead():
    assert 15 <= KEEP_ALIVE_SECONDS <= 25


PATHS = st.text(st.characters(codec="utf-8", categories=None, include_characters="\r\n\0 #?%"))


@pytest.mark.row("D", "GHSA-v2x6-wwfw-r2rq")
@pytest.mark.requirement("GW-05")
@given(
    path=PATHS,
    name=st.sampled_from(["x-a", "x-a\r\nx-b", "x\0"]),
    value=st.text(st.characters(max_codepoint=0x2FF, include_characters="\r\n\0"), max_size=20),
    body=st.binary(max_size=3),
)
def test_what_is_written_of_a_request_has_the_lines_it_was_given_and_no_other(
    path, name, value, body
):
    try:
        written = head("POST", path, "tool.example:80", ((name, value),), body, keep=False)
    except ValueError:
        assert not (
            path.isascii()
            and path.isprintable()
            and value.isprintable()
            and name == "x-a"
            and value.isascii()
            and " " not in path
            and "#" not in path
        )
        return
    lines = written.split(b"\r\n")
    assert lines == [
        b"POST /%s HTTP/1.1" % path.removeprefix("/").encode(),
        b"host: tool.example:80",
        b"accept-encoding: identity",
        b"x-a: %s" % value.encode("latin-1"),
        b"content-length: %d" % len(body),
        b"connection: close",
        b"",
        b"",
    ]


@pytest.mark.requirement("GW-06")
@pytest.mark.parametrize("most", [ssl.TLSVersion.TLSv1_1, ssl.TLSVersion.TLSv1_2])
def test_a_tool_is_spoken_to_in_tls_1_2_or_better_and_never_unverified(tmp_path, most):
    authority = Authority()
    (tmp_path / "ca.pem").write_bytes(authority.pem)
    certificate, key = authority.issue("ip:127.0.0.1")
    (tmp_path / "server.pem").write_bytes(certificate + key)

    async def main():
        server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        server.load_cert_chain(tmp_path / "server.pem")
        server.set_ciphers("ALL:@SECLEVEL=0")
        with pytest.warns(DeprecationWarning):  # the interpreter's, about the old version
            server.minimum_version = ssl.TLSVersion.TLSv1
            server.maximum_version = most

        tasks = []

        async def serve(reader, writer):
            tasks.append(asyncio.current_task())
            try:
                await reader.readuntil(b"\r\n\r\n")
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            except (asyncio.IncompleteReadError, OSError):
                pass
            writer.close()
            await asyncio.wait([asyncio.ensure_future(writer.wait_closed())])

        listening = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=server)
        port = listening.sockets[0].getsockname()[1]
        url = f"https://127.0.0.1:{port}"
        target = Target(name="up", url=url, allow_cidrs=("127.0.0.0/8",))
        trusting = Egress(tls=ssl.create_default_context(cafile=tmp_path / "ca.pem"))
        plain = Egress()
        try:
            with pytest.raises(EgressFailed) as unknown:
                await plain.request(target, "GET", "/", deadline_ns=5 * 10**9)
            assert not unknown.value.sent
            return (await trusting.request(target, "GET", "/", deadline_ns=5 * 10**9)).status
        except EgressFailed as error:
            return error.sent
        finally:
            await trusting.close()
            await plain.close()
            listening.close()
            await asyncio.gather(*tasks)

    assert asyncio.run(main()) == (200 if most == ssl.TLSVersion.TLSv1_2 else False)
