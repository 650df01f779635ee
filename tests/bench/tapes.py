"""Tapes: what recording an event costs, and how fast a strict replay goes; the budget is 20,000
events a second of CPU (``performance.md``). Beside it, in the same run:

- **agentos-platform 0.4.0** records and replays the same model calls at its provider seam (in the
  frameworks' interpreter; ``make frameworks``). Then its demo, by the commands of both: an agent of
  its own class with a calculator, whose model is a scripted server.
- **vcrpy** records and plays the same HTTP requests of httpx against a server of this machine.

Seconds are CPU of the process, loading and the digest apart: other work on the machine counts less.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE.parents[1])]

import httpx  # noqa: E402
import vcr  # noqa: E402
from model_rig import ModelServer, Reply, chat  # noqa: E402

from sidecar.capture.play import StrictPlayer  # noqa: E402
from sidecar.capture.record import Circumstances, header_of, redactor_of  # noqa: E402
from sidecar.capture.seams.ambient import ask as value_asked  # noqa: E402
from sidecar.capture.seams.install import install_all  # noqa: E402
from sidecar.capture.seams.session import Session, current  # noqa: E402
from sidecar.capture.seams.sites import Sites  # noqa: E402
from sidecar.capture.seams.tools import wrapped  # noqa: E402
from sidecar.tape.codec import DEFAULT, Codecs  # noqa: E402
from sidecar.tape.files import TapeWriter, read_tape  # noqa: E402

BUDGET = 20_000
ANSWER = {
    "id": "chatcmpl-1",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "It is refunded."}}],
    "usage": {"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13},
}
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
FRAMEWORKS = CACHE / "agenttwin-sidecar" / "frameworks" / "bin" / "python"


def look_up(order, note):
    """A tool."""
    return {"order": order, "total": 25.5, "note": note}


def ask(number):
    """A model call, as a seam makes it."""
    session = current()
    text = f"Refund order {number}, please."
    given = {
        "model": "scripted-1",
        "messages": [{"role": "user", "content": text}],
        "temperature": 0.0,
        "max_tokens": 100,
    }
    if session is None:
        return
    x = session.enter(kind="llm_call", seam="provider", name="scripted-1", given=given)
    if not x.played:
        x.done(ANSWER, {"input": 9, "output": 4})


TOOL = wrapped(look_up)


def read(_):
    """A value read."""
    session = current()
    if session is not None:
        value_asked(session, "clock", "time.time", time.time)


KINDS = {
    "model call": (ask, 1),
    "tool call": (lambda number: TOOL(number, "please"), 2),
    "clock": (read, 1),
}


def run(session, agent, *, seams=False):
    """Seconds of CPU inside."""
    session.begin()
    try:
        if seams:
            install_all(session)
        begun = time.process_time()
        agent()
        inside = time.process_time() - begun
    finally:
        session.end()
    return inside


def sites(path, *, seams):
    """Whose files count: with seams, the clock of this file is nobody's."""
    return Sites([path.parent if seams else HERE])


def recorded(path, agent, capture="redacted", *, seams=False):
    """Record to a new tape; seconds inside."""
    found = header_of(Circumstances(tape_id="bench", now_ns=time.time_ns()), capture)
    writer = TapeWriter(path, found, redactor=redactor_of(capture))
    inside = run(Session(sites(path, seams=seams), writer=writer), agent, seams=seams)
    writer.seal()
    return inside


def replayed(path, agent, capture="redacted", *, seams=False):
    """Replay: seconds inside, seconds with loading and the digest, events."""
    begun = time.process_time()
    tape = read_tape(path)
    session = Session(sites(path, seams=seams))
    session.player = StrictPlayer(tape, redactor_of(capture), Codecs(DEFAULT))
    inside = run(session, agent, seams=seams)
    assert session.drift is None, session.drift
    assert session.tally.digest() == tape.seal.exact_digest
    return inside, time.process_time() - begun, len(tape.events)


