"""One run of the refund agent for the demo: started, attended to, and read back.

Rules
1. The agent runs as any agent would: its own process, its own key, the gateway as its only way.
2. While it runs, somebody with an approver key watches for held calls; who approves is never the
   agent.
3. What the agent did is read from its own record of HTTP exchanges, which is deleted at once: it
   may hold an approval token.
"""

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
from msgspec import Struct

from sidecar.demo.approvals import Approver, Held
from sidecar.demo.processes import Service, python
from sidecar.demo.stage import Stage
from sidecar.demo.tool_client import Exchange
from sidecar.errors import SidecarError

RUN_SECONDS = 90.0
OnHeld = Callable[[Held], None]


class Run(Struct, frozen=True, kw_only=True):
    """What a run of the agent said and did; ``held`` are the approvals it waited for."""

    version: str
    output: str
    trace_id: str
    exchanges: tuple[Exchange, ...]
    held: tuple[Held, ...] = ()

    def calls(self, tool: str) -> list[Exchange]:
        """The HTTP exchanges for a tool, in order."""
        return [exchange for exchange in self.exchanges if exchange.tool == tool]

    def receipt_ids(self) -> tuple[str, ...]:
        """The receipts of the calls that carried a key: those that could have an effect."""
        found = [x.receipt_id for x in self.exchanges if x.key and x.receipt_id]
        return tuple(dict.fromkeys(found))


class _Record(Struct, frozen=True, kw_only=True):
    trace_id: str
    exchanges: tuple[Exchange, ...]


def run(stage: Stage, version: str, asked: str, *, on_held: OnHeld | None = None) -> Run:
    """Run the agent to its end; held calls are shown to ``on_held``, then approved."""
    with tempfile.TemporaryDirectory() as private:
        record_path = Path(private) / "exchanges.json"
        agent = _start(stage, version, asked, record_path)
        held = _attend(stage, agent, on_held)
        code, stdout = agent.finish(seconds=RUN_SECONDS)
        if code != 0:
            raise SidecarError(f"the refund agent {version} failed: {agent.last_words()}")
        record = msgspec.json.decode(record_path.read_bytes(), type=_Record)
    return Run(
        version=version,
        output=json.loads(stdout.splitlines()[-1])["output"],
        trace_id=record.trace_id,
        exchanges=record.exchanges,
        held=held,
    )


def command(stage: Stage, version: str) -> list[str]:
    """The agent's command line, as a REF of ``sidecar replay`` runs it too."""
    return python("sidecar.demo.agent", "--version", version, "--model-url", stage.model_url)


def _start(stage: Stage, version: str, asked: str, record_path: Path) -> Service:
    request: dict[str, Any] = {"input": asked, "messages": [], "scenario": "", "seed": None}
    environment = {
        "SIDECAR_GATEWAY_URL": stage.url("gateway.listen"),
        "SIDECAR_AGENT_KEY": stage.keys.agent,
        "OTEL_EXPORTER_OTLP_ENDPOINT": stage.url("receive.http"),
        "OTEL_EXPORTER_OTLP_HEADERS": f"Authorization={quote(f'Bearer {stage.keys.agent}')}",
    }
    return stage.run(
        "agent",
        [*command(stage, version), "--exchanges", str(record_path)],
        stdin=json.dumps(request).encode(),
        environment=environment,
    )


def _attend(stage: Stage, agent: Service, on_held: OnHeld | None) -> tuple[Held, ...]:
    approver = Approver(stage.url("control.listen"), stage.keys.approver)
    seen: list[Held] = []
    while agent.alive():
        for held in approver.pending():
            if on_held is not None:
                on_held(held)
            approver.approve(held, "checked against the order")
            seen.append(held)
        agent.pause(0.2)
    return tuple(seen)
