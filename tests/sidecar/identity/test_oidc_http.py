"""Providers over HTTP: a real one end to end, and one that errs, lies, is slow or is flooded."""

import asyncio
import json
import time
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from joserfc import jwt
from joserfc.jwk import RSAKey

from sidecar import clock
from sidecar.egress.client import Egress
from sidecar.identity.config import ClaimGrant, Provider
from sidecar.identity.http import KeySource, OidcTokens
from sidecar.identity.keys import ProviderUnavailable, Unauthenticated
from tests.oidc_rig import real_provider

SECOND = 10**9
LOCAL = ("127.0.0.0/8", "::1/128")


def configured(issuer, **changes):
    given = {
        "name": "corp", "issuer": issuer, "audience": "web", "allow_cidrs": LOCAL,
        "grants": (
            ClaimGrant(claim="sub", value="alice", project="p", role="reviewer"),
            ClaimGrant(claim="email", value="refund-bot@example.com", project="p", kind="agent"),
            ClaimGrant(claim="email", value="eve@example.com", project="p", role="owner"),
        ),
    } | changes  # fmt: skip
    return Provider(**given)


class Judge:
    """Tokens of one provider; ``wait`` moves the clock that fetching goes by."""

    def __init__(self, provider, own_ports=frozenset()):
        self.now = 0
        self.egress = Egress(own_ports=own_ports)
        self.source = KeySource(provider, self.egress, lambda: self.now)
        self.tokens = OidcTokens([(provider, self.source)], clock.now_ns, {})

    def wait(self, seconds):
        self.now += seconds * SECOND

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        await self.tokens.stop()
        await self.egress.close()


@pytest.mark.requirement("REC-05")
def test_a_real_providers_tokens_are_whom_they_are_granted_and_its_new_key_is_found(tmp_path):
    async def run():
        async with (
            real_provider(tmp_path) as provider,
            Judge(configured(provider.issuer)) as judge,
        ):
            old = await provider.code_token("alice")
            alice = await judge.tokens.principal(old)
            assert (alice.id, alice.kind, alice.role) == ("oidc:corp:alice", "approver", "reviewer")
            bot = await judge.tokens.principal(await provider.implicit_token("refund-bot"))
            assert (bot.kind, bot.project) == ("agent", "p")
            for stranger in (
                await provider.code_token("mallory"),  # granted nothing
                await provider.implicit_token("eve"),  # an address that nobody verified
                await provider.code_token("alice", client="api"),  # for somebody else
            ):
                with pytest.raises(Unauthenticated):
                    await judge.tokens.principal(stranger)
            assert not judge.tokens.reads(await provider.service_token())
            provider.stop()
            await provider.start()  # with a new key
            new = await provider.code_token("alice")
            judge.wait(10)
            assert (await judge.tokens.principal(new)).id == alice.id
            with pytest.raises(Unauthenticated):
                await judge.tokens.principal(old)

    asyncio.run(run())


class Provides:
    """A provider of the test's own, which can lie; it counts what it is asked."""

    def __init__(self):
        self.key = RSAKey.generate_key(2048, {"kid": "k1"})
        self.asked = []
        self.discovery = {}
        self.keys = None
        self.status = 200

    async def answer(self, request):
        self.asked.append(request.path)
        if self.status != 200:
            return web.Response(status=self.status, headers={"Location": "/keys"})
        if request.path.endswith("openid-configuration"):
            given = {"issuer": self.issuer, "jwks_uri": self.issuer + "/keys?of=all"}
            return web.json_response(given | self.discovery)
        keys = {"keys": [self.key.as_dict(private=False)]} if self.keys is None else self.keys
        return web.Response(body=keys if isinstance(keys, bytes) else json.dumps(keys).encode())

    def token(self, **header):
        payload = {"iss": self.issuer, "aud": "web", "sub": "alice", "exp": int(time.time()) + 60}
        return jwt.encode({"alg": "RS256", "kid": self.key.kid} | header, payload, self.key)


@asynccontextmanager
async def providing():
    made = Provides()
    runner = web.ServerRunner(web.Server(made.answer))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    made.port = runner.addresses[0][1]
    made.issuer = f"http://127.0.0.1:{made.port}"
    try:
        yield made
    finally:
        await runner.cleanup()


def over(scenario, **changes):
    async def run():
        async with providing() as made, Judge(configured(made.issuer, **changes)) as judge:
            await scenario(made, judge)

    asyncio.run(run())


