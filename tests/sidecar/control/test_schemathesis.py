"""Schemathesis against a real ``sidecar serve`` with real data in it: every check, no failure.

The run is bounded in examples and derandomised: CI draws what a developer draws.
"""

import http.server
import json
import os
import re
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from control_rig import verdict

from sidecar import clock
from sidecar.app import opening
from sidecar.app.loading import load_config
from sidecar.identity.keys import KeyTerms, mint_key
from sidecar.store.sqlite.keys import SqliteKeys

pytestmark = pytest.mark.full  # minutes on two cores: real processes and servers

CONFIG = """
seal: {key_file: seal-key}
store: {url: "sqlite:///data"}
projects: [{name: default, content: {capture: full}}, {name: other}]
receive: {grpc: "127.0.0.1:0", http: "127.0.0.1:0"}
assemble: {idle: 100ms}
gateway:
  listen: "127.0.0.1:0"
  accept_ephemeral_ledger: true
  upstreams: [{name: payments, url: "UPSTREAM", allow_cidrs: ["127.0.0.1/32"]}]
  tools:
    - name: issue_refund
      upstream: payments
      match: {method: POST, path: "/orders/{order_id}/refunds"}
      class: irreversible
      cost: {amount: "arguments.amount", currency: "arguments.currency"}
policy: {deadline: 5s}
control: {listen: "127.0.0.1:0", grpc: ""}
metrics: {listen: ""}
"""
TRACE_ID = "0af7651916cd43dd8448eb211c80319c"
SECONDS = 60


class Upstream(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        body = b'{"refunded": true}'
        self.send_response(201)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def upstream():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Upstream)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@contextmanager
def sidecar(folder):
    """A real sidecar's addresses."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("SIDECAR_")}
    with (folder / "stderr").open("w") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "sidecar", "serve", "--output", "json"],
            cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True,
        )  # fmt: skip
        try:
            line = process.stdout.readline()
            assert line, (folder / "stderr").read_text()
            yield json.loads(line)["addresses"]
        finally:
            process.terminate()
            process.wait(SECONDS)
            process.stdout.close()


def ask(url, key, body=None, **headers):
    """Status and JSON of an answer."""
    sent = {"Authorization": f"Bearer {key}", "Content-Type": "application/json", **headers}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data=data, headers=sent)
    try:
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def member(folder, role, kind):
    """A key of the project default, as ``sidecar key create`` would store it."""
    text, row = mint_key(
        KeyTerms(kind=kind, project="default", role=role, name=role or kind),
        id_bytes=clock.random_bytes(8), secret_bytes=clock.random_bytes(32),
        now_ns=clock.now_ns(),
    )  # fmt: skip
    with closing(SqliteKeys(folder / "data" / "ledger.db")) as keys:
        keys.add_key(row)
    return text


def telemetry():
    """An OTLP/JSON request: a run with a model call that answers."""

    def attribute(name, value):
        return {"key": name, "value": {"stringValue": value}}

    now_ns = clock.now_ns()
    answer = [{"role": "assistant", "parts": [{"type": "text", "content": "Refunded 20 EUR."}]}]
    span = {
        "traceId": TRACE_ID, "spanId": "b7ad6b7169203331", "name": "chat gpt", "kind": 3,
        "startTimeUnixNano": str(now_ns), "endTimeUnixNano": str(now_ns + 10**6),
        "attributes": [
            attribute("gen_ai.operation.name", "chat"),
            attribute("gen_ai.output.messages", json.dumps(answer)),
        ],
    }  # fmt: skip
    resource = {"attributes": [attribute("service.name", "refund-agent")]}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [{"spans": [span]}]}]}


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A sidecar with a call, a request for approval, a trace and a verdict; ids by parameter."""
    folder = tmp_path_factory.mktemp("schemathesis")
    (folder / "seal-key").write_text(os.urandom(32).hex())
    with upstream() as url:
        (folder / "sidecar.yaml").write_text(CONFIG.replace("UPSTREAM", url))
        with sidecar(folder) as addresses:
            yield filled(folder, {name: f"http://{at}" for name, at in addresses.items()})


def filled(folder, urls):
    agent, owner = member(folder, None, "agent"), member(folder, "owner", "admin")
    refund = f"{urls['gateway.listen']}/payments/orders/17/refunds"
    for key, amount, expected in (("a", 20, 201), ("b", 500, 403)):
        body = {"amount": amount, "currency": "EUR"}
        status, told = ask(refund, agent, body, **{"Idempotency-Key": key})
        assert status == expected, told
    assert ask(f"{urls['receive.http']}/v1/traces", agent, telemetry())[0] == 200
    config = load_config(str(folder / "sidecar.yaml"), None)
    with opening.open_verdicts(config, write=True) as verdicts:
        verdicts.add_verdict(verdict(1))
    control = urls["control.listen"]
    until = time.monotonic() + SECONDS
    while not ask(f"{control}/v1/traces", owner)[1]["traces"]:
        assert time.monotonic() < until, (folder / "stderr").read_text()
        time.sleep(0.05)
    call = ask(f"{control}/v1/calls", owner)[1]["calls"][0]["call_id"]
    detail = ask(f"{control}/v1/calls/{call}", owner)[1]
    return {
        "url": control, "folder": folder, "owner": owner,
        "ids": {
            "trace_id": TRACE_ID,
            "call_id": call,
            "receipt_id": detail["receipts"][0]["receipt_id"],
            "approval_id": ask(f"{control}/v1/approvals", owner)[1]["approvals"][0]["approval_id"],
            "verdict_id": verdict(1).verdict_id,
            "key_id": agent.split("_")[2],
        },
    }  # fmt: skip


def schemathesis(served, *options, ids=()):
    """Run it with every check; what it says of each phase."""
    named = "\n".join(f'{name} = "{served["ids"][name]}"' for name in ids)
    config = served["folder"] / "schemathesis.toml"
    config.write_text(f"[parameters]\n{named}\n")
    program = Path(sys.executable).with_name("schemathesis")
    done = subprocess.run(
        [
            *(program, "--config-file", config, "run", f"{served['url']}/v1/openapi.json"),
            *("--header", f"Authorization: Bearer {served['owner']}"),
            *("--checks", "all", "--mode", "all", "--continue-on-failure", "--no-color"),
            *("--generation-deterministic", "--suppress-health-check", "all", "--no-shrink"),
            *("--warnings", "off", *options),
        ],
        cwd=served["folder"], capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    report = done.stdout + done.stderr
    assert done.returncode == 0, report
    print(report)
    cases = int(re.search(r"(\d+) generated", report)[1])
    selected = re.search(r"(\d+) selected / (\d+) total", report)
    assert selected[1] == selected[2], report
    return cases


@pytest.mark.requirement("CTL-01")
def test_every_page_keeps_what_the_document_says(served):
    """Real ids in the paths: the answers are those of real things."""
    cases = schemathesis(
        served, "--phases", "coverage,fuzzing", "--max-examples", "2", ids=served["ids"]
    )
    assert cases > 700


@pytest.mark.full
@pytest.mark.requirement("CTL-01")
def test_many_random_requests_and_sequences_of_them_find_no_fault(served):
    """Ids are drawn, or taken from what was answered before."""
    assert schemathesis(served, "--max-examples", "40") > 2000
