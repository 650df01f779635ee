"""Sends spans with content as fast as they are taken, over gRPC.

Usage: soak_sender.py ADDRESS KEY SPANS LANES PROGRESS_FILE

Each trace is a run of eight spans with messages, arguments and results, about 1.5 KB a span and
never twice the same. A request holds 64 whole traces. A request that is told to come back is sent
again; the number of acknowledged spans is written to PROGRESS_FILE every second.
"""

import asyncio
import json
import random
import sys
from pathlib import Path

import grpc
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
TRACES, SPANS = 64, 8
BASE = 1_760_000_000_000_000_000
RETRIED = (grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.UNAVAILABLE)
WORDS = (
    *("order", "refund", "customer", "parcel", "shipped", "delayed", "paid", "card", "euro"),
    *("please", "confirm", "address", "returned", "warehouse", "invoice", "number", "today"),
)


class Load:
    """The requests, by number; trace ids count up from 1."""

    def __init__(self, seed=20260701):
        self.dice = random.Random(seed)

    def request(self, number):
        """Request ``number``: its traces are ``number * TRACES + 1`` and on."""
        request = ExportTraceServiceRequest()
        group = request.resource_spans.add()
        put(group.resource.attributes, "service.name", "soak")
        scope = group.scope_spans.add()
        for trace in range(number * TRACES + 1, (number + 1) * TRACES + 1):
            self.run(scope.spans, trace)
        return request.SerializeToString()

    def run(self, spans, trace):
        """One run: an agent, then model calls and tool calls by turns."""
        said = self.text(60)
        for place in range(SPANS):
            span = spans.add(
                trace_id=trace.to_bytes(16, "big"),
                span_id=(trace * SPANS + place + 1).to_bytes(8, "big"),
                start_time_unix_nano=BASE + trace * 1_000_000 + place * 1000,
                end_time_unix_nano=BASE + trace * 1_000_000 + place * 1000 + 900,
            )
            if place:
                span.parent_span_id = (trace * SPANS + 1).to_bytes(8, "big")
            kind = "invoke_agent" if not place else ("chat", "execute_tool")[place % 2 == 0]
            span.name = kind
            put(span.attributes, "gen_ai.operation.name", kind)
            call = f"call_{trace:x}_{place + place % 2}"
            if kind == "chat":
                asked = {
                    "type": "tool_call",
                    "id": call,
                    "name": "look_up",
                    "arguments": {"q": place},
                }
                put(span.attributes, "gen_ai.request.model", "m-1")
                put(span.attributes, "gen_ai.input.messages", message("user", said))
                put(span.attributes, "gen_ai.output.messages", json.dumps(
                    [{"role": "assistant", "parts": [asked]}]))  # fmt: skip
                span.attributes.add(key="gen_ai.usage.input_tokens").value.int_value = place * 7
            elif kind == "execute_tool":
                put(span.attributes, "gen_ai.tool.name", "look_up")
                put(span.attributes, "gen_ai.tool.call.id", call)
                put(span.attributes, "gen_ai.tool.call.arguments", json.dumps({"q": place - 1}))
                put(span.attributes, "gen_ai.tool.call.result", json.dumps({"r": self.text(120)}))

    def text(self, words):
        return " ".join(self.dice.choices(WORDS, k=words)) + f" {self.dice.getrandbits(64):x}"


def message(role, content):
    return json.dumps([{"role": role, "parts": [{"type": "text", "content": content}]}])


def put(attributes, key, value):
    attributes.add(key=key).value.string_value = value


class Sender:
    """Some lanes that share a counter."""

    def __init__(self, address, key, requests):
        self.address, self.key = address, key
        self.left = iter(range(requests))
        self.acknowledged = 0

    async def lane(self):
        """Send until no request is left."""
        load = Load()
        metadata = (("authorization", f"Bearer {self.key}"),)
        async with grpc.aio.insecure_channel(self.address) as channel:
            export = channel.unary_unary(EXPORT)
            for number in self.left:
                body = load.request(number)
                while not await self.sent(export, body, metadata):
                    await asyncio.sleep(0.2)
                self.acknowledged += TRACES * SPANS

    async def sent(self, export, body, metadata):
        try:
            await export(body, metadata=metadata, timeout=60)
        except grpc.aio.AioRpcError as error:
            if error.code() not in RETRIED:
                raise
            return False
        return True

    async def tell(self, file):
        while True:
            file.write_text(str(self.acknowledged))
            await asyncio.sleep(1)


async def main(address, key, spans, lanes, file):
    """Send, and say how far it is."""
    sender = Sender(address, key, -(-int(spans) // (TRACES * SPANS)))
    telling = asyncio.create_task(sender.tell(Path(file)))
    await asyncio.gather(*(sender.lane() for _ in range(int(lanes))))
    telling.cancel()
    Path(file).write_text(str(sender.acknowledged))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
