"""Kill switches and freezes: nothing in their scope is sent, whatever stage a call is at."""

import asyncio
from contextlib import AsyncExitStack
from time import monotonic

import pytest
from control_rig import control
from gateway_rig import AllowAll, Settings, rig
from ledger_rig import ledgers
from msgspec import structs

from sidecar import clock
from sidecar.errors import StoreUnavailable
from sidecar.gateway.budget import Budget
from sidecar.store.ledger import CallQuery
from sidecar.store.sqlite import claims, stops
from sidecar.store.stop import LiftBallot, Stop


def run(folder, scenario, **options):
    async def main():
        options.setdefault("policy", AllowAll())
        async with rig(folder, **options) as each:
            return await scenario(each)

    return asyncio.run(main())


def stop(kind="kill", scope="project", subject=""):
    return Stop(
        stop_id=clock.new_id(), project="default", kind=kind, scope=scope, subject=subject,
        reason="r", set_by="key:1", set_at_ns=clock.now_ns(),
    )  # fmt: skip


async def lift(each, stop_id, *people):
    for who in people:
        ballot = LiftBallot(
            project="default", stop_id=stop_id, lifter=f"key:{who}", identity=who, reason="r",
            now_ns=clock.now_ns(),
        )  # fmt: skip
        assert await each.ledger.lift_stop(ballot) is None


async def codes(each, key):
    """What a read, a write and an irreversible call get."""
    body = {"amount": 20, "currency": "EUR"}
    replies = (
        await each.ask("GET", "/payments/orders/17"),
        await each.ask("POST", "/payments/orders/17/notes", key=key, json=body),
        await each.refund("17", key=key),
    )
    return [reply.status if reply.status < 300 else reply.json["code"] for reply in replies]


@pytest.mark.requirement("KIL-01")
def test_a_kill_stops_every_call_and_a_freeze_those_with_effects(tmp_path):
    async def scenario(each):
        assert await codes(each, "a") == [200, 201, 201]
        frozen = await each.ledger.set_stop(stop("freeze"))
        assert await codes(each, "b") == [200, "frozen", "frozen"]
        killed = await each.ledger.set_stop(stop("kill"))
        assert await codes(each, "c") == ["killed"] * 3
        refused = await each.refund("17", key="d")
        assert (refused.status, refused.json["next_action"]) == (403, "none")
        assert each.ledger.get_receipt(refused.headers["gateway-receipt"]).code == "killed"
        await lift(each, frozen.stop_id, "ann")
        await lift(each, killed.stop_id, "ann", "bob")
        assert await codes(each, "e") == [200, 201, 201]
        assert each.shop.effects() == 4

    run(tmp_path, scenario)


@pytest.mark.requirement("KIL-01")
def test_a_stop_of_one_tool_or_agent_is_of_no_other(tmp_path):
    async def scenario(each):
        await each.ledger.set_stop(stop("kill", "tool", "issue_refund"))
        assert await codes(each, "a") == [200, 201, "killed"]
        agent = each.ledger.list_calls(CallQuery())[0].principal
        await each.ledger.set_stop(stop("freeze", "agent", agent))
        assert await codes(each, "b") == [200, "frozen", "killed"]
        other = each.credential("agent", name="other")
        note = await each.ask(
            "POST", "/payments/orders/1/notes", key="c", json={}, credential=other
        )
        assert note.status == 201

    run(tmp_path, scenario)


def test_who_is_stopped_does_not_read_old_answers_either(tmp_path):
    async def scenario(each):
        assert (await each.refund("17", key="a")).status == 201
        await each.ledger.set_stop(stop())
        assert (await each.refund("17", key="a")).json["code"] == "killed"

    run(tmp_path, scenario)


