"""A bundle that changes while calls go on: judged by the last decisions first, then one change."""

import asyncio
import os
import signal

import policy_release_rig
import pytest
import structlog
from gateway_rig import rig
from policy_release_rig import worker

from processors.model.call import ApprovalTerms, Reason
from sidecar.errors import SidecarError
from sidecar.gateway.policy.bundle import Module, make_bundle
from sidecar.gateway.policy.live import driver
from sidecar.gateway.policy.live.change import kind_of
from sidecar.gateway.policy.live.driver import LivePolicy, PolicyWatch
from sidecar.gateway.policy.release import Release
from sidecar.gateway.policy.result import PolicyAnswer, denied
from sidecar.telemetry import REGISTRY

RULES = """package agenttwin.v1

decide := {"effect": "EFFECT", "reasons": [{"code": "said_so"}]} if input.resource.id

list := {"effect": "allow", "reasons": [{"code": "seen"}]} if input.resource.id
"""
CALL = {"resource": {"id": "pay"}}


def release(effect="allow", text=RULES, sequence=None):
    module = Module("decide.rego", text.replace("EFFECT", effect))
    return Release(bundle=make_bundle([module], []), sequence=sequence)


def living(scenario, first="allow", **options):
    return policy_release_rig.living(scenario, release(first), **options)


def said(effect, **fields):
    return PolicyAnswer(effect=effect, reasons=(Reason(code="x"),), **fields)


def asked(people):
    return said("require_approval", approval=ApprovalTerms(min=people))


@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [
        (said("deny"), said("deny"), "same"),
        (said("deny"), said("allow"), "loosened"),
        (said("require_approval"), said("allow_with_limits", limits={"count": 1}), "loosened"),
        (said("allow"), said("allow_with_limits", limits={"count": 1}), "tightened"),
        (said("allow"), denied("late"), "tightened"),
        (asked(2), asked(1), "loosened"),
        (asked(1), asked(2), "tightened"),
        (
            said("allow_with_limits", limits={"count": 1}),
            said("allow_with_limits", limits={"count": 2}),
            "loosened",
        ),
        (
            said("allow_with_limits", limits={"count": 2}),
            said("allow_with_limits", limits={"count": 1}),
            "changed",
        ),
    ],
)
def test_a_difference_is_named_by_what_it_lets_through(before, after, kind):
    assert kind_of(before, after) == kind


def test_a_stricter_bundle_decides_after_it_was_tried_on_the_last_decisions():
    async def scenario(policy):
        activated = []

        async def activate(sequence):
            activated.append((policy.revision, sequence))

        policy.activate = activate
        for _ in range(5):
            await policy.decide(CALL)
        await policy.decide({})  # no answer: nothing to compare with
        told = await policy.change(release("deny", sequence=9))
        return told, activated, await policy.decide(CALL), policy.revision

    told, activated, answer, revision = living(scenario, remember=3)
    assert (told.compared, told.tightened, told.loosened, told.activated) == (3, 3, 0, True)
    assert (told.examples[0].tool, told.examples[0].before, told.examples[0].after) == (
        *("pay", "allow"),
        "deny",
    )
    assert activated == [(release("deny").bundle.revision, 9)]
    assert answer.effect == "deny" and answer.revision == revision == activated[0][0]


def test_a_looser_bundle_does_not_decide_unless_that_is_accepted():
    async def scenario(policy):
        before = policy.revision
        await policy.decide(CALL)
        told = await policy.change(release("allow"))
        return told, policy.revision == before, await policy.decide(CALL)

    told, kept, answer = living(scenario, first="deny")
    assert (told.loosened, told.activated, kept, answer.effect) == (1, False, True, "deny")
    told, kept, answer = living(scenario, first="deny", accept_loosening=True)
    assert (told.loosened, told.activated, kept, answer.effect) == (1, True, False, "allow")


@pytest.mark.parametrize("text", ["package agenttwin.v1\n\nx := ", "package other\n\nx := 1\n"])
def test_a_bundle_that_cannot_be_used_changes_nothing(text):
    async def scenario(policy):
        before = policy.revision
        with pytest.raises(SidecarError):
            await policy.change(release(text=text))
        return before == policy.revision, await policy.decide(CALL)

    kept, answer = living(scenario)
    assert kept and answer.effect == "allow"


