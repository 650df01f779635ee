"""Signed webhooks of approvals: told in order, at least once, and believed in nothing."""

import asyncio
import base64
import hashlib
import hmac
import json
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from gateway_rig import rig
from ledger_rig import BACKENDS, NOW, asked, ballot, ledgers, signing_ledger

from sidecar import clock
from sidecar.egress.client import Egress
from sidecar.export.retry import Pauses
from sidecar.gateway.config import Approvals
from sidecar.gateway.notify import message
from sidecar.gateway.notify.driver import AGE_MAX_NS, Notices
from sidecar.gateway.webhook import Webhook
from sidecar.store.ledger import AuditEntry
from sidecar.telemetry import REGISTRY

SECRET = b"s" * 32
QUICK = Pauses(initial_ns=10**6, max_ns=10**7)
SECONDS = 20


def whsec(secret=SECRET):
    return "whsec_" + base64.b64encode(secret).decode()


class Receiver:
    """Takes messages; ``answers`` are the statuses of the next ones, then 204."""

    def __init__(self):
        self.got = []
        self.answers = []
        self.body = b""
        self.location = None
        self._came = asyncio.Event()

    async def handle(self, request):
        self.got.append((request.path_qs, dict(request.headers), await request.read()))
        self._came.set()
        status = self.answers.pop(0) if self.answers else 204
        headers = {"Location": self.location} if self.location else {}
        return web.Response(status=status, body=self.body, headers=headers)

    async def until(self, count):
        async with asyncio.timeout(SECONDS):
            while len(self.got) < count:
                self._came.clear()
                await self._came.wait()
        return [json.loads(body) for _, _, body in self.got]


@asynccontextmanager
async def told(ledger, folder, *, now_ns=clock.now_ns, egress=None, pages="", port=None, **fields):
    """A receiver, and notices that tell it of a ledger."""
    receiver = Receiver()
    runner = web.ServerRunner(web.Server(receiver.handle))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    secret = folder / "webhook-secret"
    if not secret.exists():
        secret.write_text(whsec())
    hook = Webhook(
        **{
            "name": "ops", "url": f"http://127.0.0.1:{port or runner.addresses[0][1]}/in?a=b",
            "secret_file": str(secret), "allow_cidrs": ("127.0.0.1/32",), **fields,
        }
    )  # fmt: skip
    assert list(hook.problems()) == []
    way = egress or Egress()
    notices = Notices(ledger, way, [hook], pages=pages, pauses=QUICK, now_ns=now_ns)
    await notices.start()
    try:
        yield receiver
    finally:
        await notices.stop()
        await way.close()
        await runner.cleanup()


@pytest.fixture(params=BACKENDS)
def store(request, tmp_path):
    with ledgers(request.param, tmp_path) as made:
        yield made


def run(store, scenario):
    async def main():
        with signing_ledger(store) as opened:
            async with asyncio.timeout(60):
                await scenario(opened)

    asyncio.run(main())


async def all_told(opened):
    """Nothing is left to tell."""
    while opened.told_place("ops") < opened.approval_entries(0, 99)[-1].seq:
        await asyncio.sleep(0.005)


def counted(result):
    labels = {"webhook": "ops", "result": result}
    return REGISTRY.get_sample_value("sidecar_webhook_attempts_total", labels) or 0.0


