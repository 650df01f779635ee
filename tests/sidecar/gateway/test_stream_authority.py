"""Long answers are broken off once they may not go on: a stop, a revoked key, another policy."""

import asyncio

import aiohttp
import pytest
from gateway_rig import AllowAll, rig
from msgspec import structs
from test_streams import TARGET, Tool, asked

from sidecar import clock
from sidecar.gateway.performer import client
from sidecar.gateway.policy.result import read_answer
from sidecar.store.ledger import CallQuery
from sidecar.store.stop import Stop
from sidecar.telemetry import REGISTRY


class Changing(AllowAll):
    """A policy port whose revision and answer the test changes."""

    def __init__(self):
        self.revision, self.asked = "one", 0
        self.raw = {"effect": "allow", "reasons": [{"code": "ok"}]}

    async def decide(self, document):
        self.asked += 1
        return structs.replace(read_answer(self.raw), revision=self.revision)


@pytest.fixture(autouse=True)
def often(monkeypatch):
    monkeypatch.setattr(client, "LOOK_SECONDS", 0.02)


def run(folder, scenario, **options):
    async def main():
        upstream, policy = Tool(), Changing()
        runner = web_runner(upstream)
        await runner.setup()
        site = aiohttp.web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        try:
            async with asyncio.timeout(20):
                async with rig(folder, policy=policy, upstream_url=url, **options) as each:
                    await scenario(each, upstream, policy)
        finally:
            upstream.parts.put_nowait(None)
            await runner.cleanup()

    asyncio.run(main())


def web_runner(upstream):
    served = aiohttp.web.Server(upstream.handle, access_log=None, handler_cancellation=True)
    return aiohttp.web.ServerRunner(served)


def stop(kind, each):
    return Stop(
        stop_id="s1", project="default", kind=kind, scope="project", subject="", reason="r",
        set_by="key:p", set_at_ns=clock.now_ns(),
    )  # fmt: skip


def closed(code):
    name = "sidecar_gateway_streams_closed_total"
    return REGISTRY.get_sample_value(name, {"code": code}) or 0.0


async def broken(answer):
    with pytest.raises(aiohttp.ClientPayloadError):
        await answer.read()


async def last(each):
    """The last call's end, once it is recorded."""
    while True:
        row = each.ledger.list_calls(CallQuery())
        if row and row[0].phase == "executed":
            return row[0]
        await asyncio.sleep(0.01)


async def kill(each, policy):
    await each.ledger.set_stop(stop("kill", each))


async def revoke(each, policy):
    (key,) = [key for key in each.keys.list_keys("default") if key.kind == "agent"]
    assert each.keys.revoke_key(key.key_id, clock.now_ns())


async def deny(each, policy):
    policy.raw, policy.revision = {"effect": "deny"}, "two"


async def ask(each, policy):
    policy.raw, policy.revision = {"effect": "require_approval"}, "two"


async def mask(each, policy):
    obligation = {"type": "mask_response", "properties": {"paths": ["/card"]}}
    policy.raw, policy.revision = {**policy.raw, "obligations": [obligation]}, "two"


async def fail(each, policy):
    policy.raw, policy.revision = None, "two"


@pytest.mark.requirement("KIL-01")
@pytest.mark.parametrize(
    ("change", "code"),
    [
        (kill, "killed"), (revoke, "key_revoked"), (deny, "policy_changed"),
        (ask, "policy_changed"), (mask, "policy_changed"), (fail, "policy_changed"),
    ],
)  # fmt: skip
def test_a_read_that_may_not_go_on_is_broken_off_and_given_up(tmp_path, change, code):
    async def scenario(each, tool, policy):
        before = closed(code)
        tool.parts.put_nowait(b"data: one\n\n")
        async with asked(each) as answer:
            assert await answer.content.readany() == b"data: one\n\n"
            await change(each, policy)
            await broken(answer)
        await tool.gone.wait()  # the tool is not listened to any more
        row = await last(each)
        assert (row.code, row.status, row.effect) == (code, 403, "not_executed")
        receipt = each.ledger.get_receipt(each.ledger.get_call(row.call_id).receipts[-1])
        assert receipt.decision_effect == "allow" and receipt.policy_revision == "one"
        assert closed(code) == before + 1

    run(tmp_path, scenario)


@pytest.mark.parametrize(
    "raw", [{"effect": "allow", "reasons": [{"code": "again"}]},
            {"effect": "allow_with_limits", "reasons": [{"code": "x"}], "limits": {"count": 9}}],
)  # fmt: skip
def test_what_another_policy_allows_goes_on_and_it_is_asked_once(tmp_path, raw):
    async def scenario(each, tool, policy):
        tool.parts.put_nowait(b"data: one\n\n")
        async with asked(each) as answer:
            assert await answer.content.readany() == b"data: one\n\n"
            policy.raw, policy.revision = raw, "two"
            while policy.asked < 2:
                await asyncio.sleep(0.01)
            await asyncio.sleep(5 * client.LOOK_SECONDS)
            tool.parts.put_nowait(b"data: two\n\n")
            tool.parts.put_nowait(None)
            assert await answer.read() == b"data: two\n\n"
        assert policy.asked == 2

    run(tmp_path, scenario)


def test_a_freeze_stops_no_read(tmp_path):
    async def scenario(each, tool, policy):
        tool.parts.put_nowait(b"data: one\n\n")
        async with asked(each) as answer:
            await answer.content.readany()
            await each.ledger.set_stop(stop("freeze", each))
            await asyncio.sleep(5 * client.LOOK_SECONDS)
            tool.parts.put_nowait(None)
            assert await answer.read() == b""

    run(tmp_path, scenario)


@pytest.mark.requirement("KIL-01")
@pytest.mark.parametrize("kind", ["kill", "freeze"])
def test_what_has_an_effect_is_shown_no_more_and_runs_to_its_end(tmp_path, kind):
    async def scenario(each, tool, policy):
        tool.parts.put_nowait(b"data: one\n\n")
        headers = {"Idempotency-Key": "a"}
        target = f"{TARGET}/notes"
        async with asked(each, "POST", target, **headers) as answer:
            assert await answer.content.readany() == b"data: one\n\n"
            await each.ledger.set_stop(stop(kind, each))
            await broken(answer)
        assert not tool.gone.is_set()
        tool.parts.put_nowait(b"data: secret\n\n")
        tool.parts.put_nowait(None)
        row = await last(each)
        assert (row.effect, row.status, row.state) == ("confirmed", 200, "completed")

    run(tmp_path, scenario)


def test_an_answer_that_does_not_come_in_parts_is_not_looked_after(tmp_path, monkeypatch):
    monkeypatch.setattr(client, "LOOK_SECONDS", 0.0)

    async def scenario(each, tool, policy):
        tool.content_type = "application/json"
        tool.parts.put_nowait(b"{}")
        policy_was = policy.asked
        tool.parts.put_nowait(None)
        async with asked(each) as answer:
            assert await answer.read() == b"{}"
        assert policy.asked == policy_was + 1

    run(tmp_path, scenario)
