"""Probes against a real HTTP service on this machine."""

import asyncio
import socket

import pytest
from aiohttp import web

from processors.model.step import Step, Tool
from processors.model.trace import AgentTrace
from processors.verify.outcome import judge
from sidecar.egress.client import Egress
from sidecar.egress.rules import Target
from sidecar.probe.config import HttpProbe, Probe
from sidecar.probe.driver import AT_ONCE, Askers, run
from sidecar.probe.http import HttpAsker, ProbeEndpoint
from sidecar.probe.plan import load, plan

TRACE = AgentTrace(
    trace_id="e" * 32,
    final_output="Your refund has been issued.",
    steps=(
        Step(
            step_id="s1",
            kind="tool_call",
            name="issue_refund",
            status="ok",
            tool=Tool(name="issue_refund", arguments={"order_id": "A-1", "amount": 50}),
        ),
    ),
)


class Shop:
    """A service with one order; ``refunded`` is its state, ``seen`` the requests it got."""

    def __init__(self, answers):
        self.answers = list(answers)
        self.seen = []

    async def handle(self, request):
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.seen.append((request.method, request.path_qs, headers))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, web.Response):
            return web.Response(status=answer.status, headers=answer.headers)
        if answer == "hang":
            await asyncio.Event().wait()
        return web.json_response(answer)

    async def __aenter__(self):
        app = web.Application()
        app.router.add_route("*", "/{tail:.*}", self.handle)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *_):
        await self._runner.cleanup()


def askers(egress, **endpoints):
    http = HttpAsker(egress, endpoints)
    return Askers(http=http, sql=http, mcp=http)


def asked(port, *, allow=("127.0.0.0/8",), credential=None, trace=TRACE, url=False, **fields):
    base = {
        "name": "refund_in_ledger",
        "when": 'step.tool.name == "issue_refund"',
        "http": HttpProbe(
            url=f"http://127.0.0.1:{port}/orders/{{arguments.order_id}}", allow_cidrs=allow
        )
        if url
        else HttpProbe(upstream="shop", get="/orders/{arguments.order_id}"),
        "expect": "response.json.refunded == arguments.amount",
        "deadline": "5s",
    }

    async def scenario():
        egress = Egress()
        endpoint = ProbeEndpoint(
            target=Target(name="shop", url=f"http://127.0.0.1:{port}/api", allow_cidrs=allow),
            credential_header="Authorization" if credential else None,
            credential_file=credential,
        )
        try:
            requests = plan(trace, load([Probe(**{**base, **fields})]))
            return await run(requests, askers(egress, shop=endpoint))
        finally:
            await egress.close()

    return scenario()


def evidence(answers, **fields):
    async def scenario():
        async with Shop(answers) as shop:
            (found,) = await asked(shop.port, **fields)
            return found, shop.seen

    return asyncio.run(scenario())


@pytest.mark.requirement("OUT-02")
def test_state_that_is_as_expected_makes_a_verified_success():
    found, seen = evidence([{"refunded": 50}])
    assert found.held is True and found.data == {"http_status": 200, "attempts": 1}
    method, path, headers = seen[0]
    assert (method, path) == ("GET", "/api/orders/A-1")
    assert headers["cache-control"] == "no-cache"
    whole = AgentTrace(trace_id="e" * 32, steps=TRACE.steps, evidence=(found,))
    judged = judge(whole, tools={}, now_ns=found.observed_ns)
    assert judged.outcome.status == "verified_success"


@pytest.mark.requirement("OUT-02")
@pytest.mark.requirement("OUT-03")
def test_state_that_is_not_contradicts_what_the_agent_said():
    found, _ = evidence([{"refunded": 0}])
    assert (found.held, found.detail) == (False, "expectation_not_met")
    whole = AgentTrace(
        trace_id="e" * 32,
        steps=TRACE.steps,
        final_output=TRACE.final_output,
        evidence=(found,),
    )
    judged = judge(whole, tools={}, now_ns=found.observed_ns)
    assert [item.code for item in judged.outcome.contradictions] == ["claimed_success_state_failed"]


@pytest.mark.requirement("OUT-02")
def test_state_that_settles_late_is_waited_for():
    found, seen = evidence(
        [{"refunded": 0}, web.Response(status=503), {"refunded": 50}], until="20s"
    )
    assert found.held is True and found.data["attempts"] == 3 and len(seen) == 3


def test_state_that_never_settles_is_told_once_the_time_is_over():
    found, seen = evidence([{"refunded": 0}], until="200ms")
    assert found.held is False and found.data["attempts"] == len(seen) > 1


