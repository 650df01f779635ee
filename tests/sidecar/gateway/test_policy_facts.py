"""What policy judges beside the action: facts of credential, connection, ledger and DNS, and only
where the bundle reads what costs something to have."""

import asyncio

import pytest
from gateway_rig import AllowAll, rig
from msgspec import structs

from processors.model.call import Action
from sidecar.egress.client import Egress, EgressFailed
from sidecar.egress.rules import Target
from sidecar.gateway.action import action_hash, counted
from sidecar.gateway.config import Subject
from sidecar.gateway.driver import Settings
from sidecar.gateway.policy.bundle import Module, make_bundle
from sidecar.gateway.policy.facts import FACTS, missing
from sidecar.gateway.policy.worker import PolicyWorker

HEAD = """package agenttwin.v1

list := {"effect": "allow", "reasons": [{"code": "seen"}]} if input.resource

"""
ALLOW = '{"effect": "allow", "reasons": [{"code": "ok"}]}'
TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


class Asks(AllowAll):
    """A policy port that reads some facts, and keeps what it was asked."""

    def __init__(self, *reads):
        self.reads = frozenset(reads)
        self.asked = []

    async def decide(self, document):
        self.asked.append(document)
        return await super().decide(document)


def run(folder, scenario, policy, **options):
    async def main():
        async with rig(folder, policy=policy, **options) as each:
            return await scenario(each)

    return asyncio.run(main())


def reads_of(rules, imports=""):
    text = HEAD.replace("\n\n", f"\n\n{imports}\n\n", 1) + rules

    async def main():
        worker = PolicyWorker(make_bundle([Module("decide.rego", text)], []))
        await worker.start()
        try:
            return worker.reads
        finally:
            await worker.stop()

    return asyncio.run(main())


SESSIONS = {"counters.session"}
COUNTERS = FACTS - {"addresses"}


@pytest.mark.requirement("GW-02")
@pytest.mark.parametrize(
    ("condition", "reads"),
    [
        ("input.resource.id", set()),
        ("input.context.session.step > 1", set()),
        ("input.context.counters.session.calls > 1", SESSIONS),
        ('input.context["counters"]["session"].calls > 1', SESSIONS),
        ("input.context.counters[_].calls > 1", COUNTERS),
        ("some each in input.context.counters", COUNTERS),
        ("input.context.network.client_ip", set()),
        ('"10.0.0.1" in input.context.network.resolved_ips', {"addresses"}),
        ("count(input.context.network) > 0", {"addresses"}),
        ("input.context", FACTS),
        ('object.get(input, ["context", "counters"], {})', FACTS),
        ('some name in ["context"]; input[name]', FACTS),
    ],
)
def test_a_bundle_reads_what_its_rules_refer_to_and_rather_more(condition, reads):
    assert reads_of(f"decide := {ALLOW} if {{ {condition} }}") == reads


def test_what_an_import_or_a_function_reads_is_read_too():
    aliased = f"decide := {ALLOW} if c.minute.calls > 1"
    assert reads_of(aliased, "import input.context.counters as c") == {"counters.minute"}
    inside = f"f(x) if x == input.context.counters.day.refused\n\ndecide := {ALLOW} if f(1)"
    assert reads_of(inside) == {"counters.day"}
    equated = f"decide := {ALLOW} if {{ input.context.counters.hour.calls = 1; c = 2 }}"
    both = {"counters.hour", "counters.day"}
    assert reads_of(equated, "import input.context.counters.day.calls as c") == both


def test_a_document_that_lacks_a_fact_that_is_read_is_known():
    whole = {"context": {"counters": {"session": {}}, "network": {"resolved_ips": []}}}
    assert not missing(whole, frozenset({"counters.session", "addresses"}))
    assert missing(whole, frozenset({"counters.hour"}))
    assert missing({"context": {"network": {}}}, frozenset({"addresses"}))
    assert missing({}, frozenset(SESSIONS)) and not missing({}, frozenset())


@pytest.mark.requirement("GW-02")
def test_counters_say_what_was_made_and_refused_and_only_those_that_are_read(tmp_path):
    policy = Asks("counters.session", "counters.hour")

    async def scenario(each):
        for order, key in (("17", "a"), ("s400", "b"), ("18", None)):
            await each.refund(order, key=key, traceparent=TRACE)
        other = each.credential("agent", name="other")
        await each.ask("GET", "/payments/orders/1", credential=other)
        await each.ask("GET", "/payments/orders/1", traceparent=TRACE.replace("4bf9", "4bf0"))
        await each.refund("19", key="c", traceparent=TRACE)
        last = policy.asked[-1]["context"]["counters"]
        assert last == {
            "session": {
                "calls": 1,  # of the two that were sent one had no effect
                "refused": 1,  # without a key
                "classes": {"read": 0, "write": 0, "irreversible": 1},
                "tools": {"issue_refund": 1},
            },
            "hour": {
                "calls": 2,
                "refused": 1,
                "classes": {"read": 1, "write": 0, "irreversible": 1},
                "tools": {"get_order": 1, "issue_refund": 1},
            },
        }
        # A call that names no session falls under those of its agent that name none.
        await each.ask("GET", "/payments/orders/1")
        await each.ask("GET", "/payments/orders/2")
        assert policy.asked[-1]["context"]["counters"]["session"]["tools"] == {"get_order": 1}

    run(tmp_path, scenario, policy)


