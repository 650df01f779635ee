"""The support-refund agent: an ordinary tool-calling loop on the openai client, in its own process.

Rules
1. stdin is one JSON object {input, messages[], scenario, seed}; the last stdout line is {"output":
   text}.
2. Tools are reached through ``SIDECAR_GATEWAY_URL`` with ``SIDECAR_AGENT_KEY``; the model and the
   OTLP endpoint are reached directly, so proxy settings of the environment are dropped: they are
   for tools.
3. One ``invoke_agent`` span a run; each tool call has an ``execute_tool`` span whose context goes
   on the wire.
4. Spans are flushed before the output is printed: whoever reads the output may read the trace.

``python -m sidecar.demo.agent --version 1.2.4 --model-url URL [--exchanges FILE]``
"""

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

import msgspec
from openai import OpenAI, OpenAIError
from opentelemetry import trace

from sidecar.demo import agent_telemetry, prompts
from sidecar.demo.script import MODEL
from sidecar.demo.tool_client import Settings, ToolClient
from sidecar.demo.toolbox import BY_NAME, TOOLS

TURNS_MAX = 12
TRACER = "sidecar.demo.agent"


class Agent:
    """One run of the agent."""

    def __init__(self, version: str, model: OpenAI, tools: ToolClient) -> None:
        self._version = version
        self._model = model
        self._tools = tools
        self._tracer = trace.get_tracer(TRACER)
        self.trace_id = ""

    def run(self, request: dict[str, Any]) -> str:
        """The final answer to ``request``. Raises OpenAIError when the model cannot be had."""
        asked = str(request.get("input") or "")
        messages: list[Any] = [{"role": "system", "content": prompts.system_prompt(self._version)}]
        messages += request.get("messages") or []
        if asked:
            messages.append({"role": "user", "content": asked})
        attributes = agent_telemetry.agent_attributes(self._version, asked)
        with self._tracer.start_as_current_span(
            f"invoke_agent {agent_telemetry.NAME}", attributes=attributes
        ) as span:
            self.trace_id = f"{span.get_span_context().trace_id:032x}"
            output = self._loop(messages, request.get("seed"))
            span.set_attributes(
                agent_telemetry.content("gen_ai.output.messages", "assistant", output)
            )
        return output

    def _loop(self, messages: list[Any], seed: int | None) -> str:
        extra: dict[str, Any] = {} if seed is None else {"seed": seed}
        offered: Any = [tool.for_model() for tool in TOOLS]
        for _ in range(TURNS_MAX):
            completion = self._model.chat.completions.create(
                model=MODEL, messages=messages, tools=offered, **extra
            )
            message = completion.choices[0].message
            if not message.tool_calls:
                return message.content or ""
            messages.append(message.model_dump(exclude_none=True))
            for call in message.tool_calls:
                messages.append(self._execute(call))
        return "I could not finish this; a colleague will look into it."

    def _execute(self, call: Any) -> dict[str, str]:
        name, arguments = call.function.name, call.function.arguments
        attributes = agent_telemetry.tool_attributes(name, call.id, arguments)
        with self._tracer.start_as_current_span(
            f"execute_tool {name}", attributes=attributes
        ) as span:
            result = self._result(name, arguments, call.id)
            text = json.dumps(result)
            if agent_telemetry.captures():
                span.set_attribute("gen_ai.tool.call.result", text)
            if "error" in result:
                code = str(result["error"].get("code") or result["error"].get("status"))
                span.set_attribute("error.type", code)
                span.set_status(trace.StatusCode.ERROR, code)
        return {"role": "tool", "tool_call_id": call.id, "content": text}

    def _result(self, name: str, arguments: str, call_id: str) -> dict[str, Any]:
        tool = BY_NAME.get(name)
        if tool is None:
            return {"error": {"code": "no_such_tool", "detail": f"there is no tool {name}"}}
        return self._tools.call(tool, json.loads(arguments), call_id)


def main() -> int:
    """Run once. Exit code 1 when the model or the environment fails."""
    arguments = _arguments()
    for name in (
        "HTTP_PROXY",
        "http_proxy",
        "HTTPS_PROXY",
        "https_proxy",
        "ALL_PROXY",
        "all_proxy",
    ):
        os.environ.pop(name, None)
    provider = agent_telemetry.start(arguments.version)
    tools = ToolClient(_settings(arguments), agent_telemetry.wire_context)
    model = OpenAI(base_url=arguments.model_url, api_key=os.environ.get("OPENAI_API_KEY", "demo"))
    agent = Agent(arguments.version, model, tools)
    try:
        request = json.load(sys.stdin)
        with agent_telemetry.parent(os.environ):
            output = agent.run(request)
    except (ValueError, OpenAIError) as error:
        print(f"refund agent {arguments.version}: {error}", file=sys.stderr)
        return 1
    finally:
        provider.shutdown()
        model.close()
    if arguments.exchanges:
        _write_exchanges(arguments.exchanges, agent, tools)
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


def _write_exchanges(path: Path, agent: Agent, tools: ToolClient) -> None:
    """The run's exchanges, approval token included, for the owner's eyes only."""
    record = {"trace_id": agent.trace_id, "exchanges": tools.exchanges}
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(msgspec.json.encode(record))


if __name__ == "__main__":
    sys.exit(main())
