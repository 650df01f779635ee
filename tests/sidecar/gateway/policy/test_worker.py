"""The supervised policy engine: whatever happens to a child, each caller has its answer."""

import asyncio
import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
import structlog
import uvloop

from sidecar.errors import SidecarError
from sidecar.gateway.policy import lint
from sidecar.gateway.policy import worker as worker_module
from sidecar.gateway.policy.bundle import Module, make_bundle
from sidecar.gateway.policy.client import Child, ChildFailed
from sidecar.gateway.policy.document import encode, input_digest
from sidecar.gateway.policy.worker import PolicyWorker

RULES = """package agenttwin.v1

decide := {"effect": "allow", "reasons": [{"code": "said_so", "message": input.say}]} if input.say

decide := {"effect": "deny", "reasons": [{"code": "slow", "message": format_int(slow, 10)}]} if {
	input.slow
}

slow := count({[a, b, c] |
	some a in numbers.range(1, input.slow)
	some b in numbers.range(1, input.slow)
	some c in numbers.range(1, input.slow)
})

decide := {"effect": "deny", "reasons": [{"code": "x", "message": to_number(input.text)}]} if {
	input.text
}

decide := {"effect": "allow"} if input.reasonless

list := {"effect": "allow", "reasons": [{"code": "seen"}]} if input.say
"""
ROOT = Path(__file__).parents[4]


ONE_WORD = """package agenttwin.v1

decide := {"effect": "allow", "reasons": [{"code": "c", "message": input.say, "rule": "r"}]}

list := decide
"""


def bundle(text=RULES):
    return make_bundle([Module("decide.rego", text)], [])


def working(scenario, *, text=RULES, deadline_ms=300, **more):
    async def main():
        worker = PolicyWorker(bundle(text), deadline_ns=deadline_ms * 1_000_000, **more)
        await worker.start()
        try:
            return await scenario(worker)
        finally:
            await worker.stop()

    return asyncio.run(main())


async def until(condition, seconds=10.0):
    ends = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < ends, "it did not happen in time"
        await asyncio.sleep(0.01)


async def allowed(worker):
    answer = await worker.decide({"say": "yes"})
    return answer.effect == "allow"


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.requirement("GW-02")
def test_a_decision_names_its_reason_revision_engine_and_input():
    async def scenario(worker):
        return await worker.decide({"say": "because"}), await worker.visible({"say": "x"})

    decided, seen = working(scenario)
    assert (decided.effect, decided.reasons[0].message) == ("allow", "because")
    assert decided.revision == bundle().revision and decided.engine == "regorus/0.13.0"
    assert decided.input_digest.startswith("sha256:") and decided.error is None
    assert seen.reasons[0].code == "seen"


@pytest.mark.requirement("GW-02")
def test_the_engine_is_given_what_the_bundle_reads_and_the_digest_is_of_the_whole():
    document = {"say": "yes", "blob": ["x" * 1000]}

    async def scenario(worker):
        deciding = asyncio.ensure_future(worker.decide(document))
        await asyncio.sleep(0)
        return worker._queue[0].payload, await deciding

    payload, answer = working(scenario, text=ONE_WORD, folds="always")
    assert (payload, answer.effect) == (b'{"say":"yes"}', "allow")
    assert answer.input_digest == input_digest(encode(document))
    payload, _ = working(scenario, text=ONE_WORD)
    assert payload == encode(document)


@pytest.mark.requirement("GW-04")
@pytest.mark.parametrize(
    ("document", "why"),
    [
        ({}, "undefined"),
        ({"text": "zz"}, "could not evaluate"),
        ({"reasonless": True}, "without a reason"),
        ({"say": "a", "slow": 2}, "could not evaluate"),
        ({"say": object()}, "cannot be encoded"),
        ({"slow": 100_000}, "within 300 ms"),
    ],
)
@pytest.mark.row("T18", "G")
def test_no_usable_answer_denies_with_policy_error_and_the_next_decision_is_good(document, why):
    async def scenario(worker):
        return await worker.decide(document), await allowed(worker)

    answer, next_is_good = working(scenario)
    assert (answer.effect, answer.reasons[0].code) == ("deny", "policy_error")
    assert why in answer.error
    assert next_is_good


