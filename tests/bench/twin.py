"""Twin episodes per second: a callable agent on the twin, and an agent process through the gateway.

An episode is 10 tool calls with evaluation. The process agent is a bare Python script: what it
costs beyond the interpreter's start is the whole gateway path, ten times.
"""

import asyncio
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

from sidecar import clock
from sidecar.gateway.config import Approvals
from sidecar.gateway.policy.files import load_bundle
from sidecar.gateway.policy.worker import PolicyWorker
from sidecar.receive.memory import keep_objects
from sidecar.replay.direct import run_direct
from sidecar.replay.driver import ReplayPlan, replay
from sidecar.replay.reference import read_reference
from sidecar.replay.stage.driver import StagePorts
from sidecar.store.envelope import Sealer
from sidecar.store.sqlite.ledger import SqliteLedger
from sidecar.twins.files import load_suite
from sidecar.twins.scenario import cases

TWIN = """\
twin: shop
entities:
  orders:
    key: id
    schema: {type: object, required: [id, paid, refunded]}
    rows: [{id: o1, paid: 100, refunded: 0}]
  refunds: {key: id}
tools:
  - name: get_order
    match: {method: GET, path: "/orders/{order_id}"}
    class: read
    let: {order: 'row("orders", arguments.order_id)'}
    preconditions: [{require: order != null, status: 404}]
    response: {body: order}
  - name: note
    match: {method: POST, path: "/orders/{order_id}/notes"}
    class: write
    let: {id: next_id("N"), order: 'row("orders", arguments.order_id)'}
    preconditions: [{require: 'order != null && size(arguments.text) < 100', status: 409}]
    effects:
      - {op: insert, entity: refunds, values: {id: id, text: arguments.text}}
      - {op: increment, entity: orders, key: arguments.order_id, field: refunded, by: 1}
    response: {status: 201, body: {id: id}}
"""
SUITE = """\
suite: bench
twins: [twin.yaml]
scenarios:
"""
SCENARIO = """\
  - id: c{number}
    input: o1
    expect:
      - {{type: toolCalled, tool: note, times: 5}}
      - {{type: order, tools: [get_order, note]}}
      - {{type: state, entity: orders, key: o1, equals: {{refunded: 5}}}}
      - {{type: noDuplicateSideEffect, tool: get_order}}
"""
AGENT = """\
import http.client, json, os, sys
order = json.loads(sys.stdin.readline())["input"]
wire = http.client.HTTPConnection(os.environ["SIDECAR_GATEWAY_URL"].removeprefix("http://"))
key = {"Authorization": "Bearer " + os.environ["SIDECAR_AGENT_KEY"]}
for n in range(5):
    wire.request("GET", "/shop/orders/" + order, headers=key)
    wire.getresponse().read()
    body = json.dumps({"text": "n%d" % n})
    extra = {"Idempotency-Key": "k%d" % n, "Content-Type": "application/json"}
    wire.request("POST", "/shop/orders/%s/notes" % order, body=body, headers={**key, **extra})
    assert wire.getresponse().read()
print(json.dumps({"output": "done"}))
"""
DIRECT_EPISODES = 400
PROCESS_EPISODES = 24


def agent(request, call):
    """Five reads and five writes."""
    for number in range(5):
        call("get_order", {"order_id": request["input"]})
        call("note", {"order_id": request["input"], "text": f"n{number}"}, key=f"k{number}")
    return "done"


def write(folder):
    """The suite in a folder, with one scenario an episode of the process run."""
    (folder / "twin.yaml").write_text(TWIN)
    (folder / "agent.py").write_text(AGENT)
    scenarios = "".join(SCENARIO.format(number=n) for n in range(PROCESS_EPISODES // 2))
    (folder / "suite.yaml").write_text(SUITE + scenarios)
    return load_suite(folder / "suite.yaml")


def direct(loaded):
    """Episodes per CPU second on the twin, median of three."""
    case, worlds = cases(loaded.suite)[0], loaded.group.open()
    keep_objects()  # as a worker does
    rates = []
    for _ in range(3):
        started = time.process_time()
        for _ in range(DIRECT_EPISODES):
            run = run_direct(case, agent, loaded.group, worlds)
            assert run.conclusion == "passed" and run.clean, run.scores
        rates.append(DIRECT_EPISODES / (time.process_time() - started))
    return statistics.median(rates)


async def through_the_gateway(loaded, folder):
    """Episodes per second of wall time through the gateway, and per episode and core."""
    ledger = SqliteLedger(folder / "ledger.db", lambda _: Sealer(b"k" * 32, os.urandom))
    policy = PolicyWorker(load_bundle(), deadline_ns=5_000_000_000)
    await policy.start()
    reference = read_reference(
        f"cmd:{sys.executable} {folder / 'agent.py'}", option="", python=sys.executable
    )
    plan = ReplayPlan(
        suite="bench",
        suite_version="1",
        suite_digest="",
        agent="bench",
        project="default",
        cases=cases(loaded.suite),
        group=loaded.group,
        baseline=reference,
        candidate=reference,
        deterministic=False,
    )
    ports = StagePorts(
        ledger=ledger, policy=policy, approvals=Approvals(), episode_key=clock.random_bytes(32)
    )
    started = time.monotonic()
    result = await replay(plan, ports)
    passed = time.monotonic() - started
    await policy.stop()
    ledger.close()
    assert all(run.conclusion == "passed" for run in result.runs), result.runs[0].scores
    return len(result.runs) / passed


def bare(folder):
    """Starts per second of the same interpreter doing nothing: the peer of a process agent."""
    started = time.monotonic()
    for _ in range(8):
        assert (
            os.spawnv(os.P_WAIT, sys.executable, [sys.executable, "-c", "import http.client"]) == 0
        )
    return 8 / (time.monotonic() - started)


def main():
    """Print the figures."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        loaded = write(folder)
        cores = len(os.sched_getaffinity(0))
        print(f"callable agent on the twin     {direct(loaded):8.0f} episodes/CPU-s (budget 500)")
        rate = asyncio.run(through_the_gateway(loaded, folder))
        print(
            f"process agent, whole gateway   {rate / cores:8.1f} episodes/s a core, {cores} cores"
            " (budget 5)"
        )
        print(f"bare interpreter starts        {bare(folder):8.1f} a second on one core")


if __name__ == "__main__":
    main()
