"""Signing in to the approval pages at an identity provider: code flow, PKCE, one browser, once."""

import asyncio
import base64
import hashlib
import re
from contextlib import asynccontextmanager
from urllib.parse import parse_qs, urlsplit

import pytest
from aiohttp import web
from control_rig import control, pending
from joserfc import jwt
from joserfc.jwk import ECKey
from test_approval_pages import Browser, form_of, text

from sidecar import clock
from sidecar.control.http import ControlServer
from sidecar.egress.client import Egress
from sidecar.identity.config import ClaimGrant, Login, Provider
from sidecar.identity.http import KeySource, OidcTokens
from sidecar.identity.login.http import CodeLogin
from sidecar.identity.login.rules import endpoints
from sidecar.identity.oidc import is_token

PAGES = "http://people.example"
SECRET = "client-secret"


class Idp:
    """A provider: ``grant`` a code for a person; who has the verifier exchanges it, once."""

    def __init__(self):
        self.key = ECKey.generate_key("P-256", {"kid": "k1", "use": "sig", "alg": "ES256"})
        self.codes = {}
        self.claims = {}
        self.asked = []

    async def start(self):
        self._runner = web.ServerRunner(web.Server(self._handle))
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.issuer = f"http://127.0.0.1:{self._runner.addresses[0][1]}"

    async def stop(self):
        await self._runner.cleanup()

    def grant(self, url, person):
        """What the browser is sent back with, once the person has signed in at ``url``."""
        asked = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
        self.asked.append(asked)
        code = f"code-{len(self.codes)}"
        self.codes[code] = (asked, person)
        return {"code": code, "state": asked["state"], "iss": self.issuer}

    async def _handle(self, request):
        if request.path == "/.well-known/openid-configuration":
            return web.json_response({
                "issuer": self.issuer, "jwks_uri": f"{self.issuer}/keys",
                "authorization_endpoint": f"{self.issuer}/authorize",
                "token_endpoint": f"{self.issuer}/token",
            })  # fmt: skip
        if request.path == "/keys":
            return web.json_response({"keys": [self.key.as_dict(private=False)]})
        form = {
            name: values[0] for name, values in parse_qs((await request.read()).decode()).items()
        }
        asked, person = self.codes.pop(form["code"], (None, None))
        verifier = form["code_verifier"].encode()
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier).digest()).rstrip(b"=")
        good = (
            asked is not None
            and challenge.decode() == asked["code_challenge"]
            and form["redirect_uri"] == asked["redirect_uri"]
            and (form["client_id"], form["client_secret"]) == ("sidecar", SECRET)
        )
        if not good:
            return web.json_response({"error": "invalid_grant"}, status=400)
        now = clock.now_ns() // 10**9
        claims = {
            "iss": self.issuer, "aud": "sidecar", "sub": person, "iat": now, "exp": now + 300,
            "nonce": asked["nonce"], "groups": ["approvers"], **self.claims,
        }  # fmt: skip
        token = jwt.encode({"alg": "ES256", "kid": "k1"}, claims, self.key)
        return web.json_response({"id_token": token, "token_type": "Bearer"})


@asynccontextmanager
async def people(folder, **more):
    """A control API at whose pages people sign in with a provider."""
    idp = Idp()
    await idp.start()
    (folder / "client-secret").write_text(f"{SECRET}\n")
    grant = ClaimGrant(claim="groups", value="approvers", project="default", role="reviewer")
    provider = Provider(
        name="corp", issuer=idp.issuer, audience="sidecar", grants=(grant,),
        allow_cidrs=("127.0.0.0/8",), login=Login(client_id="sidecar", secret_file="client-secret"),
    )  # fmt: skip
    egress = Egress()
    source = KeySource(provider, egress, clock.monotonic_ns)
    login = CodeLogin(provider, egress, str(folder / "client-secret"))
    tokens = OidcTokens([(provider, source)], clock.now_ns, {}, [login])

    async def authenticate(presented):
        token = (presented.authorization or "").removeprefix("Bearer ")
        return await (tokens.principal(token) if is_token(token) else made.authenticate(presented))

    async with control(folder, authenticate=authenticate, **more) as made:
        await made.web.stop()
        made.web = ControlServer(made.desk, listen="127.0.0.1:0", logins=tokens.logins, pages=PAGES)
        await made.web.start()
        made.idp = idp
        yield made
    await tokens.stop()
    await egress.close()
    await idp.stop()


def run(folder, scenario):
    async def main():
        async with people(folder) as each:
            async with asyncio.timeout(60):
                await scenario(each)

    asyncio.run(main())


class Visitor(Browser):
    """A browser that keeps several cookies."""

    def __init__(self, each):
        super().__init__(each)
        self.jar = {}

    def _cookies(self):
        return {"Cookie": "; ".join(f"{k}={v}" for k, v in self.jar.items())} if self.jar else {}

    def _took(self, answer):
        told = answer.headers.get("set-cookie", "")
        for name, value in re.findall(r"(sidecar-approver(?:-login)?)=\"?([\w-]*)", told):
            self.jar[name] = value
        return answer

    async def sent_away(self, to, query=""):
        away = await self.get(f"/approvals/oidc/corp?to={to}{query}")
        assert away.status == 303
        return away.headers["location"]

    async def back(self, **given):
        query = "&".join(f"{name}={value}" for name, value in given.items())
        return await self.get(f"/approvals/signed-in?{query}")


