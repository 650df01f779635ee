"""A whole replay of callables by size: episodes per CPU second, and what memory it takes.

An episode is 10 tool calls with evaluation; a replay plans, runs, keeps, concludes and writes its
evidence. Beside it, in the same run: the same callable on a plain dict in a process pool, which
isolates, records, evaluates and concludes nothing.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

ROOT = Path(__file__).parents[2]
CASES = 50
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
AGENT = '''\
"""Five reads and five writes; one run in a hundred of ``hasty`` forgets the last write."""


def steady(request, call):
    for number in range(5):
        call("get_order", {"order_id": request["input"]})
        call("note", {"order_id": request["input"], "text": f"n{number}"}, key=f"k{number}")
    return f"done {request['seed']}"


def hasty(request, call):
    for number in range(4 if request["seed"] % 100 == 0 else 5):
        call("get_order", {"order_id": request["input"]})
        call("note", {"order_id": request["input"], "text": f"n{number}"}, key=f"k{number}")
    return f"done {request['seed']}"
'''


def write(folder: Path) -> None:
    """The suite, its twin and its agents."""
    (folder / "twin.yaml").write_text(TWIN)
    (folder / "suite.yaml").write_text(
        SUITE + "".join(SCENARIO.format(number=n) for n in range(CASES))
    )
    (folder / "bench_agents.py").write_text(AGENT)


def replayed(folder: Path, episodes: int, executor: str) -> dict:
    """One replay as a command: its wall and CPU seconds, peak RSS in MB, and what it came to.

    With worker processes the CPU seconds are the coordinator's alone, and so is the RSS.
    """
    write(folder)
    command = [
        *(sys.executable, "-P", "-m", "sidecar", "replay", "suite.yaml", "--output", "json"),
        *("--baseline", "py:bench_agents:steady", "--candidate", "py:bench_agents:hasty"),
        *("--runs", str(max(1, episodes // (2 * CASES))), "--executor", executor),
        *("--store", f"sqlite:///{folder / 'store'}"),
    ]
    path = os.pathsep.join((str(ROOT), str(folder)))
    started = time.monotonic()
    with (folder / "verdict.json").open("wb") as out, (folder / "talk").open("wb") as talk:
        ran = subprocess.Popen(
            command, cwd=folder, stdout=out, stderr=talk, env={**os.environ, "PYTHONPATH": path}
        )
        _, _, used = os.wait4(ran.pid, 0)
    ran.returncode = 0
    told = (folder / "verdict.json").read_text()
    assert told.strip(), (folder / "talk").read_text()[-2000:]
    verdict = json.loads(told)
    return {
        "episodes": verdict["evidence"]["runs"],
        "wall": time.monotonic() - started,
        "cpu": used.ru_utime + used.ru_stime,
        "rss": used.ru_maxrss / 1024,
        "status": verdict["status"],
        "evidence": sum(one.stat().st_size for one in (folder / "store").rglob("*")) / 1e6,
    }


def _on_a_dict(count: int) -> float:
    """CPU seconds of so many episodes of the same callable on a dict, checked like a unit test."""
    scope: dict = {}
    exec(AGENT, scope)
    began = time.process_time()
    for number in range(count):
        world = {"o1": {"id": "o1", "paid": 100, "refunded": 0}}

        def call(tool, arguments, key="", world=world):
            order = world[arguments["order_id"]]
            if tool == "note":
                order["refunded"] += 1
                return {"id": key}
            return json.loads(json.dumps(order))

        scope["steady"]({"input": "o1", "seed": number}, call)
        assert world["o1"]["refunded"] == 5
    return time.process_time() - began


def peer(episodes: int) -> float:
    """Episodes per CPU second of the same callable on a plain dict in a process pool."""
    chunks = [200] * max(1, episodes // 200)
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        spent = sum(pool.map(_on_a_dict, chunks))
    return sum(chunks) / spent


def main() -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--executor", choices=("inline", "process"), default="inline")
    told = parser.parse_args()
    last = None
    print("episodes   seconds  CPU-s  episodes/CPU-s  peak RSS MB  B/episode more  on disk MB")
    for size in told.sizes:
        with tempfile.TemporaryDirectory() as name:
            one = replayed(Path(name), size, told.executor)
        more = ""
        if last:
            grown = (one["rss"] - last["rss"]) * 1024 * 1024
            more = f"{grown / (one['episodes'] - last['episodes']):.0f}"
        print(
            f"{one['episodes']:8d} {one['wall']:9.1f} {one['cpu']:6.1f} "
            f"{one['episodes'] / one['cpu']:15.0f} {one['rss']:12.0f} {more:>15} "
            f"{one['evidence']:11.1f}  {one['status']}",
            flush=True,
        )
        last = one
    print(f"the same callable on a plain dict: {peer(2_000):.0f} episodes/CPU-s")
    print(f"this process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
