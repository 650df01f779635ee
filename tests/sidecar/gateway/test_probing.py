"""An agent that tries one denial after the other is frozen; one that repeats itself is not."""

import asyncio

import pytest
from gateway_rig import AllowAll, rig
from msgspec import structs

from sidecar.gateway.config import Probing as Configured
from sidecar.gateway.driver import Settings
from sidecar.gateway.policy.result import denied, read_answer
from sidecar.gateway.probing import WATCHED_MAX, Probing, Rules
from sidecar.telemetry import REGISTRY

SECOND = 10**9
RULES = Rules(denials=3, window_ns=60 * SECOND)


class Says(AllowAll):
    """A policy port with one answer."""

    def __init__(self, answer):
        self._answer = structs.replace(answer, revision=self.revision)

    async def decide(self, document):
        return self._answer


DENIED = read_answer({"effect": "deny", "reasons": [{"code": "not_this", "message": "no"}]})
LIMITED = read_answer(
    {
        "effect": "allow_with_limits", "reasons": [{"code": "ok"}],
        "limits": {"max_amount": "1", "currency": "EUR"},
    }
)  # fmt: skip


def run(folder, scenario, answer=DENIED, rules=RULES, **options):
    async def main():
        settings = Settings(accept_ephemeral_ledger=True, probing=rules)
        made = rig(folder, policy=Says(answer), settings=settings, gateways=1, **options)
        async with made as each:  # each gateway counts for itself
            return await scenario(each)

    return asyncio.run(main())


def quarantined():
    name = "sidecar_gateway_quarantined_total"
    return REGISTRY.get_sample_value(name, {"why": "probing"}) or 0.0


@pytest.mark.requirement("GW-04")
@pytest.mark.parametrize("answer", [DENIED, LIMITED])
def test_an_agent_that_tries_many_different_calls_is_frozen_and_others_are_not(tmp_path, answer):
    async def scenario(each):
        before = quarantined()
        codes = [
            (await each.refund("17", key=str(n), amount=20 + n)).json["code"] for n in range(5)
        ]
        said = "not_this" if answer is DENIED else "limit_amount"
        assert codes == [said, said, said, "frozen", "frozen"]
        (stop,) = each.ledger.list_stops()
        assert (stop.kind, stop.scope, stop.set_by) == ("freeze", "agent", "gateway:probing")
        assert "issue_refund" in stop.reason and "20" not in stop.reason
        assert quarantined() == before + 1
        other = each.credential("agent", name="other")
        assert (await each.refund("17", key="x", credential=other)).json["code"] == said
        assert each.shop.effects() == 0

    run(tmp_path, scenario, answer)


def test_the_same_call_again_and_calls_of_other_tools_are_no_new_tries(tmp_path):
    async def scenario(each):
        for number in range(6):
            reply = await each.refund("17", key=str(number))
            assert reply.json["code"] == "not_this"
        assert (await each.refund("18", key="a")).json["code"] == "not_this"
        for order in ("1", "2"):
            await each.ask("GET", f"/payments/orders/{order}")
        assert each.ledger.list_stops() == []

    run(tmp_path, scenario)


@pytest.mark.parametrize("changes", [{"mode": "observe"}, {}])
def test_what_is_observed_or_no_word_of_policy_is_not_counted(tmp_path, changes):
    answer = DENIED if changes else denied("late")

    async def scenario(each):
        for number in range(5):
            await each.refund("s400", key=str(number), amount=20 + number)
        assert each.ledger.list_stops() == []

    run(tmp_path, scenario, answer, tool_changes=changes)


def test_it_can_be_off(tmp_path):
    async def scenario(each):
        for number in range(30):
            reply = await each.refund("17", key=str(number), amount=20 + number)
            assert reply.json["code"] == "not_this"

    run(tmp_path, scenario, rules=Rules())


@pytest.mark.requirement("GW-04")
def test_a_denial_says_what_it_is_and_that_nothing_helps(tmp_path):
    async def scenario(each):
        told = (await each.refund("17", key="a")).json
        assert (told["code"], told["next_action"], told["reasons"]) == (
            *("not_this", "none"), ["not_this"],
        )  # fmt: skip
        assert told["detail"].startswith("no; nothing was sent, and no other wording")
        assert "retry_after" not in told and told["decision_id"]

    run(tmp_path, scenario)


def test_tries_are_forgotten_with_time_and_when_there_are_too_many():
    probing = Probing(RULES)
    for number in range(9):  # two within any minute
        assert not probing.probes("p", "a", "t", str(number), number * 31 * SECOND)
    assert probing.probes("p", "a", "t", "x", 9 * 31 * SECOND - 30 * SECOND)
    assert not probing.probes("p", "a", "t", "y", 9 * 31 * SECOND)  # counted anew
    for number in range(WATCHED_MAX + 5):
        probing.probes("p", str(number), "t", "x", 0)
    assert len(probing._denied) == WATCHED_MAX


def test_what_cannot_be_configured():
    assert [each.path for each in Configured(denials=-1, window="x").problems()] == [
        *("denials", "window")
    ]
    assert Configured().rules == Rules(denials=20, window_ns=600 * SECOND)
