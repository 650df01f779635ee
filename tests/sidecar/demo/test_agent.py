"""The agent process against the real commerce service and model server, over real HTTP and OTLP."""

import asyncio
import json
import os
import sys

import pytest
from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from sidecar.demo import commerce, model_server
from sidecar.demo.shop import Order, Shop

pytestmark = (
    pytest.mark.full
)  # an interpreter and a model's client a run; the fast tier plays the demo


class Front:
    """What the agent is pointed at: the shop under /commerce, an OTLP sink, surprises."""

    def __init__(self, tmp_path):
        self.shop = Shop(tmp_path / "shop.db")
        self.spans, self.requests, self.approvals = [], [], []
        self.surprises = []
        self.tmp_path = tmp_path

    async def serve(self):
        app = web.Application(middlewares=[self._middleware])
        app.add_subapp("/commerce/", commerce.application(self.shop))
        app.router.add_post("/otlp/v1/traces", self._traces)
        app.router.add_get("/v1/approvals/{id}", self._approval)
        self.url, self._gateway = await listen(app)
        self.model_url, self._model = await listen(model_server.application())

    async def close(self):
        await self._gateway.cleanup()
        await self._model.cleanup()
        self.shop.close()

    @web.middleware
    async def _middleware(self, request, handler):
        if request.path.startswith("/commerce"):
            self.requests.append((request.method, request.path, dict(request.headers)))
        answer = await handler(request)
        if request.path.endswith("/refunds") and self.surprises:
            return self.surprises.pop(0) or answer
        return answer

    async def _traces(self, request):
        batch = ExportTraceServiceRequest.FromString(await request.read())
        for resource in batch.resource_spans:
            self.spans += [span for scope in resource.scope_spans for span in scope.spans]
        return web.Response(body=b"", content_type="application/x-protobuf")

    async def _approval(self, request):
        return web.json_response({"id": request.match_info["id"], **self.approvals.pop(0)})

    async def agent(self, asked, version="1.2.4", **environment):
        exchanges = self.tmp_path / "exchanges.json"
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "sidecar.demo.agent", "--version", version),
            *("--model-url", f"{self.model_url}/v1", "--exchanges", str(exchanges)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={
                **os.environ,
                "SIDECAR_GATEWAY_URL": self.url,
                "SIDECAR_AGENT_KEY": "key-of-the-agent",
                "OTEL_EXPORTER_OTLP_ENDPOINT": f"{self.url}/otlp",
                "HTTP_PROXY": "http://127.0.0.1:9",
                **environment,
            },
        )
        request = {"input": asked, "messages": [], "scenario": "s", "seed": 1}
        out, errors = await process.communicate(json.dumps(request).encode())
        assert process.returncode == 0, errors.decode()
        return json.loads(out.splitlines()[-1])["output"], json.loads(exchanges.read_text())


async def listen(app):
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    return f"http://127.0.0.1:{runner.addresses[0][1]}", runner


@pytest.fixture
def play(tmp_path):
    """Run a scenario against a front with one order in its shop."""

    def run(scenario, **order):
        async def main():
            front = Front(tmp_path)
            order_ = {"customer": "Ada", "email": "a@x.example", "item": "Kettle", "total": "49.00"}
            front.shop.place(Order(order_id="ORD-1", **{**order_, **order}))
            await front.serve()
            try:
                await scenario(front)
            finally:
                await front.close()

        asyncio.run(main())

    return run


def attribute(span, name):
    return next((a.value.string_value for a in span.attributes if a.key == name), None)


