"""The refund agent's mind: an ordinary tool-calling loop on the openai client, traced.

Rules
1. One ``invoke_agent`` span a run; each tool call has an ``execute_tool`` span whose context goes
   on the wire.
2. A failed tool call is a result that the model is shown; only the model's own failure ends a run.
"""

import json
from typing import Any

from openai import OpenAI
from opentelemetry import trace

from sidecar.demo import agent_telemetry, prompts
from sidecar.demo.script import MODEL
from sidecar.demo.tool_client import ToolClient
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