@pytest.mark.requirement("GW-04")
@pytest.mark.parametrize("kill", [signal.SIGKILL, signal.SIGSEGV])
@pytest.mark.row("G")
def test_a_death_denies_the_head_at_once_and_the_innocent_are_answered_by_the_spare(kill):
    async def scenario(worker):
        first, spare = worker.pids
        slow = asyncio.ensure_future(worker.decide({"slow": 100_000}))
        innocent = [asyncio.ensure_future(worker.decide({"say": str(n)})) for n in range(20)]
        await asyncio.sleep(0)
        started = time.monotonic()
        os.kill(first, kill)
        head = await slow
        took = time.monotonic() - started
        answers = await asyncio.gather(*innocent)
        assert worker.pids[0] == spare
        await until(lambda: len(worker.pids) == 2)
        return head, took, answers

    head, took, answers = working(scenario, deadline_ms=5000)
    assert head.effect == "deny" and "ended" in head.error
    assert took < 1.0
    assert [answer.reasons[0].message for answer in answers] == [str(n) for n in range(20)]


@pytest.mark.requirement("GW-04")
@pytest.mark.row("G")
def test_a_hang_denies_at_the_deadline_and_only_the_head():
    async def scenario(worker):
        first, spare = worker.pids
        os.kill(first, signal.SIGSTOP)
        started = time.monotonic()
        answers = await asyncio.gather(*(worker.decide({"say": str(n)}) for n in range(3)))
        took = time.monotonic() - started
        assert worker.pids[0] == spare
        await until(lambda: not alive(first))
        return answers, took

    answers, took = working(scenario)
    assert [answer.effect for answer in answers] == ["deny", "allow", "allow"]
    assert 0.25 < took < 2.0


def test_what_was_answered_while_our_own_loop_was_held_up_is_not_late():
    async def scenario():
        worker = PolicyWorker(bundle(), deadline_ns=20_000_000)
        await worker.start()
        ours, theirs = socket.socketpair()
        answers = worker._active._transport.get_extra_info("socket")

        def held_up():  # while the loop reads its sockets: its timers are looked at next
            asyncio.get_running_loop().remove_reader(ours)
            select.select([answers], [], [], 10)
            time.sleep(0.05)

        try:
            asyncio.get_running_loop().add_reader(ours, held_up)
            deciding = asyncio.ensure_future(worker.decide({"say": "yes"}))
            await asyncio.sleep(0)  # it is sent now
            theirs.send(b"x")
            return (await deciding).error
        finally:
            ours.close()
            theirs.close()
            await worker.stop()

    assert uvloop.run(scenario()) is None


def test_a_denial_without_an_answer_is_in_the_log_as_the_caller_is_told(monkeypatch):
    said = structlog.testing.LogCapture()
    monkeypatch.setattr(worker_module, "_log", structlog.wrap_logger(None, processors=[said]))

    async def scenario(worker):
        os.kill(worker.pids[0], signal.SIGSTOP)
        return await worker.decide({"say": "x"})

    answer = working(scenario)
    assert answer.effect == "deny"
    (entry,) = [each for each in said.entries if each["event"] == "policy_gave_no_answer"]
    assert "no answer within 300 ms" in entry["why"]


def children():
    return {int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()}


class BusyThreads(ThreadPoolExecutor):
    """Threads of a machine so busy that every call but the first begins late."""

    def __init__(self):
        super().__init__()
        self._begun = False

    def submit(self, call, /, *args, **kwargs):
        if not self._begun:
            self._begun = True
            return super().submit(call, *args, **kwargs)
        late = Future()

        def begin():
            if late.set_running_or_notify_cancel():
                late.set_result(call(*args, **kwargs))

        threading.Timer(0.3, begin).start()
        return late


def test_stopped_right_after_a_replacement_it_reaps_the_replaced_child():
    async def scenario(worker):
        asyncio.get_running_loop().set_default_executor(BusyThreads())
        os.kill(worker.pids[0], signal.SIGSTOP)
        await worker.decide({"say": "x"})

    before = children()
    working(scenario)
    assert children() <= before


def test_the_deadline_runs_from_the_head_of_the_queue_and_not_from_arrival():
    async def scenario(worker):
        one = await worker.decide({"slow": 25})
        assert one.error is None, one.error
        started = time.monotonic()
        answers = await asyncio.gather(*(worker.decide({"slow": 25}) for _ in range(50)))
        return answers, time.monotonic() - started

    answers, took = working(scenario, deadline_ms=400)
    assert {answer.error for answer in answers} == {None}
    assert took > 0.4, "the queue as a whole must outlast the deadline for this to prove anything"


def test_with_both_children_gone_callers_are_denied_or_answered_and_it_recovers():
    async def scenario(worker):
        for pid in worker.pids:
            os.kill(pid, signal.SIGKILL)
        answers = await asyncio.gather(*(worker.decide({"say": "x"}) for _ in range(5)))
        while not await allowed(worker):
            await asyncio.sleep(0.01)
        await until(lambda: len(worker.pids) == 2)
        return answers

    answers = working(scenario)
    assert all(answer.effect == "allow" or answer.error for answer in answers)