@pytest.mark.row("CVE-2026-110278")
@pytest.mark.requirement("APR-01")
def test_a_webhook_is_told_of_a_request_and_its_end_signed_and_without_content(store, tmp_path):
    async def scenario(opened):
        before = counted("delivered")
        async with told(opened, tmp_path, now_ns=lambda: NOW, pages="https://twin.example") as hook:
            await opened.ask_approval(asked())
            assert await opened.vote(ballot(reason="hush hush")) is None
            first, second = await hook.until(2)
            await all_told(opened)
        assert first["type"] == "approval.requested"
        assert first["data"]["status"] == "pending"
        assert first["data"]["page"] == "https://twin.example/approvals/ap?project=p"
        assert (second["type"], second["data"]["status"]) == ("approval.resolved", "approved")
        assert first["data"]["seq"] < second["data"]["seq"]
        path, headers, body = hook.got[0]
        assert path == "/in?a=b"
        signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
        mark = base64.b64encode(hmac.digest(SECRET, signed, hashlib.sha256)).decode()
        assert headers["webhook-signature"] == f"v1,{mark}"
        assert headers["webhook-timestamp"] == str(NOW // 10**9)
        assert headers["webhook-id"] != hook.got[1][1]["webhook-id"]
        everything = b"".join(body for _, _, body in hook.got)
        assert b"refund" not in everything and b"hush" not in everything, "no content, no reason"
        assert counted("delivered") == before + 2

    run(store, scenario)


@pytest.mark.requirement("APR-01")
def test_what_was_not_taken_is_told_again_with_the_same_id_and_counted(store, tmp_path):
    async def scenario(opened):
        before = counted("failed")
        async with told(opened, tmp_path, now_ns=lambda: NOW) as hook:
            hook.answers = [503, 429, 500]
            await opened.ask_approval(asked())
            await hook.until(4)
        assert len({headers["webhook-id"] for _, headers, _ in hook.got}) == 1
        assert len({body for _, _, body in hook.got}) == 1
        assert counted("failed") == before + 3

    run(store, scenario)


@pytest.mark.requirement("APR-01")
def test_no_answer_of_a_webhook_approves_anything(store, tmp_path):
    async def scenario(opened):
        async with told(opened, tmp_path, now_ns=lambda: NOW) as hook:
            hook.answers = [200] * 9
            hook.body = json.dumps({"decision": "approve", "status": "approved"}).encode()
            await opened.ask_approval(asked())
            await hook.until(1)
            await opened.ask_approval(asked("b", key_hash="b"))
            await hook.until(2)  # the first one's answer has been dealt with
            assert opened.find_approval("ap").status == "pending"
            assert opened.find_approval("ap").votes == ()

    run(store, scenario)


def test_a_refused_message_is_given_up_and_the_next_is_told(store, tmp_path):
    async def scenario(opened):
        before = counted("refused")
        async with told(opened, tmp_path, now_ns=lambda: NOW) as hook:
            hook.answers, hook.location = [400, 302], "http://127.0.0.1:1/"
            for name in ("a", "b", "c"):
                await opened.ask_approval(asked(name, key_hash=name))
            got = await hook.until(3)
        assert [each["data"]["approval_id"] for each in got] == ["a", "b", "c"]
        assert counted("refused") == before + 2, "a redirect is followed nowhere"

    run(store, scenario)


@pytest.mark.requirement("APR-01")
def test_a_restart_goes_on_where_it_stood_and_tells_no_history(store, tmp_path):
    async def scenario(opened):
        await opened.ask_approval(asked("old", key_hash="old"))
        async with told(opened, tmp_path, now_ns=lambda: NOW) as hook:
            await opened.ask_approval(asked("a", key_hash="a"))
            await hook.until(1)
            await all_told(opened)
        await opened.ask_approval(asked("b", key_hash="b"))
        async with told(opened, tmp_path, now_ns=lambda: NOW) as again:
            got = await again.until(1)
        names = [json.loads(body)["data"]["approval_id"] for _, _, body in hook.got]
        assert names == ["a"] and got[0]["data"]["approval_id"] == "b"

    run(store, scenario)


@pytest.mark.requirement("APR-02")
def test_time_resolves_what_nobody_decides_and_the_webhook_is_told(store, tmp_path):
    async def scenario(opened):
        now = NOW
        async with told(opened, tmp_path, now_ns=lambda: now, events=("resolved",)) as hook:
            now = NOW + 2000
            await opened.ask_approval(asked())
            (got,) = await hook.until(1)
        assert got["data"]["status"] == "expired"
        assert opened.find_approval("ap").status == "expired"

    run(store, scenario)


def test_events_and_projects_are_chosen(store, tmp_path):
    async def scenario(opened):
        async with told(
            opened, tmp_path, now_ns=lambda: NOW, events=("vote",), project="q"
        ) as hook:
            await opened.ask_approval(asked())
            assert await opened.vote(ballot()) is None
            await opened.ask_approval(asked("b", project="q", approvers_min=2))
            assert await opened.vote(ballot("deny", approval_id="b", project="q")) is None
            (got,) = await hook.until(1)
        assert got["type"] == "approval.vote"
        assert (got["data"]["decision"], got["data"]["voter"]) == ("deny", "v")
        assert got["data"]["project"] == "q"

    run(store, scenario)


def test_a_message_too_old_to_matter_is_dropped_and_counted(tmp_path):
    async def scenario(opened):
        before = counted("too_old")
        late = NOW + AGE_MAX_NS
        async with told(opened, tmp_path, now_ns=lambda: late) as hook:
            await opened.ask_approval(asked(expires_at_ns=late + 99))
            await opened.ask_approval(
                asked("b", key_hash="b", requested_at_ns=late, expires_at_ns=late + 99)
            )
            (got,) = await hook.until(1)
        assert got["data"]["approval_id"] == "b" and counted("too_old") == before + 1

    with ledgers("memory", tmp_path) as store:
        run(store, scenario)


def test_a_secret_that_comes_later_is_used_and_two_sign_twice(tmp_path):
    async def scenario(opened):
        before = counted("failed")
        file = tmp_path / "webhook-secret"
        file.write_text("nonsense")
        async with told(opened, tmp_path, now_ns=lambda: NOW) as hook:
            await opened.ask_approval(asked())
            async with asyncio.timeout(SECONDS):
                while counted("failed") == before:
                    await asyncio.sleep(0.005)
            assert hook.got == [], "nothing leaves unsigned"
            file.write_text(f"{whsec(b'n' * 24)}\n{whsec()}\n")
            await hook.until(1)
        _, headers, body = hook.got[0]
        signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
        marks = [
            "v1," + base64.b64encode(hmac.digest(secret, signed, hashlib.sha256)).decode()
            for secret in (b"n" * 24, SECRET)
        ]
        assert headers["webhook-signature"].split(" ") == marks

    with ledgers("memory", tmp_path) as store:
        run(store, scenario)


def test_a_webhook_goes_through_egress_which_may_say_no(tmp_path):
    async def scenario(opened):
        before = counted("failed")
        receiver = Receiver()
        runner = web.ServerRunner(web.Server(receiver.handle))
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        port = runner.addresses[0][1]
        async with told(
            opened, tmp_path, now_ns=lambda: NOW, port=port, egress=Egress(own_ports={port})
        ):
            await opened.ask_approval(asked())
            async with asyncio.timeout(SECONDS):
                while counted("failed") < before + 2:
                    await asyncio.sleep(0.005)
        await runner.cleanup()
        assert receiver.got == [], "the sidecar's own port is dialled for nobody"

    with ledgers("memory", tmp_path) as store:
        run(store, scenario)


@pytest.mark.requirement("APR-01")
def test_the_agents_token_is_never_in_a_message(tmp_path):
    async def main():
        async with rig(tmp_path) as each:
            async with told(
                each.ledger, tmp_path, events=("requested", "vote", "resolved")
            ) as hook:
                token = await each.approved_token("17", key="a")
                await hook.until(3)
            assert token.encode() not in b"".join(body for _, _, body in hook.got)

    asyncio.run(main())


@pytest.mark.parametrize(
    "text",
    ["", "hunter2", "whsec_", "whsec_!!!!", "whsec_" + base64.b64encode(b"x" * 23).decode(),
     "whsec_" + base64.b64encode(b"x" * 65).decode(), "\n".join([whsec()] * 5)],
)  # fmt: skip
def test_what_is_no_secret_is_refused_and_not_repeated(text):
    with pytest.raises(ValueError, match="secret") as caught:
        message.read_secrets(text)
    kept = text.removeprefix("whsec_")[:8]
    assert not kept or kept not in str(caught.value)


@pytest.mark.row("CVE-2026-110278")
def test_the_signature_is_standard_webhooks():
    # The example of the specification (standard-webhooks 1.0.0, "signature scheme").
    secret = message.read_secrets("whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD")
    given = message.headers(
        secret, "msg_27UH4WbU6Z5A5EzD8u03UvzRbpk", 1649367553,
        b'{"email":"test@example.com","username":"test_user"}',
    )  # fmt: skip
    assert dict(given)["webhook-signature"] == "v1,tZ1I4/hDygAJgO5TYxiSd6Sd0kDW6hPenDe+bTa3Kkw="


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"name": "a b"}, "name"), ({"url": "ftp://x"}, "url"),
        ({"secret_file": ""}, "secret_file"),
        ({"url": "http://10.0.0.1/"}, "url"), ({"url": "https://x/#a"}, "url"),
        ({"events": ()}, "events"), ({"timeout": "soon"}, "timeout"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_webhook_is_said(fields, path):
    good = {"name": "ops", "url": "https://hooks.example/x", "secret_file": "s"}
    rules = Approvals(webhooks=(Webhook(**(good | fields)),))
    assert [each.path for each in rules.problems()] == [f"webhooks.0.{path}"]
    twice = Approvals(webhooks=(Webhook(**good), Webhook(**good)))
    assert [each.path for each in twice.problems()] == ["webhooks.1.name"]


def test_an_id_is_the_entrys():
    entry = AuditEntry(seq=1, at_ns=1, project="p", kind="k", body="{}", prev="", hash="sha256:ab")
    assert message.message_id(entry) == "msg_ab"
