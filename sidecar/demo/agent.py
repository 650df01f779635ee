"""The support-refund agent as a process: JSON in, the answer out, everything else on the wire.

Rules
1. stdin is one JSON object {input, messages[], scenario, seed}; the last stdout line is
   {"output": text}.
2. Tools are reached through ``SIDECAR_GATEWAY_URL`` with ``SIDECAR_AGENT_KEY``; the model and the
   OTLP endpoint are reached directly, so proxy settings of the environment are dropped: they are
   for tools.
3. Spans are flushed before the output is printed: whoever reads the output may read the trace.

``python -m sidecar.demo.agent --version 1.2.4 --model-url URL [--exchanges FILE]``
"""

import argparse
import gc
import json
import os
import sys
from pathlib import Path

import msgspec

from sidecar.demo import prompts
from sidecar.demo.tool_client import Exchange, Settings, ToolClient

_PROXIES = tuple(
    name
    for scheme in ("http", "https", "all")
    for name in (f"{scheme}_proxy", f"{scheme}_proxy".upper())
)


def main() -> int:
    """Run once. Exit code 1 when the model or the environment fails."""
    arguments = _arguments()
    settings = _settings(arguments)
    for name in _PROXIES:
        os.environ.pop(name, None)
    gc.disable()  # a run lives for a second: collecting costs a tenth of it and frees nothing
    return _run(arguments, settings)


def _run(arguments: argparse.Namespace, settings: Settings) -> int:
    from openai import OpenAI, OpenAIError

    from sidecar.demo import agent_telemetry
    from sidecar.demo.conversation import Agent

    provider = agent_telemetry.start(arguments.version)
    tools = ToolClient(settings, agent_telemetry.wire_context)
    model = OpenAI(base_url=arguments.model_url, api_key=os.environ.get("OPENAI_API_KEY", "demo"))
    agent = Agent(arguments.version, model, tools)
    try:
        with agent_telemetry.parent(os.environ):
            output = agent.run(json.load(sys.stdin))
    except (ValueError, OpenAIError) as error:
        print(f"refund agent {arguments.version}: {error}", file=sys.stderr)
        return 1
    finally:
        provider.shutdown()
        model.close()
    if arguments.exchanges:
        _write_exchanges(arguments.exchanges, agent.trace_id, tools.exchanges)
    print(json.dumps({"output": output}), flush=True)
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="the demo's support-refund agent")
    parser.add_argument("--version", choices=prompts.VERSIONS, required=True)
    parser.add_argument("--model-url", required=True, help="base URL of the model, ending in /v1")
    parser.add_argument(
        "--approval-wait", type=float, default=120.0, help="seconds to poll an approval"
    )
    parser.add_argument("--exchanges", type=Path, help="write the HTTP exchanges of this run here")
    return parser.parse_args()


def _settings(arguments: argparse.Namespace) -> Settings:
    missing = [n for n in ("SIDECAR_GATEWAY_URL", "SIDECAR_AGENT_KEY") if not os.environ.get(n)]
    if missing:
        raise SystemExit(f"refund agent: set {' and '.join(missing)}")
    return Settings(
        gateway_url=os.environ["SIDECAR_GATEWAY_URL"],
        agent_key=os.environ["SIDECAR_AGENT_KEY"],
        approval_wait_seconds=arguments.approval_wait,
    )


def _write_exchanges(path: Path, trace_id: str, exchanges: list[Exchange]) -> None:
    """The run's exchanges, approval token included, for the owner's eyes only."""
    record = {"trace_id": trace_id, "exchanges": exchanges}
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(msgspec.json.encode(record))


if __name__ == "__main__":
    sys.exit(main())