class KillsAt:
    """A ledger that somebody kills the project on, at one point of a call."""

    def __init__(self, ledger, point):
        self._ledger, self._point = ledger, point

    def __getattr__(self, name):
        found = getattr(self._ledger, name)
        if name != self._point:
            return found

        async def after(*args, **more):
            if name == "commit_intent":  # marked apart, so that there is a moment in between
                args = (structs.replace(args[0], marks=()),)
            result = await found(*args, **more)
            await self._ledger.set_stop(stop())
            return result

        return after


def killed_after_the_intent(monkeypatch):
    """Somebody kills the project between both commits of the ledger's thread."""
    marked = claims.marked

    def after(intent, connection, committed):
        stops.add(connection, stop())
        return marked(intent, connection, committed)

    monkeypatch.setattr(claims, "marked", after)


@pytest.mark.requirement("KIL-01")
def test_a_kill_between_both_commits_of_the_ledgers_thread_stops_the_call(tmp_path, monkeypatch):
    killed_after_the_intent(monkeypatch)

    async def scenario(each):
        stopped = await each.refund("17", key="a")
        assert (stopped.status, stopped.json["code"]) == (403, "killed")
        assert each.shop.requests == 0
        row = each.ledger.list_calls(CallQuery())[0]
        assert (row.effect, row.state, row.code) == ("not_executed", "failed_safe", "killed")

    run(tmp_path, scenario, ledger_path=tmp_path / "ledger.db")


@pytest.mark.requirement("KIL-01")
def test_a_kill_between_the_intent_and_the_first_byte_stops_the_call_and_gives_all_back(tmp_path):
    euros = Budget(scope="project", limit="100", currency="EUR")

    async def scenario(each):
        stopped = await each.refund("17", key="a")
        assert (stopped.status, stopped.json["code"]) == (403, "killed")
        assert each.shop.requests == 0
        row = each.ledger.list_calls(CallQuery())[0]
        assert (row.effect, row.state, row.code) == ("not_executed", "failed_safe", "killed")
        kinds = [entry.kind for entry in each.ledger.entries_after(0, 99)]
        assert kinds[-3:] == ["stop_set", "budget_release", "executed"]

    settings = Settings(accept_ephemeral_ledger=True, budgets=(euros,))
    kills = lambda ports: structs.replace(ports, ledger=KillsAt(ports.ledger, "commit_intent"))  # noqa: E731
    run(tmp_path, scenario, wrap=kills, settings=settings)


def test_a_kill_while_policy_is_asked_stops_a_read_and_a_call_with_effects(tmp_path):
    class Slow(AllowAll):
        async def decide(self, document):
            await self.each.ledger.set_stop(stop())
            return await super().decide(document)

    policy = Slow()

    async def scenario(each):
        policy.each = each
        assert (await each.ask("GET", "/payments/orders/17")).json["code"] == "killed"
        assert each.shop.requests == 0
        await lift(each, each.ledger.list_stops()[0].stop_id, "ann", "bob")
        assert (await each.refund("17", key="a")).json["code"] == "killed"
        assert each.shop.requests == 0

    run(tmp_path, scenario, policy=policy)


def test_a_call_that_waited_for_approval_is_not_sent_once_killed(tmp_path):
    async def scenario(each):
        token = await each.approved_token("17", key="a")
        killed = await each.ledger.set_stop(stop())
        refused = await each.refund("17", key="a", amount=500, Approval_Token=token)
        assert refused.json["code"] == "killed" and each.shop.effects() == 0
        await lift(each, killed.stop_id, "ann", "bob")
        done = await each.refund("17", key="a", amount=500, Approval_Token=token)
        assert done.status == 201  # the approval was not spent on it

    run(tmp_path, scenario, policy=None)


@pytest.mark.requirement("GW-04")
def test_where_it_cannot_be_read_whether_a_stop_stands_nothing_is_sent(tmp_path):
    class Blind:
        def __init__(self, ledger):
            self._ledger = ledger

        def __getattr__(self, name):
            return getattr(self._ledger, name)

        def stop_of(self, call):
            raise StoreUnavailable("the ledger is gone")

    async def scenario(each):
        assert await codes(each, "a") == ["fail_closed"] * 3
        assert each.shop.requests == 0

    run(tmp_path, scenario, wrap=lambda ports: structs.replace(ports, ledger=Blind(ports.ledger)))


