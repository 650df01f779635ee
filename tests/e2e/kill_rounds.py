"""Rounds of load with ``kill -9`` of a random process of the sidecar's tree at a random moment.

Goal: every acknowledged span is in the store after restart, and none twice (REC-02, REC-06); and
every one has reached the downstream, where a window may come twice (docs/specs/export.md).
Method: a sender in a process of its own logs what was acknowledged and sends again what was not;
this process kills one of the tree, restarts the sidecar when it was the main one, and at the end a
third process counts in the store. Downstream stands a real OTLP server that outlives all of them.
Each kind of process is killed at least twice in 30 rounds: the main one, the pipeline, the policy
engine, the exporters, and the one that looks at large bodies.

Usage: python tests/e2e/kill_rounds.py [ROUNDS] [SEED]
"""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
from catching_up import until_none  # noqa: E402
from export_rig import GrpcSink  # noqa: E402
from sidecar_process import CONFIG, SidecarProcess  # noqa: E402

# What a child's command line holds, by kind; the main process is known by its id.
CHILDREN = {
    "pipeline": "pipeline_main",
    "policy": "policy",
    "export": "export_main",
    "checker": "receive.process",
}
KINDS = ("main", *CHILDREN)
# What must be none. What comes downstream again is told: delivery is at least once.
FAULTS = ("missing", "twice", "downstream_missing")
SECONDS = 60
"""For how long nothing may come any more of what is missing, before it counts as missing."""
DOWNSTREAM = """\
export:
  - name: downstream
    otlp:
      endpoint: "ENDPOINT"
      protocol: grpc
      allow_cidrs: ["127.0.0.0/8"]
      retry: {initial: 50ms, max: 200ms}
"""


class Rounds:
    """One sidecar, one sender, one downstream, and the means to kill."""

    def __init__(self, folder, seed, downstream):
        self.folder = folder
        self.dice = random.Random(seed)
        self.seed = seed
        self.killed = dict.fromkeys(KINDS, 0)
        self.downstream = downstream
        config = CONFIG + DOWNSTREAM.replace("ENDPOINT", downstream.url)
        self.sidecar = SidecarProcess(folder, config)
        self.sender = None

    def start(self):
        """The sidecar, then the sender."""
        (self.folder / "key").write_text(self.sidecar.key())
        self.start_sidecar()
        sender = [sys.executable, str(HERE / "kill_sender.py"), str(self.folder), str(self.seed)]
        self.sender = subprocess.Popen(sender)

    def start_sidecar(self):
        """Its addresses go to the sender once it listens."""
        self.sidecar.start()
        bound = self.sidecar.addresses
        new = self.folder / "address.new"
        new.write_text(json.dumps({"http": bound["receive.http"], "grpc": bound["receive.grpc"]}))
        new.rename(self.folder / "address")

    def one(self):
        """Kill one process after a random while; restart what nobody else restarts."""
        time.sleep(self.dice.uniform(0.05, 1.2))
        least = min(self.killed.values())
        # Random, but no kind falls more than one round behind.
        kind = self.dice.choice([k for k, n in self.killed.items() if n <= least + 1])
        pid = self.dice.choice(self.wait_for(kind))
        os.kill(pid, signal.SIGKILL)
        self.killed[kind] += 1
        if kind == "main":
            self.sidecar.reap()
            self.start_sidecar()
        return kind

    def wait_for(self, kind):
        """The processes of a kind, once there are any."""
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            found = self.tree()[kind]
            if found:
                return found
            time.sleep(0.02)
        raise AssertionError(f"no {kind} process within {SECONDS} s")

    def tree(self):
        """Process ids by kind, below and with the server."""
        found = {kind: [] for kind in KINDS}
        root = self.sidecar.process.pid
        found["main"].append(root)
        for pid in _descendants(root):
            with contextlib.suppress(OSError):
                command = Path(f"/proc/{pid}/cmdline").read_text()
                for kind, words in CHILDREN.items():
                    if words in command:
                        found[kind].append(pid)
        return found

    def finish(self):
        """Stop the load, let the sidecar catch up, and have everything counted."""
        (self.folder / "stop").touch()
        self.sender.wait(SECONDS)
        counted = {}

        def left():
            counted.update(self.count())
            return sum(counted[kind] for kind in FAULTS)

        until_none(left, SECONDS)
        return counted

    def count(self):
        """What another process counts."""
        arguments = [str(self.folder / "data"), str(self.folder / "acknowledged")]
        command = [sys.executable, str(HERE / "kill_counter.py"), *arguments]
        counted = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
        return counted | self.count_downstream()

    def count_downstream(self):
        """What has come out, against what was acknowledged."""
        acknowledged = {
            tuple(line.split()) for line in (self.folder / "acknowledged").read_text().splitlines()
        }
        came = Counter((s.trace_id.hex(), s.span_id.hex()) for s, _ in self.downstream.spans())
        return {
            "downstream": len(came),
            "downstream_missing": len(acknowledged - came.keys()),
            "downstream_again": came.total() - len(came),
        }

    def stop(self):
        """End everything that is still there."""
        (self.folder / "stop").touch()
        if self.sender is not None:
            try:
                self.sender.wait(SECONDS)
            except subprocess.TimeoutExpired:
                self.sender.kill()
                self.sender.wait()
        self.sidecar.stop()


def _descendants(root):
    """Process ids below ``root``."""
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parents[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
    below, grown = {root}, True
    while grown:
        grown = {pid for pid, parent in parents.items() if parent in below} - below
        below |= grown
    return below - {root}


def play(folder, rounds, seed, tell=lambda line: None):
    """Some rounds; (what was counted, kills by kind)."""
    with GrpcSink() as downstream:
        game = Rounds(folder, seed, downstream)
        try:
            game.start()
            for number in range(rounds):
                tell(f"round {number + 1}: killed {game.one()}")
            counted = game.finish()
            tell(f"{counted} after killing {game.killed}")
            return counted, game.killed
        finally:
            game.stop()


def main():
    """Play and exit 1 when a span is missing or there twice."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 30
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else int.from_bytes(os.urandom(4), "big")
    print(f"{rounds} rounds, seed {seed}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        counted, killed = play(Path(folder), rounds, seed, lambda line: print(line, flush=True))
    # A run that loaded or killed nothing has shown nothing.
    idle = counted["acknowledged"] <= 20 * rounds or min(killed.values()) < rounds // 15
    sys.exit(1 if idle or any(counted[k] for k in FAULTS) else 0)


if __name__ == "__main__":
    main()
