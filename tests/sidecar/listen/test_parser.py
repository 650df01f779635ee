"""No listener is served by the parser that takes what the compiled one refuses."""

import asyncio
import contextlib
import os
import re
import subprocess
import sys
from importlib.metadata import version

import pytest
from aiohttp import http_parser
from test_listener import Rig

from sidecar.errors import SidecarError
from sidecar.listen.http import check_parser

ASKED = """
from sidecar.errors import SidecarError
from sidecar.listen.http import check_parser
try:
    check_parser()
except SidecarError as error:
    print("refused", "AIOHTTP_NO_EXTENSIONS" in error.where)
"""


@pytest.mark.row("CVE-2026-111750")
@pytest.mark.requirement("GW-05")
def test_without_the_compiled_parser_nothing_is_served(monkeypatch):
    check_parser()
    environment = {**os.environ, "AIOHTTP_NO_EXTENSIONS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", ASKED], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["refused", "True"]
    monkeypatch.setattr(http_parser, "HttpRequestParser", http_parser.HttpRequestParserPy)
    with pytest.raises(SidecarError):
        check_parser()


@pytest.mark.row("CVE-2026-111750", "CVE-2024-30251", "CVE-2026-34525")
@pytest.mark.requirement("GW-05")
def test_the_library_is_not_older_than_what_closed_its_known_holes():
    # Duplicate Host: 3.13.4. Unbounded and quadratic decompression: 3.14.4.
    assert tuple(int(part) for part in version("aiohttp").split(".")[:3]) >= (3, 14, 4)


@pytest.mark.requirement("GW-05")
@pytest.mark.row("D")
@pytest.mark.parametrize("version", ["HTTP/2.0", "HTTP/0.9", "HTTP/1.2", "HTTP/3.0"])
def test_a_version_that_is_not_spoken_here_is_refused_once_in_one_that_is(version):
    async def main():
        async with Rig() as rig:
            answer = await rig.ask(f"GET / {version}\r\nHost: a\r\n\r\n".encode())
            assert re.findall(rb"HTTP/([0-9.]+) [0-9]{3} ", answer) in ([b"1.1"], [b"1.0"])
            assert rig.reasons == ["request_malformed"]

    asyncio.run(main())


@pytest.mark.requirement("GW-05")
@pytest.mark.row("D", "CVE-2026-111750")
def test_a_body_that_is_mostly_framing_is_refused_on_every_listener():
    async def main():
        async with Rig() as rig:
            head = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
            with contextlib.suppress(ConnectionError):  # it may be hung up on while it writes
                await rig.ask(head + b"2;" + b"x" * 3_000_000 + b"\r\nok\r\n0\r\n\r\n")
            assert rig.reasons == ["body_malformed"]
            small = b"1\r\nx\r\n" * 200_000 + b"0\r\n\r\n"
            close = head.replace(b"Host: a", b"Host: a\r\nConnection: close")
            assert (await rig.ask(close + small)).startswith(b"HTTP/1.1 200 ")

    asyncio.run(main())