@pytest.mark.full
@pytest.mark.requirement("KIL-01")
def test_a_kill_on_one_gateway_reaches_the_other_on_the_same_postgres_at_its_next_call(tmp_path):
    async def main(store):
        async with AsyncExitStack() as stack:
            one, two = [
                await stack.enter_async_context(
                    rig(tmp_path / name, policy=AllowAll(), ledgers=store)
                )
                for name in ("one", "two")
            ]
            assert (await two.refund("17", key="a")).status == 201
            killed = await one.ledger.set_stop(stop())
            began = monotonic()
            assert (await two.refund("17", key="b")).json["code"] == "killed"
            assert monotonic() - began < 2
            assert two.shop.effects() == 1
            await lift(one, killed.stop_id, "ann", "bob")
            assert (await two.refund("17", key="c")).status == 201

    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    with ledgers("postgres", tmp_path) as store:
        asyncio.run(main(store))


@pytest.mark.requirement("KIL-01")
def test_people_stop_and_resume_over_the_control_api(tmp_path):
    async def scenario(each):
        async def ask(path, by, **body):
            return await each.http_ask("POST", path, by=by, json=body)

        made = await ask("/v1/stops", each.approver, kind="kill", scope="project", reason="stop it")
        assert (made.status, made.json["kind"]) == (201, "kill")
        again = await ask("/v1/stops", each.admin, kind="kill", scope="project", reason="me too")
        assert again.json["stop_id"] == made.json["stop_id"]
        assert (await each.refund("17", key="a")).json["code"] == "killed"
        path = f"/v1/stops/{made.json['stop_id']}/lift"
        first = await ask(path, each.approver, reason="over")
        assert (first.status, first.json["lifted_at_ns"], len(first.json["lifts"])) == (
            200,
            None,
            1,
        )
        assert (await ask(path, each.approver, reason="over")).code == "vote_repeated"
        same = each.credential("admin", name="ANN ")
        assert (await ask(path, same, reason="over")).code == "vote_repeated"
        assert (await ask(path, each.admin, reason="over")).json["lifted_at_ns"] is not None
        assert (await ask(path, each.admin, reason="over")).code == "stop_lifted"
        assert (await each.refund("17", key="a")).status == 201
        listed = await each.http_ask("GET", "/v1/stops", by=each.reader)
        assert len(listed.json["stops"]) == 1

    run_control(tmp_path, scenario)


def test_who_may_not_stop_or_resume_does_not(tmp_path):
    async def scenario(each):
        body = {"kind": "freeze", "scope": "tool", "subject": "issue_refund", "reason": "x"}
        for by, status in ((each.agent, 403), (each.reader, 403), (each.admin, 201)):
            assert (await each.http_ask("POST", "/v1/stops", by=by, json=body)).status == status
        stop_id = (await each.http_ask("GET", "/v1/stops", by=each.reader)).json["stops"][0][
            "stop_id"
        ]
        path, why = f"/v1/stops/{stop_id}/lift", {"reason": "x"}
        stranger = each.credential("admin", project="other", name="Eve")
        for by, status in ((each.agent, 403), (each.reader, 403), (stranger, 404)):
            assert (await each.http_ask("POST", path, by=by, json=why)).status == status
        for change in ({"subject": ""}, {"scope": "project"}, {"reason": " "}, {"kind": "pause"}):
            told = await each.http_ask("POST", "/v1/stops", by=each.admin, json={**body, **change})
            assert told.status == 422, change

    run_control(tmp_path, scenario)


def run_control(folder, scenario):
    async def main():
        async with control(folder) as each:
            return await scenario(each)

    return asyncio.run(main())
