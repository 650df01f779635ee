"""No listener is served by the parser that takes what the compiled one refuses."""

import os
import subprocess
import sys
from importlib.metadata import version

import pytest
from aiohttp import http_parser

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