def test_what_is_not_read_is_neither_looked_for_nor_told(tmp_path):
    policy, looked = Asks(), []

    class Watched:
        def __init__(self, ledger):
            self._ledger = ledger

        def __getattr__(self, name):
            if name == "counted":
                looked.append(name)
            return getattr(self._ledger, name)

    async def addresses(upstream):
        looked.append(upstream)
        return ()

    async def scenario(each):
        assert (await each.ask("GET", "/payments/orders/1")).status == 200
        context = policy.asked[-1]["context"]
        assert context["counters"] == {} and "resolved_ips" not in context["network"]
        assert looked == []

    wrap = lambda ports: structs.replace(ports, ledger=Watched(ports.ledger), addresses=addresses)  # noqa: E731
    run(tmp_path, scenario, policy, wrap=wrap)


@pytest.mark.requirement("GW-02")
def test_trust_labels_owner_and_connection_are_not_the_agents_own_words(tmp_path):
    policy = Asks()

    async def scenario(each):
        headers = {"X_Forwarded_For": "6.6.6.6", "Forwarded": "for=6.6.6.6", "X_Trust": "full"}
        await each.ask("GET", "/payments/orders/1", **headers)
        said = policy.asked[-1]
        subject = said["subject"]["properties"]
        assert (subject["trust"], subject["labels"], subject["owner"]) == (None, {}, "")
        assert said["context"]["network"]["client_ip"] == "127.0.0.1"
        assert said["context"]["on_behalf_of"] is None
        assert said["context"]["gateway"] == {"version": 1, "policy_revision": "allow-all"}
        assert (said["http"]["scheme"], said["http"]["host"]) == ("http", "127.0.0.1")
        principal = said["subject"]["id"]
        each.gateway._settings.subjects[principal] = Subject(
            id=principal, trust="restricted", labels={"team": "payments"}
        )
        await each.ask("GET", "/payments/orders/1")
        subject = policy.asked[-1]["subject"]["properties"]
        assert (subject["trust"], subject["labels"]) == ("restricted", {"team": "payments"})

    run(tmp_path, scenario, policy, settings=Settings(accept_ephemeral_ledger=True, subjects={}))


@pytest.mark.requirement("GW-02")
@pytest.mark.row("T62")
def test_the_addresses_that_policy_judged_are_the_ones_that_are_dialled(tmp_path):
    policy, answers = Asks("addresses"), iter([("127.0.0.1",), ("127.0.0.9",), ("127.0.0.9",)])

    async def addresses(_upstream):
        return next(answers)

    async def scenario(each):
        assert (await each.ask("GET", "/payments/orders/1")).status == 200
        assert policy.asked[-1]["context"]["network"]["resolved_ips"] == ["127.0.0.1"]
        moved = await each.ask("GET", "/payments/orders/1")  # another one: nothing listens there
        assert (moved.status, moved.json["code"]) == (502, "upstream_unreachable")
        assert each.shop.requests == 1

    wrap = lambda ports: structs.replace(ports, addresses=addresses)  # noqa: E731
    run(tmp_path, scenario, policy, wrap=wrap)


def test_an_upstream_without_an_address_is_judged_as_having_none_and_is_not_dialled(tmp_path):
    policy = Asks("addresses")

    async def scenario(each):
        reply = await each.ask("GET", "/payments/orders/1")
        assert (reply.status, reply.json["code"]) == (502, "upstream_unreachable")
        assert policy.asked[-1]["context"]["network"]["resolved_ips"] == []

    run(tmp_path, scenario, policy, upstream_url="http://nowhere.invalid:1")


def test_for_whom_an_agent_acts_is_part_of_the_action_and_changes_no_other():
    action = Action(
        tenant="p", agent="a", tool="t", upstream="u", class_="write", method="POST", path="/"
    )
    assert "on_behalf_of" not in counted(action)
    hashes = {action_hash(structs.replace(action, on_behalf_of=who)) for who in (None, "a", "b")}
    assert len(hashes) == 3


def test_no_address_given_is_none_that_is_dialled():
    async def main():
        egress = Egress()
        target = Target(name="t", url="http://127.0.0.1:1", allow_cidrs=("127.0.0.0/8",))
        with pytest.raises(EgressFailed) as failed:
            await egress.request(target, "GET", "/", deadline_ns=10**9, addresses=())
        await egress.close()
        return failed.value

    assert asyncio.run(main()).sent is False


def test_a_policy_that_began_to_read_a_fact_meanwhile_gives_no_answer(tmp_path):
    class Changes(Asks):
        async def decide(self, document):
            self.reads = frozenset({"counters.hour"}) if not self.asked else self.reads
            return await super().decide(document)

    async def scenario(each):
        first = await each.ask("GET", "/payments/orders/1")
        assert (first.status, first.json["code"]) == (503, "policy_error")
        assert (await each.ask("GET", "/payments/orders/1")).status == 200

    run(tmp_path, scenario, Changes())