def test_keys_are_asked_for_once_by_all_who_want_them_and_then_kept():
    async def scenario(made, judge):
        found = await asyncio.gather(*(judge.tokens.principal(made.token()) for _ in range(20)))
        assert {each.id for each in found} == {"oidc:corp:alice"}
        judge.wait(9 * 60)
        await judge.tokens.principal(made.token())
        assert made.asked == ["/.well-known/openid-configuration", "/keys"]

    over(scenario)


@pytest.mark.requirement("REC-05")
def test_a_flood_of_unknown_keys_reaches_the_provider_once_in_ten_seconds():
    async def scenario(made, judge):
        for turn in range(1, 4):
            for number in range(50):
                with pytest.raises(Unauthenticated):
                    await judge.tokens.principal(made.token(kid=f"../{turn}/{number}"))
            assert made.asked.count("/keys") == turn
            judge.wait(10)

    over(scenario)


def test_a_new_key_is_found_and_one_that_was_taken_out_counts_no_more():
    async def scenario(made, judge):
        old = made.token()
        await judge.tokens.principal(old)
        made.key = RSAKey.generate_key(2048, {"kid": "k2"})
        with pytest.raises(Unauthenticated):  # asked a moment ago
            await judge.tokens.principal(made.token())
        judge.wait(10)
        await judge.tokens.principal(made.token())
        with pytest.raises(Unauthenticated):
            await judge.tokens.principal(old)

    over(scenario)


def test_known_keys_serve_for_a_day_while_the_provider_cannot_be_asked():
    async def scenario(made, judge):
        await judge.tokens.principal(made.token())
        made.status = 503
        for _ in range(3):
            judge.wait(7 * 3600)
            await judge.tokens.principal(made.token())
        judge.wait(7 * 3600)
        with pytest.raises(ProviderUnavailable):
            await judge.tokens.principal(made.token())
        made.status = 200
        judge.wait(10)
        await judge.tokens.principal(made.token())

    over(scenario)


LIES = {
    "another issuer": {"discovery": {"issuer": "https://id.example"}},
    "no keys' place": {"discovery": {"jwks_uri": None}},
    "keys in the metadata service": {"discovery": {"jwks_uri": "http://169.254.169.254/keys"}},
    "keys in a private network": {"discovery": {"jwks_uri": "http://10.0.0.1/keys"}},
    "keys in a file": {"discovery": {"jwks_uri": "file:///etc/passwd"}},
    "keys with a password": {"discovery": {"jwks_uri": "http://a:b@127.0.0.1/keys"}},
    "no JSON": {"keys": b"<html>"},
    "deep JSON": {"keys": b"[" * 100_000},
    "no key set": {"keys": {"keys": "x"}},
    "no key": {"keys": {"keys": []}},
    "a shared secret": {"keys": {"keys": [{"kty": "oct", "k": "AAAA", "kid": "k1"}]}},
    "an error": {"status": 500},
    "a redirect": {"status": 302},
}


@pytest.mark.requirement("SEC-01")
@pytest.mark.parametrize("lie", LIES)
def test_a_provider_that_errs_or_lies_opens_nothing(lie):
    async def scenario(made, judge):
        for name, value in LIES[lie].items():
            setattr(made, name, value)
        with pytest.raises(ProviderUnavailable) as caught:
            await judge.tokens.principal(made.token())
        assert "alice" not in caught.value.text()

    over(scenario)


def test_the_sidecars_own_ports_are_no_provider():
    async def run():
        async with (
            providing() as made,
            Judge(configured(made.issuer), own_ports={made.port}) as judge,
        ):
            with pytest.raises(ProviderUnavailable):
                await judge.tokens.principal(made.token())
            assert made.asked == []

    asyncio.run(run())


def test_a_provider_that_is_not_configured_is_not_asked():
    async def scenario(made, judge):
        made.issuer += "/"
        with pytest.raises(Unauthenticated):
            await judge.tokens.principal(made.token())
        assert made.asked == []

    over(scenario)


def test_keys_may_be_named_without_discovery():
    async def run():
        async with providing() as made:
            provider = configured(made.issuer, jwks_url=f"{made.issuer}/keys")
            async with Judge(provider) as judge:
                await judge.tokens.principal(made.token())
            assert made.asked == ["/keys"]

    asyncio.run(run())
