"""The policy worker on the default bundle: p50 and p99 at c=1, decisions per second at c=16.

The peer in the same run is the engine called directly, in this process, on the same documents, with
the bundle as it is and folded with its data, as the worker's children hold it: what is added to
that is the price of supervision. Every document differs, so that no cache can help.
"""

import asyncio
import os
import signal
import time

import regorus
import uvloop

from processors.model.call import Action
from processors.model.principal import Principal
from sidecar.gateway.policy.document import Situation, document, encode
from sidecar.gateway.policy.driver import inspect
from sidecar.gateway.policy.files import load_bundle
from sidecar.gateway.policy.worker import PolicyWorker

ONE_BY_ONE = 3_000
AT_ONCE = 10_000
BUDGET_P50_MS = 0.2


def documents(count):
    agent = Principal(id="key:1", kind="agent", project="shop", name="bot")
    for number in range(count):
        action = Action(
            tenant="shop",
            agent="key:1",
            tool="issue_refund",
            upstream="payments",
            class_="irreversible",
            method="POST",
            path=f"/orders/{number}/refunds",
            arguments={"order_id": str(number), "amount": 12.5, "reason": f"damaged {number}"},
            headers=(("content-type", "application/json"),),
            media_type="application/json",
            cost_amount=f"{number % 150}.50",
            cost_currency="EUR",
        )
        yield document(
            action,
            agent,
            Situation(time_ns=time.time_ns(), request_id=str(number), key_present=True),
        )


def percentile(seconds, share):
    return sorted(seconds)[int(len(seconds) * share)] * 1000


def percentiles(seconds):
    return f"p50 {percentile(seconds, 0.5):.3f} ms, p99 {percentile(seconds, 0.99):.3f} ms"


def direct(bundle):
    engine = regorus.Engine()
    for module in bundle.modules:
        engine.add_policy(module.path, module.text)
    engine.add_data(bundle.data)
    took = []
    for made in documents(ONE_BY_ONE):
        started = time.perf_counter()
        engine.set_input_json(encode(made).decode())
        engine.eval_rule_as_json("data.agenttwin.v1.decide")
        took.append(time.perf_counter() - started)
    return took


async def one_by_one(worker):
    took = []
    for made in documents(ONE_BY_ONE):
        started = time.perf_counter()
        answer = await worker.decide(made)
        took.append(time.perf_counter() - started)
        assert answer.error is None, answer.error
    return took


async def at_once(worker, concurrency):
    made = iter(list(documents(AT_ONCE)))

    async def client():
        for each in made:
            answer = await worker.decide(each)
            assert answer.error is None, answer.error

    started = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(concurrency)))
    return AT_ONCE / (time.perf_counter() - started)


async def after(worker, name, signal_number):
    """Milliseconds until a caller is denied after a signal, and until the next good decision."""
    slow = next(documents(1))
    while len(worker.pids) < 2:
        await asyncio.sleep(0.01)
    os.kill(worker.pids[0], signal.SIGSTOP)
    waiting = asyncio.ensure_future(worker.decide(slow))
    await asyncio.sleep(0)
    started = time.perf_counter()
    os.kill(worker.pids[0], signal_number)
    answer = await waiting
    denied_ms = (time.perf_counter() - started) * 1000
    assert answer.error
    await worker.decide(slow)
    good_ms = (time.perf_counter() - started) * 1000
    print(f"{name}: denied after {denied_ms:.1f} ms, next good decision after {good_ms:.1f} ms")


async def main():
    inspected = await inspect(load_bundle())
    inspected.child.kill()
    await inspected.child.ended()
    bundle = inspected.bundle
    whole, folded = direct(bundle), direct(inspected.folded)
    worker = PolicyWorker(bundle)
    await worker.start()
    took = await one_by_one(worker)
    rates = [await at_once(worker, 16) for _ in range(2)]
    print(f"engine in process, bundle as it is, c=1: {percentiles(whole)}")
    print(f"engine in process, bundle folded, c=1: {percentiles(folded)}")
    print(f"policy worker, c=1: {percentiles(took)}")
    print(f"policy worker, c=16: {max(rates):,.0f} decisions/s")
    await after(worker, "killed", signal.SIGKILL)
    await after(worker, "stopped (deadline 100 ms)", signal.SIGSTOP)
    await worker.stop()
    if percentile(took, 0.5) > BUDGET_P50_MS:
        print(f"over the budget of {BUDGET_P50_MS} ms at p50")


if __name__ == "__main__":
    uvloop.run(main())  # as a sidecar does
