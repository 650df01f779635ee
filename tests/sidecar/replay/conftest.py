"""A replay's real parts: ledger, policy engine, gateway and receiver, in a folder of the test's."""

import asyncio
import os
import sys
from contextlib import asynccontextmanager

import pytest
from msgspec.structs import replace

from sidecar import clock
from sidecar.gateway.config import Approvals
from sidecar.gateway.policy.files import load_bundle
from sidecar.gateway.policy.worker import PolicyWorker
from sidecar.replay.driver import ReplayPlan, replay
from sidecar.replay.reference import read_reference
from sidecar.replay.stage.driver import StagePorts
from sidecar.store.envelope import Sealer
from sidecar.store.sqlite.ledger import SqliteLedger
from sidecar.twins.files import load_suite
from sidecar.twins.scenario import cases

TWIN = """\
twin: shop
upstream: shop
entities:
  orders:
    key: id
    schema: {type: object, required: [id, total, refunded]}
    rows:
      - {id: A-1, total: 49, refunded: 0}
  refunds: {key: id}
tools:
  - name: get_order
    match: {method: GET, path: "/orders/{order_id}"}
    class: read
    let: {order: 'row("orders", arguments.order_id)'}
    preconditions: [{require: order != null, status: 404, body: {error: '"no such order"'}}]
    response: {body: order}
    observe: [{entity: orders, rows: "[response]"}]
  - name: issue_refund
    match: {method: POST, path: "/orders/{order_id}/refunds"}
    class: irreversible
    effect_key: arguments.order_id
    let: {refund_id: next_id("RF")}
    preconditions:
      - require: row("orders", arguments.order_id) != null
        status: 404
    effects:
      - op: insert
        entity: refunds
        values: {id: refund_id, order: arguments.order_id, amount: arguments.amount}
      - op: increment
        entity: orders
        key: arguments.order_id
        field: refunded
        by: arguments.amount
    response: {status: 201, body: {refund_id: refund_id}}
"""

AGENT = '''\
"""An agent without telemetry: it reads the order, refunds it, and says so."""
import json, os, sys, time, urllib.error, urllib.request

MODE = sys.argv[1]
request = json.loads(sys.stdin.readline())
base = os.environ["SIDECAR_GATEWAY_URL"]
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def call(method, path, body=None, **headers):
    data = None if body is None else json.dumps(body).encode()
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    headers["Authorization"] = "Bearer " + os.environ["SIDECAR_AGENT_KEY"]
    headers["traceparent"] = os.environ["TRACEPARENT"]
    if data is not None:
        headers["Content-Type"] = "application/json"
    asked = urllib.request.Request(base + path, data=data, method=method, headers=headers)
    try:
        with opener.open(asked) as answer:
            return answer.status, json.loads(answer.read() or b"null")
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read() or b"null")


def refund(order, amount, key):
    path, body = f"/shop/orders/{order}/refunds", {"amount": amount}
    status, answer = call("POST", path, body, Idempotency_Key=key)
    if status == 403 and answer.get("code") == "approval_required":
        _, approval = call("GET", "/v1/approvals/" + answer["approval"]["id"])
        if approval.get("token"):
            return call("POST", path, body, Idempotency_Key=key, Approval_Token=approval["token"])
    return status, answer


order = request["input"]["order"]
print("starting", file=sys.stderr)
if MODE == "crash":
    sys.exit(7)
if MODE == "sleep":
    time.sleep(60)
if MODE == "random":
    call("GET", "/shop/orders/" + order + "?n=" + str(int.from_bytes(os.urandom(2), "big")))
if MODE == "stray":
    call("GET", "/shop/customers/1")
status, seen = call("GET", "/shop/orders/" + order) if MODE != "blind" else (200, {"total": 49})
if status != 200:
    print(json.dumps({"output": f"There is no order {order}."}))
    sys.exit(0)
status, answer = refund(order, seen["total"], "refund-" + order)
if MODE == "twice":
    refund(order, seen["total"], "again-" + order)
if MODE == "checks":
    _, seen = call("GET", "/shop/orders/" + order)
    status = 201 if seen["refunded"] else 500
said = f"I have issued the refund for order {order}." if status == 201 else (
    f"The refund for order {order} failed.")
print("noise")
print(json.dumps({"output": said}))
'''

SUITE = """\
suite: refunds
agent: support-refund
twins: [twin.yaml]
deterministic: {deterministic}
deadline: {deadline}
seed: 3
defaults: {{severity: critical, approvals: [{{decision: approve, by: lead}}]}}
scenarios:
{scenarios}
"""


class Replayed:
    """Runs suites of the test's folder with its agent in given modes."""

    def __init__(self, folder):
        self.folder = folder
        (folder / "twin.yaml").write_text(TWIN)
        (folder / "agent.py").write_text(AGENT)

    def suite(self, scenarios, *, deterministic=False, deadline="30s"):
        text = "\n".join("  " + line for line in scenarios.strip().splitlines())
        path = self.folder / "suite.yaml"
        declared = "true" if deterministic else "false"
        path.write_text(SUITE.format(scenarios=text, deterministic=declared, deadline=deadline))
        return load_suite(path)

    def agent(self, mode):
        text = f"cmd:{sys.executable} {self.folder / 'agent.py'} {mode}"
        return read_reference(text, option="--candidate", python=sys.executable)

    def plan(self, loaded, baseline, candidate, **more):
        suite = loaded.suite
        return ReplayPlan(
            suite=suite.suite,
            suite_version=suite.version,
            suite_digest=loaded.digest(),
            agent=suite.agent,
            project="default",
            cases=cases(suite),
            group=loaded.group,
            baseline=self.agent(baseline) if isinstance(baseline, str) else baseline,
            candidate=self.agent(candidate) if isinstance(candidate, str) else candidate,
            deterministic=suite.deterministic,
            seed=suite.seed,
            deadline_s=float(suite.deadline.removesuffix("s")),
            files=loaded.files,
            **more,
        )

    def run(self, scenarios, baseline="plain", candidate="plain", **how):
        return self.play(self.plan(self.suite(scenarios, **how), baseline, candidate))

    def play(self, plan, terms=None):
        async def scenario():
            async with stage_ports(self.folder) as ports:
                ports = replace(ports, terms=terms or ports.terms)
                return await replay(plan, ports, concurrency=2)

        return asyncio.run(scenario())


@asynccontextmanager
async def stage_ports(folder):
    """Ledger and policy engine as a replay needs them."""
    ledger = SqliteLedger(folder / f"{clock.new_id()}.db", lambda _: Sealer(b"k" * 32, os.urandom))
    policy = PolicyWorker(load_bundle(), deadline_ns=2_000_000_000)
    await policy.start()
    try:
        yield StagePorts(
            ledger=ledger, policy=policy, approvals=Approvals(), episode_key=os.urandom(32)
        )
    finally:
        await policy.stop()
        ledger.close()


@pytest.fixture
def replayed(tmp_path):
    return Replayed(tmp_path)


@pytest.fixture
def stage():
    """What opens the ports of a stage in a folder."""
    return stage_ports