def test_a_release_that_the_ledger_refuses_changes_nothing_and_leaves_no_process():
    async def scenario(policy):
        async def refuse(_sequence):
            raise SidecarError("rolled back")

        policy.activate = refuse
        before = policy.revision
        with pytest.raises(SidecarError, match="rolled back"):
            await policy.change(release("deny"))
        return before == policy.revision, await policy.decide(CALL)

    kept, answer = living(scenario)
    assert kept and answer.effect == "allow"


def test_what_the_engine_before_was_asked_it_answers_and_nothing_is_decided_in_between():
    async def scenario(policy):
        entered, go_on = asyncio.Event(), asyncio.Event()

        async def activate(_sequence):
            entered.set()
            await go_on.wait()

        policy.activate = activate
        before = [asyncio.ensure_future(policy.decide(CALL)) for _ in range(20)]
        await asyncio.sleep(0)
        changing = asyncio.ensure_future(policy.change(release("deny")))
        await entered.wait()
        between = asyncio.ensure_future(policy.decide(CALL))
        await asyncio.sleep(0)
        assert not between.done()
        go_on.set()
        await changing
        return [each.effect for each in await asyncio.gather(*before)], (await between).effect

    before, between = living(scenario)
    assert before == ["allow"] * 20
    assert between == "deny"


def counted(name, result):
    return REGISTRY.get_sample_value(name, {"result": result}) or 0.0


def test_a_shadow_is_compared_and_touches_no_call(monkeypatch):
    logged = structlog.testing.LogCapture()
    monkeypatch.setattr(driver, "_log", structlog.wrap_logger(None, processors=[logged]))
    name = "sidecar_policy_shadow_decisions_total"

    async def scenario(policy):
        tightened, failed = counted(name, "tightened"), counted(name, "failed")
        answers = [await policy.decide(CALL) for _ in range(3)]
        await asyncio.gather(*policy._shadowing)
        for pid in policy._shadow.pids:
            os.kill(pid, signal.SIGKILL)
        answers.append(await policy.decide(CALL))
        await asyncio.gather(*policy._shadowing)
        found = counted(name, "tightened") - tightened, counted(name, "failed") - failed
        return [each.effect for each in answers], found

    effects, (tightened, failed) = living(scenario, shadow=release("deny"))
    assert effects == ["allow"] * 4
    assert tightened + failed == 4 and tightened >= 3
    told = [each for each in logged.entries if each["event"] == "policy_shadow_differs"]
    assert {(each["tool"], each["before"]) for each in told} == {("pay", "allow")}


def test_the_watch_activates_a_changed_bundle_once_and_tells_why_one_is_refused(monkeypatch):
    logged = structlog.testing.LogCapture()
    monkeypatch.setattr(driver, "_log", structlog.wrap_logger(None, processors=[logged]))
    there = [release("deny")]

    def load():
        if isinstance(there[0], Exception):
            raise there[0]
        return there[0]

    async def scenario(policy):
        await policy.decide(CALL)
        watch, seen = PolicyWatch(policy, load, 60), []
        for found in (
            *(there[0], SidecarError("gone"), SidecarError("gone"), release(text="package x\n")),
            *(release("require_approval"), release("require_approval"), release("allow")),
            *(release("allow"), release("deny")),
        ):
            there[0] = found
            told = await watch.look()
            seen.append(None if told is None else (told.activated, told.loosened))
        return seen, policy.revision

    seen, revision = living(scenario, first="deny")
    assert seen == [None, None, None, None, (False, 1), None, (False, 1), None, None]
    assert revision == release("deny").bundle.revision
    kinds = [each["event"] for each in logged.entries]
    assert kinds.count("policy_change_refused") == 2
    assert kinds.count("policy_loosening_not_activated") == 2


@pytest.mark.requirement("GW-02")
def test_calls_go_on_while_the_policy_changes_and_each_is_decided_by_one_revision(tmp_path):
    async def scenario():
        policy = LivePolicy(release("allow"), worker)
        async with rig(tmp_path, policy=policy) as each:
            policy.activate = each.gateway.activate_policy
            first = await each.refund("1", key="a")
            calls = [asyncio.ensure_future(each.refund(str(n), key=f"k{n}")) for n in range(2, 30)]
            await asyncio.sleep(0.02)
            told = await policy.change(release("deny"))
            replies = await asyncio.gather(*calls)
            last = await each.refund("99", key="z")
            return first, told, replies, last, each.shop.effects()

    first, told, replies, last, effects = asyncio.run(scenario())
    assert (first.status, told.activated, last.status) == (201, True, 403)
    statuses = [each.status for each in replies]
    assert set(statuses) <= {201, 403}, statuses
    assert effects == 1 + statuses.count(201)
