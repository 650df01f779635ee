"""The agent of a crash proof: one call over HTTP, and the answer if there is one."""

import json

import aiohttp
from msgspec import Struct

from sidecar.chaos.plan import Case

_SECONDS = 30.0
_LARGE = 192 * 1024
"""Of a body that is still on its way when the upstream has read half of it."""


class Answer(Struct, frozen=True, kw_only=True):
    """What the gateway said. ``retry`` seconds where it asks to come back."""

    status: int
    code: str
    retry: float | None


async def ask(
    session: aiohttp.ClientSession,
    port: int,
    credential: str,
    case: Case,
    *,
    seconds: float = _SECONDS,
) -> Answer | None:
    """The case's call; None where the connection ended without an answer."""
    path = f"http://127.0.0.1:{port}/shop/orders/{case.order}"
    method, headers = (
        "GET",
        {
            "Authorization": f"Bearer {credential}",
            "traceparent": f"00-{case.trace_id}-00000000000000ab-01",
        },
    )
    body = None
    if case.class_ != "read":
        method, path = "POST", path + ("/notes" if case.class_ == "write" else "/refunds")
        headers |= {"Idempotency-Key": case.order, "Content-Type": "application/json"}
        text = "x" * (_LARGE if case.step == "mid_send" else 8)
        body = json.dumps({"amount": "20.00", "currency": "EUR", "text": text}).encode()
    try:
        timeout = aiohttp.ClientTimeout(total=seconds)
        async with session.request(
            method, path, headers=headers, data=body, timeout=timeout
        ) as response:
            said = await response.read()
            return Answer(
                status=response.status,
                code=_code(said),
                retry=_seconds(response.headers.get("Retry-After")),
            )
    except (aiohttp.ClientError, TimeoutError):
        return None


def _code(body: bytes) -> str:
    try:
        document = json.loads(body)
        return str(document.get("code", "")) if isinstance(document, dict) else ""
    except ValueError:
        return ""


def _seconds(text: str | None) -> float | None:
    return float(text) if text and text.isdigit() else None
