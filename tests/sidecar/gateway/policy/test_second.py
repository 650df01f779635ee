"""A second engine beside the first: a share is compared, and irreversible calls need both."""

import asyncio

import pytest
from msgspec import structs
from opa_rig import engine, opa_server, reply, scripted
from policy_release_rig import RULES, RULES_ALLOW, living, release

from sidecar.gateway.config import Compare
from sidecar.gateway.policy import release as releases
from sidecar.gateway.policy.live.client import Second, told
from sidecar.gateway.policy.result import denied, read_answer
from sidecar.telemetry import REGISTRY

pytest.importorskip("opa_client", reason="needs the extra opa (opa-python-client)")

KINDS = ("same", "differs", "failed", "other_revision", "skipped")


def call(class_="irreversible"):
    return {"resource": {"id": "pay", "properties": {"registered_class": class_}}}


def counts():
    name = "sidecar_policy_compared_total"
    return {kind: REGISTRY.get_sample_value(name, {"result": kind}) or 0.0 for kind in KINDS}


def since(before):
    return {kind: count - before[kind] for kind, count in counts().items() if count > before[kind]}


def beside(port, scenario, *, share=1.0, strict=False, luck=lambda: 0.0):
    """A living policy whose second engine is at a port of this machine."""
    second = Second(engine(port, deadline_ns=150_000_000), share=share, strict=strict, luck=luck)
    return living(scenario, RULES_ALLOW, second=second)


def opas(text, revision=None):
    """What an OPA answers that has these rules."""
    effect = text.split('"effect": "')[1].partition('"')[0]
    revision = revision or release(RULES_ALLOW).bundle.revision
    return {
        "provenance": {"version": "1.22.4", "bundles": {"b": {"revision": revision}}},
        "result": {"effect": effect, "reasons": [{"code": "said_so"}]},
    }


@pytest.mark.requirement("GW-03")
def test_a_real_opa_with_the_same_bundle_agrees_and_with_another_does_not_decide(tmp_path):
    same = releases.make({"decide.rego": RULES_ALLOW.encode()})

    async def scenario(policy):
        before = counts()
        for class_ in ("irreversible", "read"):
            assert (await policy.decide(call(class_))).effect == "allow"
        await asyncio.gather(*policy._second._asking)
        return since(before)

    with opa_server(same, tmp_path) as (port, _):
        assert beside(port, scenario, strict=True) == {"same": 2.0}
    other = releases.make({"decide.rego": RULES.replace("EFFECT", "deny").encode()})

    async def differs(policy):
        before = counts()
        answer = await policy.decide(call())
        assert (answer.effect, answer.error) == ("deny", answer.error) and "another" in answer.error
        assert answer.revision == policy.revision and answer.engine.startswith("regorus/")
        assert (await policy.decide(call("write"))).effect == "allow"
        await asyncio.gather(*policy._second._asking)
        return since(before)

    with opa_server(other, tmp_path) as (port, _):
        assert beside(port, differs, strict=True) == {"other_revision": 2.0}


@pytest.mark.requirement("GW-04")
@pytest.mark.row("T17")
@pytest.mark.parametrize(
    ("step", "kind"),
    [
        (opas(RULES.replace("EFFECT", "deny")), "differs"),
        (reply(b"no", "500 Broken"), "failed"),
        (reply(b"{", "200 OK"), "failed"),
        (reply({"result": True}), "failed"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\nshort", "failed"),
    ],
)
def test_what_is_irreversible_needs_both_and_anything_else_only_the_first(step, kind):
    async def main():
        async with scripted() as server:
            server.steps = [step, step]

            async def scenario(policy):
                before = counts()
                strict = await policy.decide(call())
                lax = await policy.decide(call("write"))
                await asyncio.gather(*policy._second._asking)
                return strict, lax, since(before)

            second = Second(engine(server.port), share=1.0, strict=True, luck=lambda: 0.0)
            return await alive(scenario, second)

    strict, lax, found = asyncio.run(main())
    assert (strict.effect, strict.reasons[0].code) == ("deny", "policy_error")
    assert (lax.effect, lax.error) == ("allow", None)
    assert found == {kind: 2.0}


async def alive(scenario, second):
    from policy_release_rig import worker

    from sidecar.gateway.policy.live.driver import LivePolicy

    policy = LivePolicy(release(RULES_ALLOW), worker, second=second)
    await policy.start()
    try:
        return await scenario(policy)
    finally:
        await policy.stop()


def test_a_share_is_asked_and_the_first_answer_waits_for_none_of_it():
    async def main():
        async with scripted() as server:
            stalled = asyncio.Event()

            async def stall(_writer):
                stalled.set()
                await asyncio.sleep(60)

            server.steps = [stall]
            dice = iter([0.1, 0.3, 0.9])
            second = Second(engine(server.port), share=0.3, luck=lambda: next(dice))

            async def scenario(policy):
                async with asyncio.timeout(0.09):  # OPA's deadline is 100 ms
                    answers = [await policy.decide(call()) for _ in range(3)]
                await asyncio.gather(*second._asking)
                return [each.effect for each in answers], len(server.seen)

            return await alive(scenario, second)

    effects, asked = asyncio.run(main())
    assert effects == ["allow"] * 3 and asked == 1


ALLOW = read_answer({"effect": "allow", "reasons": [{"code": "x"}]})


@pytest.mark.parametrize(
    ("ours", "theirs", "kind"),
    [
        (ALLOW, ALLOW, "same"),
        (denied("late"), denied("gone"), "same"),
        (ALLOW, denied("late"), "failed"),
        (denied("late"), ALLOW, "differs"),
        (ALLOW, structs.replace(ALLOW, reasons=()), "differs"),
        (ALLOW, structs.replace(ALLOW, limits={"count": 1}), "differs"),
        (structs.replace(ALLOW, revision="a"), structs.replace(ALLOW, revision="b"),
         "other_revision"),
    ],
)  # fmt: skip
def test_what_is_the_same(ours, theirs, kind):
    assert told(ours, theirs) == kind


def test_what_cannot_be_configured():
    paths = [each.path for each in Compare(share=2, url="ftp://x").problems()]
    assert paths == ["url", "share"]
    assert [each.path for each in Compare(irreversible="deny").problems()] == ["irreversible"]
    assert Compare().problems() == []
