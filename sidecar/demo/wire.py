"""Plain HTTP for the demo's parts: one request, one whole answer, no proxy, no exception.

Rules
1. What is wrong on the way is an answer with status 0 and the reason as its text: callers decide.
2. No proxy of the environment is used: everything here is on loopback.
"""

import json
from collections.abc import Mapping
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.request import ProxyHandler, Request, build_opener

from msgspec import Struct

TIMEOUT_SECONDS = 30.0


class Answer(Struct, frozen=True, kw_only=True):
    """An HTTP answer; header names are lower case; ``status`` 0 = none came."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def value(self) -> Any:
        """The body as JSON, or as text where it is none."""
        try:
            return json.loads(self.body)
        except ValueError:
            return self.body.decode("utf-8", "replace")

    @property
    def problem(self) -> dict[str, Any]:
        """The problem document of a refusal; empty for a success."""
        value = self.value if self.status >= 400 else None
        return value if isinstance(value, dict) else {}


def send(
    method: str,
    url: str,
    *,
    key: str,
    headers: Mapping[str, str] | None = None,
    body: bytes | None = None,
) -> Answer:
    """Send one request with ``key`` as its bearer credential."""
    request = Request(url, data=body, method=method)
    request.add_header("Authorization", f"Bearer {key}")
    request.add_header("Accept", "application/json")
    if body is not None:
        request.add_header("Content-Type", "application/json")
    for name, value in (headers or {}).items():
        request.add_header(name, value)
    try:
        with build_opener(ProxyHandler({})).open(request, timeout=TIMEOUT_SECONDS) as response:
            return Answer(
                status=response.status, headers=_lower(response.headers), body=response.read()
            )
    except HTTPError as error:
        with error:
            return Answer(status=error.code, headers=_lower(error.headers), body=error.read())
    except (OSError, HTTPException) as error:
        detail = json.dumps({"detail": f"no answer: {error}"}).encode()
        return Answer(status=0, headers={}, body=detail)


def _lower(headers: Any) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}
