"""The peers that figures stand beside, as processes of their own: rotel and the Collector.

A peer that is not on this machine is None, and the benchmark prints its own figures alone.
"""

import importlib.util
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "agenttwin-sidecar"
START_SECONDS = 20
# A peer works on after its answer; its batches are due after 200 ms.
SETTLE_SECONDS = 0.5
_TICK = os.sysconf("SC_CLK_TCK")


class Peer:
    """A server process and its tree, with ``ports`` by wire; ``stop`` it at the end."""

    def __init__(self, command, ports, **options):
        self.ports = ports
        self.process = subprocess.Popen(command, **options)

    def wait(self):
        """Return once every port takes connections."""
        end = time.monotonic() + START_SECONDS
        for port in self.ports.values():
            while True:
                try:
                    socket.create_connection(("127.0.0.1", port), timeout=1).close()
                    break
                except OSError:
                    if self.process.poll() is not None or time.monotonic() > end:
                        raise RuntimeError(f"{self.process.args[0]} does not listen") from None
                    time.sleep(0.05)
        return self

    def cpu(self):
        """User and system seconds of the tree so far, those of ended children among them."""
        return sum(_seconds(pid) for pid in _tree(self.process.pid))

    def stop(self):
        """End it, at once if it does not end by itself."""
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def rotel(folder, exporter, *more):
    """The rotel agent of the wheel ``rotel``: OTLP on both wires to ``exporter``; or None."""
    found = importlib.util.find_spec("rotel")
    if found is None:
        return None
    ports = free_ports()
    command = [
        *(str(Path(found.origin).parent / "rotel-agent"), "start"),
        *("--otlp-grpc-endpoint", f"127.0.0.1:{ports['grpc']}"),
        *("--otlp-http-endpoint", f"127.0.0.1:{ports['http']}"),
        *("--otlp-grpc-max-recv-msg-size-mib", "64", "--exporter", exporter, *more),
        *("--pid-file", f"{folder}/{exporter}.pid", "--log-file", f"{folder}/{exporter}.log"),
    ]
    with open(f"{folder}/{exporter}.out", "wb") as out:
        return Peer(command, ports, stdout=out, stderr=out).wait()


def collector(folder, config):
    """The OpenTelemetry Collector that ``make collector`` builds; or None.

    In the text ``config`` ``GRPC`` and ``HTTP`` stand for the ports, ``FOLDER`` for a folder.
    """
    binary = CACHE / "bin" / "otelcol"
    if not binary.exists():
        return None
    ports = free_ports()
    text = config.replace("FOLDER", str(folder))
    for wire, port in ports.items():
        text = text.replace(wire.upper(), str(port))
    file = Path(folder) / "collector.yaml"
    file.write_text(text)
    with open(f"{folder}/collector.out", "wb") as out:
        return Peer([str(binary), "--config", str(file)], ports, stdout=out, stderr=out).wait()


def sink(folder):
    """A server that takes OTLP/gRPC and forgets it: what is behind a peer that sends on."""
    port = free_ports()["grpc"]
    command = [sys.executable, str(Path(__file__).parent / "_sink.py"), str(port)]
    return Peer(command, {"grpc": port}, cwd=folder).wait()


def free_ports():
    """Two ports that nobody has."""
    probes = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    ports = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    return dict(zip(("grpc", "http"), ports, strict=True))


def _tree(root):
    """A process and all below it."""
    below, found = {}, []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        below.setdefault(int(fields[1]), []).append(int(path.parent.name))
    waiting = [root]
    while waiting:
        pid = waiting.pop()
        found.append(pid)
        waiting += below.get(pid, [])
    return found


def _seconds(pid):
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / _TICK