def test_an_address_of_its_own_needs_no_upstream():
    found, seen = evidence([{"refunded": 50}], url=True)
    assert found.held is True and seen[0][1] == "/orders/A-1"


def test_the_upstreams_credential_goes_along_and_its_absence_is_unknown(tmp_path):
    secret = tmp_path / "credential"
    secret.write_text("Bearer tool-side\n")
    found, seen = evidence([{"refunded": 50}], credential=str(secret))
    assert found.held is True and seen[0][2]["authorization"] == "Bearer tool-side"
    found, seen = evidence([{"refunded": 50}], credential=str(tmp_path / "gone"))
    assert (found.held, found.detail, seen) == (None, "credential_unreadable", [])


def test_a_redirect_is_not_followed():
    moved = web.Response(status=302, headers={"Location": "http://127.0.0.1:1/"})
    found, seen = evidence([moved])
    assert (found.held, found.detail, len(seen)) == (None, "expect_without_value", 1)


def test_a_service_that_hangs_is_unknown_at_the_deadline():
    found, _ = evidence(["hang"], deadline="200ms")
    assert (found.held, found.detail) == (None, "no_whole_answer")


def test_a_service_that_is_not_there_is_unknown():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, never listening: connecting is refused
        (found,) = asyncio.run(asked(taken.getsockname()[1]))
    assert (found.held, found.detail) == (None, "unreachable")


def test_an_address_that_was_not_allowed_is_never_dialled():
    found, seen = evidence([{"refunded": 50}], allow=())
    assert (found.held, found.detail, seen) == (None, "unreachable", [])


def test_an_unknown_upstream_and_a_refused_value_are_unknown_without_a_request():
    found, seen = evidence([{}], http=HttpProbe(upstream="other", get="/x"))
    assert (found.held, found.detail, seen) == (None, "no_such_upstream", [])
    bad = Step(
        step_id="s1",
        kind="tool_call",
        status="ok",
        tool=Tool(name="issue_refund", arguments={"order_id": "../../admin"}),
    )
    found, seen = evidence([{}], trace=AgentTrace(trace_id="e" * 32, steps=(bad,)))
    assert (found.held, found.detail, seen) == (None, "url_value_refused", [])


def test_many_probes_keep_their_order():
    steps = tuple(
        Step(
            step_id=f"s{n}",
            kind="tool_call",
            status="ok",
            tool=Tool(name="issue_refund", arguments={"order_id": f"A-{n}", "amount": 50}),
        )
        for n in range(30)
    )

    async def scenario():
        async with Shop([{"refunded": 50}]) as shop:
            return await asked(shop.port, trace=AgentTrace(trace_id="e" * 32, steps=steps))

    found = asyncio.run(scenario())
    assert [item.step_id for item in found] == [f"s{n}" for n in range(30)]


@pytest.mark.requirement("OUT-02")
def test_what_holds_must_stay_so_for_as_long_as_it_is_told():
    flickering = [{"refunded": 50}, {"refunded": 0}, {"refunded": 50}]
    found, seen = evidence(flickering, until="5s", stable_for="200ms")
    assert found.held is True
    assert len(seen) >= 4, "the first good answer was not the last word"


def test_what_holds_too_late_to_be_sure_of_is_unknown():
    found, _ = evidence([{"refunded": 0}] * 4 + [{"refunded": 50}], stable_for="600ms")
    assert (found.held, found.detail) == (None, "not_stable_yet")


def test_many_traces_share_the_seats_of_one_upstream():
    going, most = 0, 0

    class Counted(HttpAsker):
        async def ask(self, request, attempts, now):
            nonlocal going, most
            going += 1
            most = max(most, going)
            try:
                return await super().ask(request, attempts, now)
            finally:
                going -= 1

    async def scenario():
        async with Shop([{"refunded": 50}]) as shop:
            egress = Egress()
            target = Target(
                name="shop", url=f"http://127.0.0.1:{shop.port}", allow_cidrs=("127.0.0.0/8",)
            )
            http = Counted(egress, {"shop": ProbeEndpoint(target=target)})
            shared = Askers(http=http, sql=http, mcp=http)
            probe = Probe(
                name="p",
                when="true",
                http=HttpProbe(upstream="shop", get="/o/{arguments.order_id}"),
                expect="response.json.refunded == arguments.amount",
            )
            requests = plan(TRACE, load([probe]))
            try:
                return await asyncio.gather(*(run(requests, shared) for _ in range(40)))
            finally:
                await egress.close()

    found = asyncio.run(scenario())
    assert all(item.held for (item,) in found)
    assert 1 < most <= AT_ONCE
