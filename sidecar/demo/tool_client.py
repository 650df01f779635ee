"""The agent's way to its tools: HTTP through the sidecar's gateway, as an ordinary careful client
would.

Rules
1. The Idempotency-Key comes from the model's tool call, so every retry of a call carries the same
   key and a second tool call carries another.
2. Retried, with the same key and the server's pauses: no connection, 429, 503, 504, and 409
   ``in_flight`` or ``outcome_unknown``. Nothing else is.
3. ``approval_required`` is polled at the gateway; the token it yields is sent once, with the same
   key.
4. What comes back is told as it is: a failure is a result, never an exception.
"""

import json
import time
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from sidecar.demo.toolbox import UPSTREAM, Tool
from sidecar.demo.wire import Answer, send

RETRY_CODES = frozenset({"in_flight", "outcome_unknown"})
RETRY_STATUSES = frozenset({0, 429, 503, 504})


class Settings(Struct, frozen=True, kw_only=True):
    """Where the gateway is, who the agent is, and how patient it is (seconds)."""

    gateway_url: str
    agent_key: str
    attempts: int = 5
    approval_wait_seconds: float = 120.0
    pause_seconds_max: float = 2.0


class Exchange(Struct, frozen=True, kw_only=True):
    """One HTTP exchange for a tool call, as the agent saw it; ``status`` 0 = no answer."""

    tool: str
    method: str
    path: str
    status: int
    sent: Any = None
    body: Any = None
    key: str | None = None
    code: str | None = None
    receipt_id: str | None = None
    decision: str | None = None
    replayed: bool = False
    approval_id: str | None = None
    token: str | None = None


class ToolClient:
    """Calls tools; ``headers`` gives the trace context to send with each request."""

    def __init__(self, settings: Settings, headers: Callable[[], Mapping[str, str]]) -> None:
        self._settings = settings
        self._headers = headers
        self.exchanges: list[Exchange] = []

    def call(self, tool: Tool, arguments: dict[str, Any], call_id: str) -> dict[str, Any]:
        """The tool's JSON answer, or ``{"error": {status, code, detail}}``."""
        try:
            path, body = tool.request(arguments)
        except KeyError as error:
            return {"error": {"code": "missing_argument", "detail": f"{error} is missing"}}
        key = f"refund-agent-{call_id}" if tool.keyed else None
        exchange = self._attempts(tool, path, body, key)
        if exchange.code == "approval_required" and exchange.approval_id:
            exchange = self._with_approval(tool, (path, body, key), exchange.approval_id)
        return _result(exchange)

    def _attempts(
        self, tool: Tool, path: str, body: bytes | None, key: str | None, token: str | None = None
    ) -> Exchange:
        for attempt in range(1, self._settings.attempts + 1):
            exchange, pause = self._send(tool, path, body, key, token)
            self.exchanges.append(exchange)
            retry = exchange.status in RETRY_STATUSES or exchange.code in RETRY_CODES
            if not retry or attempt == self._settings.attempts:
                break
            time.sleep(min(pause, self._settings.pause_seconds_max))
        return exchange

    def _send(
        self, tool: Tool, path: str, body: bytes | None, key: str | None, token: str | None
    ) -> tuple[Exchange, float]:
        headers = dict(self._headers())
        if key is not None:
            headers["Idempotency-Key"] = key
        if token is not None:
            headers["Approval-Token"] = token
        answer = self._http(tool.method, f"/{UPSTREAM}{path}", headers, body)
        problem = answer.problem
        exchange = Exchange(
            tool=tool.name,
            method=tool.method,
            path=path,
            status=answer.status,
            sent=None if body is None else json.loads(body),
            body=answer.value,
            key=key,
            code=problem.get("code"),
            receipt_id=answer.headers.get("gateway-receipt"),
            decision=answer.headers.get("gateway-decision"),
            replayed=answer.headers.get("idempotent-replayed", "").lower() == "true",
            approval_id=(problem.get("approval") or {}).get("id"),
            token=token,
        )
        return exchange, _pause(answer.headers.get("retry-after"))

    def _with_approval(
        self, tool: Tool, request: tuple[str, bytes | None, str | None], approval_id: str
    ) -> Exchange:
        path, body, key = request
        state = self._poll(approval_id)
        token = state.get("token") if state.get("status") == "approved" else None
        if token is None:
            detail = f"the approval is {state.get('status', 'unknown')}"
            return Exchange(
                tool=tool.name, method=tool.method, path=path, status=403, key=key,
                code=f"approval_{state.get('status', 'unknown')}", body={"detail": detail},
            )  # fmt: skip
        return self._attempts(tool, path, body, key, str(token))

    def _poll(self, approval_id: str) -> dict[str, Any]:
        deadline = time.monotonic() + self._settings.approval_wait_seconds
        while True:
            answer = self._http("GET", f"/v1/approvals/{approval_id}", self._headers(), None)
            state = answer.value if answer.status == 200 else {}
            pending = state.get("status") == "pending" or answer.status in RETRY_STATUSES
            if not pending or time.monotonic() >= deadline:
                return state
            time.sleep(min(float(state.get("poll_after_ms") or 500) / 1000, 0.5))

    def _http(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes | None
    ) -> Answer:
        url = self._settings.gateway_url.rstrip("/") + path
        return send(method, url, key=self._settings.agent_key, headers=headers, body=body)


def _result(exchange: Exchange) -> dict[str, Any]:
    if 200 <= exchange.status < 300:
        return exchange.body if isinstance(exchange.body, dict) else {"value": exchange.body}
    told = exchange.body if isinstance(exchange.body, dict) else {}
    detail = told.get("detail") or told.get("error") or f"HTTP {exchange.status}"
    return {"error": {"status": exchange.status, "code": exchange.code, "detail": detail}}


def _pause(retry_after: str | None) -> float:
    return float(retry_after) if retry_after and retry_after.isdecimal() else 0.5