def test_a_refund_is_made_and_the_run_is_one_trace_joined_to_its_tool_calls(play):
    async def scenario(front):
        output, record = await front.agent(
            "Please refund ORD-1.", BAGGAGE="agenttwin-episode=ep1.x.y",
            TRACEPARENT="00-" + "a" * 32 + "-" + "b" * 16 + "-01",
        )  # fmt: skip
        assert output == "I have refunded EUR 49.00 for order ORD-1."
        assert front.shop.order("ORD-1")["refunded"] == "49.00"
        operations = [attribute(span, "gen_ai.operation.name") for span in front.spans]
        assert sorted(operations) == ["chat"] * 5 + ["execute_tool"] * 4 + ["invoke_agent"]
        assert {span.trace_id.hex() for span in front.spans} == {"a" * 32} == {record["trace_id"]}
        by_id = {span.span_id.hex(): span for span in front.spans}
        for method, path, headers in front.requests:
            span = by_id[headers["traceparent"].split("-")[2]]
            assert attribute(span, "gen_ai.operation.name") == "execute_tool", (method, path)
            assert headers["baggage"] == "agenttwin-episode=ep1.x.y"
            assert headers["Authorization"] == "Bearer key-of-the-agent"
        chats = [span for span in front.spans if attribute(span, "gen_ai.operation.name") == "chat"]
        assert all("refund desk" in attribute(span, "gen_ai.input.messages") for span in chats)

    play(scenario)


def test_a_retry_after_a_timeout_carries_the_same_key_and_makes_one_refund(play):
    async def scenario(front):
        front.surprises = [
            web.json_response({"code": "timeout"}, status=504, headers={"Retry-After": "0"})
        ]
        output, record = await front.agent("Please refund ORD-1.")
        assert output.startswith("I have refunded")
        tries = [x for x in record["exchanges"] if x["tool"] == "issue_refund"]
        assert [x["status"] for x in tries] == [504, 201]
        assert len({x["key"] for x in tries}) == 1
        assert front.shop.requests("issue_refund", "ORD-1") == 2
        assert len(front.shop.refunds(order_id="ORD-1")) == 1

    play(scenario)


def test_a_held_refund_is_polled_and_sent_again_with_its_token_and_the_same_key(play):
    async def scenario(front):
        held = {"code": "approval_required", "approval": {"id": "ap-1", "poll_after_ms": 10}}
        front.surprises = [web.json_response(held, status=403)]
        front.approvals = [
            {"status": "pending", "poll_after_ms": 10},
            {"status": "approved", "token": "tok"},
        ]
        output, record = await front.agent("Please refund ORD-1.")
        assert output.startswith("I have refunded")
        tries = [x for x in record["exchanges"] if x["tool"] == "issue_refund"]
        assert [(x["status"], x["token"]) for x in tries] == [(403, None), (201, "tok")]
        assert tries[0]["key"] == tries[1]["key"]
        sent = [h.get("Approval-Token") for m, p, h in front.requests if p.endswith("/refunds")]
        assert sent == [None, "tok"]

    play(scenario)


def test_a_denied_approval_is_told_and_nothing_is_sent_again(play):
    async def scenario(front):
        held = {"code": "approval_required", "approval": {"id": "ap-1", "poll_after_ms": 10}}
        front.surprises = [web.json_response(held, status=403)]
        front.approvals = [{"status": "denied"}]
        output, record = await front.agent("Please refund ORD-1.")
        assert output == "I could not refund order ORD-1: the approval is denied."
        assert len([x for x in record["exchanges"] if x["tool"] == "issue_refund"]) == 1

    play(scenario)


def test_two_runs_make_two_keys_unless_they_are_the_same_run_under_one_seed(play):
    async def scenario(front):
        _, first = await front.agent("Refund 9 EUR of ORD-1", version="1.3.0")
        _, second = await front.agent("Refund 8 EUR of ORD-1", version="1.3.0")
        keys = [x["key"] for r in (first, second) for x in r["exchanges"] if x["key"]]
        assert len(set(keys)) == 2
        assert front.shop.order("ORD-1")["refunded"] == "17.00"

    play(scenario)


def test_the_agent_s_exchanges_are_for_its_owner_s_eyes(play):
    async def scenario(front):
        await front.agent("Where is ORD-1?")
        assert (front.tmp_path / "exchanges.json").stat().st_mode & 0o077 == 0

    play(scenario)


def test_a_lying_shop_and_a_believing_agent_make_a_false_success(play):
    async def scenario(front):
        output, _ = await front.agent("Refund ORD-1", version="1.3.0")
        assert output.startswith("I have refunded")
        assert front.shop.refunds(order_id="ORD-1") == []

    play(scenario, behaviour="lie")