def own(folder, count):
    """What we cost, kind by kind and mixed; events a second of a strict replay."""
    for name, (once, events) in KINDS.items():
        path = folder / f"{name}.tape"

        def agent(once=once):
            for number in range(count):
                once(number)

        begun = time.process_time()
        agent()
        bare = time.process_time() - begun
        cost = (recorded(path, agent) - bare) / (count * events) * 1e6
        inside, whole, total = replayed(path, agent)
        print(
            f"{name:11} recording +{cost:6.1f} µs an event   replay {total / inside:9,.0f} events/s"
            f" ({total / whole:,.0f} with loading and digest)",
            flush=True,
        )

    def mixed():
        for number in range(count // 4):
            for once, _ in KINDS.values():
                once(number)

    path = folder / "mixed.tape"
    recorded(path, mixed)
    best = max(total / inside for inside, _, total in (replayed(path, mixed) for _ in range(3)))
    print(f"mixed       replay {best:9,.0f} events/s (budget {BUDGET:,})", flush=True)
    return best


def agentos(folder, count):
    """The same model calls by agentos-platform."""
    if not FRAMEWORKS.exists():
        print("agentos     skipped: needs make frameworks")
        return
    command = [FRAMEWORKS, HERE / "_tape_peer.py", str(count), str(folder), json.dumps(ANSWER)]
    ran = subprocess.run(
        [str(one) for one in command], capture_output=True, text=True, timeout=300, cwd=folder
    )
    if ran.returncode != 0:
        print(f"agentos     failed: {ran.stderr.strip().splitlines()[-1]}")
        return
    said = json.loads(ran.stdout)
    print(
        f"agentos     recording +{said['record'] / count * 1e6:6.1f} µs an event   replay"
        f" {count / said['play']:9,.0f} events/s"
        f" ({count / (said['load'] + said['play']):,.0f} with loading; model calls)",
        flush=True,
    )


def demo(folder, runs):
    """agentos' demo agent under the commands of both; the CPU of each command, start-up and all."""
    if not FRAMEWORKS.exists():
        print("demo        skipped: needs make frameworks")
        return
    agent = [str(HERE / "_tape_demo.py"), str(runs)]
    theirs, ours = str(FRAMEWORKS.with_name("agentos")), [sys.executable, "-P", "-m", "sidecar"]
    tape = str(folder / "demo.tape")
    environment = {
        **os.environ,
        "OPENAI_API_KEY": "sk-a-key-of-nobody-000000",
        "PYTHONPATH": str(HERE.parents[1]),
        "AGENTOS_DEMO_MODE": "false",
    }

    def spent(command):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        ran = subprocess.run(
            command, capture_output=True, text=True, timeout=300, cwd=folder, env=environment
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert ran.returncode == 0, ran.stderr[-2000:]
        return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime

    def served(command):
        with ModelServer() as server:
            for _ in range(runs):
                server.say(chat(calls=[("calculator", {"expression": "20 + 3"})]), chat("23."))
            environment["OPENAI_BASE_URL"] = server.openai
            seconds = spent(command)
            assert len(server.asked) == 2 * runs
        return seconds

    bare = served([str(FRAMEWORKS), *agent])
    recorded_by = {
        "agentos": served([theirs, "record", "--trace-dir", "demo", "--", *agent]),
        "tapes": served(
            [
                *ours,
                "tape",
                "record",
                "-o",
                tape,
                "--capture",
                "redacted",
                "--",
                str(FRAMEWORKS),
                *agent,
            ]
        ),
    }
    (trace,) = (folder / "demo").rglob("*.jsonl")
    played_by = {
        "agentos": spent([theirs, "replay", "--trace-dir", "demo", "--allow-drift", str(trace)]),
        "tapes": spent([*ours, "tape", "replay", tape, "--", str(FRAMEWORKS), *agent]),
    }
    for name, seconds in recorded_by.items():
        print(
            f"demo {name:7} recording {seconds:5.2f} s of CPU for {runs} runs (not recorded"
            f" {bare:.2f})   replay {played_by[name]:5.2f} s, the whole commands",
            flush=True,
        )


def http(folder, count):
    """The same HTTP requests by us and by vcrpy."""
    with ModelServer() as server:
        server.on("POST", "/orders", Reply(ANSWER))
        url = f"{server.url}/orders"

        def agent():
            with httpx.Client() as client:
                for number in range(count):
                    client.post(url, json={"order": number}).json()

        def timed(what):
            begun = time.process_time()
            what()
            return time.process_time() - begun

        agent()
        bare = timed(agent)
        path, cassette = folder / "http.tape", str(folder / "cassette.yaml")
        ours = recorded(path, agent, seams=True) - bare
        with vcr.use_cassette(cassette, record_mode="once", match_on=["method", "uri", "body"]):
            begun = time.process_time()
            agent()
            theirs = time.process_time() - begun - bare
    inside, whole, _ = replayed(path, agent, seams=True)
    begun = time.process_time()
    with vcr.use_cassette(cassette, record_mode="none", match_on=["method", "uri", "body"]):
        played = timed(agent)
    all_of_it = time.process_time() - begun
    for name, cost, once, total in (
        ("tapes", ours, inside, whole),
        ("vcrpy", theirs, played, all_of_it),
    ):
        print(
            f"http {name:6} recording +{cost / count * 1e6:6.1f} µs a request"
            f"   replay {count / once:9,.0f} requests/s ({count / total:,.0f} with loading)",
            flush=True,
        )


def main():
    """Print a line for each; exit 1 where strict replay is below its budget."""
    options = argparse.ArgumentParser()
    options.add_argument("--events", type=int, default=4000)
    options.add_argument("--requests", type=int, default=300)
    options.add_argument("--runs", type=int, default=20)
    options = options.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        best = own(folder, options.events)
        agentos(folder, options.events)
        demo(folder, options.runs)
        http(folder, options.requests)
    if options.events >= 1000 and best < BUDGET:
        sys.exit(1)


if __name__ == "__main__":
    main()
