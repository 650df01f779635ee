"""Calls of a served twin: processor time of the server and time of one caller, over HTTP and MCP.

The server is a process of its own, the caller one connection that is kept. Beside it: the same
call on the twin alone, which is what the wire is added to.
"""

import contextlib
import http.client
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from sidecar.twins.files import load_twins
from sidecar.twins.group import GroupEpisode
from sidecar.twins.place import Setting
from sidecar.twins.reply import Call

CALLS = 2000
TWIN = """\
twin: shop
entities:
  orders: {key: id, rows: [{id: o1, paid: 100}]}
tools:
  - name: get_order
    match: {method: GET, path: "/orders/{order_id}"}
    class: read
    let: {order: 'row("orders", arguments.order_id)'}
    preconditions: [{require: order != null, status: 404}]
    response: {body: order}
"""


def cpu_seconds(pid):
    """Processor time of a process until now."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def served(folder):
    """A running server: its process, address and control key."""
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "sidecar", "twin", "serve", str(folder / "twin.yaml")),
            *("--mcp", "--listen", "127.0.0.1:0", "--output", "json"),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        told = json.loads(process.stdout.readline())
        yield process.pid, told["address"].removeprefix("http://"), told["control_key"]
    finally:
        process.terminate()
        process.wait()


def measured(pid, connection, method, path, body, headers):
    """Milliseconds of server time a call, and the median a caller waits."""
    waited = []
    for number in range(CALLS + 200):
        if number == 200:
            before = cpu_seconds(pid)
        started = time.perf_counter()
        connection.request(method, path, body=body, headers=headers)
        answer = connection.getresponse()
        assert answer.status == 200 and answer.read()
        waited.append(time.perf_counter() - started)
    spent = cpu_seconds(pid) - before
    return spent / CALLS * 1000, statistics.median(waited[200:]) * 1000


def alone(path):
    """Milliseconds of a call on the twin itself."""
    group = load_twins([path]).group
    episode = GroupEpisode(group, group.open(), Setting())
    started = time.process_time()
    for _ in range(CALLS):
        assert episode.call(Call(tool="get_order", arguments={"order_id": "o1"})).status == 200
    return (time.process_time() - started) / CALLS * 1000


def main() -> int:
    """Print the figures."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "twin.yaml").write_text(TWIN)
        print(f"the twin alone: {alone(folder / 'twin.yaml'):.3f} ms a call")
        with served(folder) as (pid, address, key):
            connection = http.client.HTTPConnection(address)
            control = {"Authorization": f"Bearer {key}"}
            connection.request("POST", "/v1/episodes", body=b"{}", headers=control)
            token = json.load(connection.getresponse())["token"]
            agent = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
            message = {"name": "get_order", "arguments": {"order_id": "o1"}}
            body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": message}
            version = {"MCP-Protocol-Version": "2025-11-25"}
            for wire, asked in (
                ("HTTP", ("GET", "/shop/orders/o1", None, agent)),
                ("MCP", ("POST", "/mcp", json.dumps(body), {**agent, **version})),
            ):
                spent, waited = measured(pid, connection, *asked)
                print(f"{wire}: {spent:.2f} ms of the server a call, {waited:.2f} ms median wait")
    return 0


if __name__ == "__main__":
    sys.exit(main())