def test_an_engine_panic_is_an_answer_and_the_panicked_child_is_replaced(monkeypatch):
    monkeypatch.setattr(lint, "BUILTINS", lint.BUILTINS | {"strings.count"})
    panics = RULES + '\ndecide := {"effect": "deny", "n": strings.count(input.panic, "")}\n'

    async def scenario(worker):
        _, spare = worker.pids
        answers = await asyncio.gather(
            worker.decide({"panic": "x"}), worker.decide({"say": "x"}), worker.decide({"say": "y"})
        )
        assert worker.pids[0] == spare
        return answers

    answers = working(scenario, text=panics)
    assert [answer.effect for answer in answers] == ["deny", "allow", "allow"]
    assert "could not evaluate" in answers[0].error


def test_stopping_denies_what_waits_and_leaves_no_process():
    async def main():
        worker = PolicyWorker(bundle(), deadline_ns=5_000_000_000)
        await worker.start()
        pids = worker.pids
        waiting = asyncio.ensure_future(worker.decide({"slow": 100_000}))
        await asyncio.sleep(0.01)
        await worker.stop()
        await worker.stop()
        late = await worker.decide({"say": "x"})
        return pids, await waiting, late

    pids, waited, late = asyncio.run(main())
    assert waited.error and late.error
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


def test_many_deaths_leave_no_zombies():
    async def scenario(worker):
        seen = set(worker.pids)
        for _ in range(5):
            await until(lambda: len(worker.pids) == 2)
            seen |= set(worker.pids)
            os.kill(worker.pids[0], signal.SIGKILL)
            dead = worker.pids[0]
            await until(lambda dead=dead: dead not in worker.pids)
        await until(lambda: sum(Path(f"/proc/{pid}").exists() for pid in seen) <= 2)
        return True

    assert working(scenario)


def test_children_die_with_a_killed_parent():
    program = (
        "import asyncio, sys\n"
        "from sidecar.gateway.policy.files import load_bundle\n"
        "from sidecar.gateway.policy.worker import PolicyWorker\n"
        "async def main():\n"
        "    worker = PolicyWorker(load_bundle())\n"
        "    await worker.start()\n"
        "    print(*worker.pids, flush=True)\n"
        "    await asyncio.sleep(60)\n"
        "asyncio.run(main())\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as parent:
        pids = [int(word) for word in parent.stdout.readline().split()]
        assert len(pids) == 2 and all(map(alive, pids))
        parent.kill()
    ends = time.monotonic() + 5
    while any(map(alive, pids)) and time.monotonic() < ends:
        time.sleep(0.01)
    assert not any(map(alive, pids))


def test_a_child_is_confined_and_knows_nothing_of_our_environment(monkeypatch):
    monkeypatch.setenv("SIDECAR_CLIENT_KEY", "sk_secret")

    async def scenario(worker):
        proc = Path(f"/proc/{worker.pids[0]}")
        limits = (proc / "limits").read_text()
        return limits, (proc / "environ").read_bytes(), len(list((proc / "fd").iterdir()))

    limits, environment, descriptors = working(scenario)
    space = next(line for line in limits.splitlines() if line.startswith("Max address space"))
    assert int(space.split()[3]) == 4 * 1024**3
    assert b"sk_secret" not in environment
    assert descriptors <= 5


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("package agenttwin.v1\n\ndecide := ", "decide.rego"),
        ("package agenttwin.v1\n\ndecide := http.send({})\n\nlist := 1 if input.x\n", "http.send"),
        ("package other\n\nx := 1\n", "data.agenttwin.v1.decide is not defined"),
    ],
)
@pytest.mark.row("T14", "G")
def test_a_bundle_that_does_not_parse_or_breaks_a_rule_refuses_to_start(text, why):
    async def nothing(worker):
        raise AssertionError("it started")

    with pytest.raises(SidecarError, match=why):
        working(nothing, text=text)


def test_a_child_that_cannot_load_says_the_engines_words_and_dies():
    async def main():
        child = await Child.start()
        with pytest.raises(ChildFailed, match=r"decide\.rego:1"):
            await child.load(bundle("pack"), warm=False)
        pid = child.pid
        child.kill()
        await child.ended()
        with pytest.raises(ChildFailed):
            await child.load(bundle(), warm=False)
        return pid

    assert not Path(f"/proc/{asyncio.run(main())}").exists()


def test_a_cancelled_caller_does_not_disturb_the_others():
    async def scenario(worker):
        gone = asyncio.ensure_future(worker.decide({"say": "gone"}))
        kept = asyncio.ensure_future(worker.decide({"say": "kept"}))
        await asyncio.sleep(0)
        gone.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await gone
        return await kept

    assert working(scenario).reasons[0].message == "kept"
