"""What somebody's long question costs the others: tool calls are answered meanwhile."""

import asyncio
import time

import pytest
from control_rig import control

CALLS = 2000
ASKED = 100


async def chain(each):
    """A chain of some thousand entries."""
    room = asyncio.Semaphore(8)

    async def read(number):
        async with room:  # how it ends is all the same: it is recorded
            await each.ask("GET", f"/payments/orders/{number}")

    await asyncio.gather(*(read(number) for number in range(CALLS)))


async def asked(each, enough):
    """Milliseconds that each tool call took, one after the other, until it is enough."""
    took = []
    while not enough(took):
        begun = time.perf_counter()
        assert (await each.ask("GET", f"/payments/orders/{len(took)}")).status == 200
        took.append((time.perf_counter() - begun) * 1000)
    return sorted(took)


def told(name, took):
    middle, late = took[len(took) // 2], took[int(len(took) * 0.99) - 1]
    print(f"{name} ({len(took)}): p50 {middle:.1f} ms, p99 {late:.1f} ms, max {took[-1]:.1f} ms")


@pytest.mark.full
def test_tool_calls_are_answered_while_the_chain_is_verified_and_exported(tmp_path):
    async def scenario():
        async with control(tmp_path) as each:
            await chain(each)
            told("tool calls alone", await asked(each, lambda took: len(took) >= ASKED))
            begun = time.perf_counter()
            path = "/v1/audit/verification"
            verifying = asyncio.gather(
                each.http_ask("GET", path, by=each.reader),
                each.http_ask("GET", path, by=each.reader),
            )
            some = await asked(each, lambda _: verifying.done())
            told("while the chain is verified", some)
            assert len(some) > 10
            refused, answer = sorted(await verifying, key=lambda told: -told.status)
            assert (refused.status, refused.headers["retry-after"]) == (429, "5")
            verified = answer.json
            assert verified["good"] and verified["entries"] > CALLS
            seconds = time.perf_counter() - begun
            print(f"verified {verified['entries']} entries in {seconds:.1f} s")
            exporting = asyncio.create_task(
                each.http_ask("GET", "/v1/audit/entries", by=each.reader)
            )
            some = await asked(each, lambda _: exporting.done())
            told("while the chain is exported", some)
            assert len((await exporting).body.splitlines()) > verified["entries"]

    asyncio.run(scenario())
