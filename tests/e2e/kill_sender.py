"""A sender that never gives up: spans in small requests, each sent again until it is acknowledged.

Usage: kill_sender.py FOLDER SEED [SIDE]. It reads FOLDER/address (JSON: http, grpc) and FOLDER/key
before each try, and appends a line to FOLDER/acknowledged for each span, only after the request
that held it was answered OK. It ends, with the requests it has begun, when FOLDER/stop is there.
"""

import asyncio
import gzip
import json
import random
import sys
from pathlib import Path

import aiohttp
import grpc
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
LANES = 6
# One request in so many is larger than anything that the receiver looks at by itself (2 MiB).
LARGE_EVERY = 20
LARGE_BYTES = 2_400_000
BASE = 1_760_000_000_000_000_000
OPERATIONS = ("invoke_agent", "chat", "execute_tool")


def bulk(dice):
    """Text that does not pack well: what does is refused as a bomb."""
    return dice.randbytes(LARGE_BYTES // 2).hex()


class Sender:
    """One stream of requests; ``lane`` keeps its ids apart from those of the others.

    Senders of another ``side`` have other spans of the same traces.
    """

    def __init__(self, folder, dice, lane, log, side=0):
        self.folder, self.dice, self.lane, self.log = folder, dice, lane, log
        self.trace = lane << 40
        self.span = (lane << 40) + (side << 36)

    def request(self):
        """A request with spans of new traces and of earlier ones, and the ids in it."""
        request = ExportTraceServiceRequest()
        group = request.resource_spans.add()
        group.resource.attributes.add(key="service.name").value.string_value = "load"
        scope, ids = group.scope_spans.add(), []
        for _ in range(self.dice.randint(1, 12)):
            if self.dice.random() < 0.3:
                self.trace += 1
            # Sometimes an earlier trace, silent or even published already, gets another span.
            back = self.dice.choice((0, 0, 0, 0, 1, 5, 60))
            trace = max(self.trace - back, (self.lane << 40) + 1)
            self.span += 1
            span = scope.spans.add(name="step")
            span.trace_id = trace.to_bytes(16, "big")
            span.span_id = self.span.to_bytes(8, "big")
            span.start_time_unix_nano = BASE + self.span
            span.end_time_unix_nano = BASE + self.span + 5
            operation = self.dice.choice(OPERATIONS)
            span.attributes.add(key="gen_ai.operation.name").value.string_value = operation
            ids.append((span.trace_id.hex(), span.span_id.hex()))
        if self.dice.randrange(LARGE_EVERY) == 0:
            # On a scope, where it is sent and looked at but kept with no step.
            scope.scope.attributes.add(key="bulk").value.string_value = bulk(self.dice)
        return request.SerializeToString(), ids

    async def run(self):
        """Send until told to stop."""
        while not (self.folder / "stop").exists():
            body, ids = self.request()
            while not await self.try_once(body):
                await asyncio.sleep(0.05)
            for trace, span in ids:
                self.log.write(f"{trace} {span}\n")
            self.log.flush()
            await asyncio.sleep(self.dice.random() * 0.05)

    async def try_once(self, body):
        """Whether the request was acknowledged; anything else is tried again."""
        try:
            address = json.loads((self.folder / "address").read_text())
            key = (self.folder / "key").read_text()
            send = self.over_grpc if self.lane % 2 else self.over_http
            return await send(address, {"authorization": f"Bearer {key}"}, body)
        except (OSError, ValueError, aiohttp.ClientError, TimeoutError):
            return False

    async def over_http(self, address, headers, body):
        """POST, gzipped."""
        headers = {**headers, "content-type": "application/x-protobuf", "content-encoding": "gzip"}
        timeout = aiohttp.ClientTimeout(total=5)
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.post(
                f"http://{address['http']}/v1/traces", data=gzip.compress(body, 1), headers=headers
            ) as answer,
        ):
            return answer.status == 200

    async def over_grpc(self, address, headers, body):
        """Export."""
        async with grpc.aio.insecure_channel(address["grpc"]) as channel:
            try:
                await channel.unary_unary(EXPORT)(body, metadata=tuple(headers.items()), timeout=5)
            except grpc.aio.AioRpcError:
                return False
            return True


async def main(folder, seed, side):
    """All lanes at once."""
    with (folder / "acknowledged").open("a") as log:
        lanes = [
            Sender(folder, random.Random(f"{seed}:{n}"), n + 1, log, side) for n in range(LANES)
        ]
        await asyncio.gather(*(lane.run() for lane in lanes))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], int((*sys.argv, 0)[3])))
