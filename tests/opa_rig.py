"""A real OPA server with a bundle, and a scripted one that does what no OPA should."""

import asyncio
import json
import socket
import subprocess
import time
import urllib.request
from contextlib import asynccontextmanager, contextmanager

from built_tools import program

from sidecar.egress.client import Egress
from sidecar.egress.rules import Target
from sidecar.gateway.policy.opa import OpaServer

ANSWER = {
    "provenance": {"version": "1.22.4", "bundles": {"b": {"revision": "r1"}}},
    "result": {"effect": "allow", "reasons": [{"code": "said_so"}]},
}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextmanager
def opa_server(archive, folder, port=None):
    """A running ``opa run --server`` with an archive as its bundle: (port, process)."""
    file, port = folder / "bundle.tar.gz", port or free_port()
    file.write_bytes(archive)
    process = subprocess.Popen(
        [
            *(program("opa"), "run", "--server", "--addr", f"127.0.0.1:{port}"),
            *("--log-level", "error", "--skip-version-check", "--bundle", str(file)),
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_for(f"http://127.0.0.1:{port}/health?bundles")
        yield port, process
    finally:
        process.kill()
        process.wait()


def wait_for(url, seconds=20.0):
    ends = time.monotonic() + seconds
    while True:
        try:
            with urllib.request.urlopen(url, timeout=1):
                return
        except OSError:
            assert time.monotonic() < ends, f"{url} did not come up"
            time.sleep(0.02)


def engine(port, **options):
    """An OpaServer for a port of this machine."""
    target = Target(name="policy", url=f"http://127.0.0.1:{port}", allow_cidrs=("127.0.0.1/32",))
    return OpaServer(target, Egress(), **{"start_seconds": 0.0, **options})


class Scripted:
    """A server that answers each request as it is told; ``seen`` holds (head, body) of each.

    A step is bytes to send as they are, an object to send as JSON, or an async function of the
    writer. After the last step it answers ``ANSWER``.
    """

    def __init__(self):
        self.steps, self.seen, self.port = [], [], 0

    async def _serve(self, reader, writer):
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                length = int(head.lower().split("content-length: ")[1].split("\r\n")[0])
                self.seen.append((head, json.loads(await reader.readexactly(length))))
                step = self.steps.pop(0) if self.steps else ANSWER
                if callable(step):
                    await step(writer)
                else:
                    writer.write(step if isinstance(step, bytes) else reply(step))
                    await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


def reply(value, status="200 OK", kind="application/json"):
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


@asynccontextmanager
async def scripted():
    """A running ``Scripted``."""
    made = Scripted()
    server = await asyncio.start_server(made._serve, "127.0.0.1", 0)
    made.port = server.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        server.close()