@pytest.mark.requirement("APR-01")
def test_a_person_signs_in_at_the_provider_and_approves(tmp_path):
    async def scenario(each):
        path = f"/approvals/{await pending(each)}"
        visitor = Visitor(each)
        assert 'href="/approvals/oidc/corp?to=' in text(await visitor.get(path))
        url = await visitor.sent_away(path)
        asked = parse_qs(urlsplit(url).query)
        assert asked["redirect_uri"] == [f"{PAGES}/approvals/signed-in"]
        assert asked["code_challenge_method"] == ["S256"] and SECRET not in url
        done = await visitor.back(**each.idp.grant(url, "ben"))
        assert (done.status, done.headers["location"]) == (303, path)
        form = {**form_of(await visitor.get(path)), "reason": "ok", "decision": "approve"}
        assert (await visitor.post(f"{path}/vote", form)).status == 303
        (vote,) = each.ledger.find_approval(path.rpartition("/")[2]).votes
        assert vote.voter == "oidc:corp:ben"

    run(tmp_path, scenario)


@pytest.mark.row("CVE-2026-32871")
@pytest.mark.requirement("APR-01")
def test_what_comes_back_counts_once_and_in_its_own_browser(tmp_path):
    async def scenario(each):
        visitor, thief = Visitor(each), Visitor(each)
        given = each.idp.grant(await visitor.sent_away("/approvals"), "ben")
        await thief.sent_away("/approvals")
        stolen = await thief.back(**given)
        assert stolen.status == 403 and "another browser" in text(stolen)
        late = await visitor.back(**given)
        assert late.status == 403, "what was tried is used up"
        given = each.idp.grant(await visitor.sent_away("/approvals"), "ben")
        for wrong in (
            {**given, "state": "x"}, {"state": given["state"]}, {"code": given["code"]},
        ):  # fmt: skip
            assert (await visitor.back(**wrong)).status == 403, wrong
        given = each.idp.grant(await visitor.sent_away("/approvals"), "ben")
        mixed = await visitor.back(**{**given, "iss": "https://evil.example"})
        assert mixed.status == 403
        assert "sidecar-approver" not in visitor.jar and "sidecar-approver" not in thief.jar

    run(tmp_path, scenario)


@pytest.mark.row("CVE-2026-32871")
@pytest.mark.requirement("APR-01")
@pytest.mark.parametrize(
    "claims", [{"nonce": "other"}, {"groups": []}, {"aud": "another"}, {"exp": 1}]
)
def test_a_token_that_is_not_of_this_sign_in_or_grants_nothing_opens_nothing(tmp_path, claims):
    async def scenario(each):
        each.idp.claims = claims
        visitor = Visitor(each)
        given = each.idp.grant(await visitor.sent_away("/approvals"), "ben")
        told = await visitor.back(**given)
        assert told.status == 403 and "sidecar-approver" not in visitor.jar

    run(tmp_path, scenario)


def test_a_code_without_its_verifier_and_a_provider_that_is_away_sign_nobody_in(tmp_path):
    async def scenario(each):
        visitor = Visitor(each)
        given = each.idp.grant(await visitor.sent_away("/approvals"), "ben")
        each.idp.codes[given["code"]][0]["code_challenge"] = "another"
        told = await visitor.back(**given)
        assert told.status == 403 and "the log says why" in text(told)
        assert given["code"] not in text(told) and SECRET not in text(told)
        await each.idp.stop()
        told = await visitor.get("/approvals/oidc/corp?to=/approvals")
        assert told.status == 403
        assert (await visitor.get("/approvals/oidc/none")).status == 404

    run(tmp_path, scenario)


GOOD = {
    "issuer": "https://i", "authorization_endpoint": "https://i/a", "token_endpoint": "https://i/t"
}  # fmt: skip


@pytest.mark.parametrize(
    "changes",
    [{"issuer": "https://j"}, {"token_endpoint": "http://i/t"}, {"authorization_endpoint": None},
     {"authorization_endpoint": "javascript:x"}, {"token_endpoint": "https://i/\nx"}],
)  # fmt: skip
def test_a_discovery_document_names_its_own_https_endpoints(changes):
    assert endpoints(GOOD, "https://i").token == "https://i/t"
    with pytest.raises(ValueError, match=r"its|endpoint"):
        endpoints(GOOD | changes, "https://i")


def test_what_is_wrong_with_a_login_is_said():
    grant = ClaimGrant(claim="a", value="b", project="p", role="reviewer")
    provider = Provider(
        name="corp", issuer="https://i.example", audience="api", grants=(grant,),
        login=Login(client_id="web", scopes=("email",)),
    )  # fmt: skip
    assert [each.path for each in provider.problems()] == ["login.client_id", "login.scopes"]
