"""A real OpenID Connect provider (zitadel/oidc's server), run locally, and its login by HTTP."""

import asyncio
import json
import os
import re
import socket
import subprocess
from contextlib import asynccontextmanager
from urllib.parse import parse_qs, urlsplit

import aiohttp

from tests.built_tools import program

PASSWORD = "correct horse"
BACK = "http://localhost:9999/auth/callback"


def user(name, **more):
    given = {"ID": name, "Username": name, "Password": PASSWORD, "PreferredLanguage": "en"}
    return given | {"Email": f"{name}@example.com", "EmailVerified": True} | more


USERS = {each["ID"]: each for each in (
    user("alice"), user("refund-bot"), user("mallory"), user("eve", EmailVerified=False),
)}  # fmt: skip


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class RealProvider:
    """The provider's process; its signing key is another one after each start."""

    def __init__(self, folder):
        self.folder, self.port = folder, free_port()
        self.issuer = f"http://localhost:{self.port}/"
        self._program = program("oidc")
        (folder / "users.json").write_text(json.dumps(USERS))

    async def start(self):
        self._log = (self.folder / "provider.log").open("ab")
        environment = {**os.environ, "PORT": str(self.port)}
        environment["USERS_FILE"] = str(self.folder / "users.json")
        self.process = subprocess.Popen(
            [self._program], env=environment, stdout=self._log, stderr=self._log
        )
        async with asyncio.timeout(20), aiohttp.ClientSession() as session:
            while True:
                try:
                    async with session.get(
                        self.issuer + ".well-known/openid-configuration"
                    ) as answer:
                        self.told = await answer.json()
                    return
                except aiohttp.ClientError:
                    assert self.process.poll() is None, (self.folder / "provider.log").read_text()
                    await asyncio.sleep(0.02)

    def stop(self):
        self.process.terminate()
        self.process.wait(10)
        self._log.close()

    async def code_token(self, name, client="web"):
        """An id token by the authorisation code flow."""
        async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
            back = await self._logged_in(session, name, client, "code")
            form = {"grant_type": "authorization_code", "redirect_uri": BACK}
            form["code"] = parse_qs(urlsplit(back).query)["code"][0]
            basic = {"Authorization": aiohttp.encode_basic_auth(client, "secret")}
            async with session.post(
                self.told["token_endpoint"], data=form, headers=basic
            ) as answer:
                return (await answer.json())["id_token"]

    async def implicit_token(self, name, client="web"):
        """An id token by the implicit flow, which has the user's claims in it."""
        async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
            back = await self._logged_in(session, name, client, "id_token")
            return parse_qs(urlsplit(back).fragment)["id_token"][0]

    async def service_token(self):
        """An access token by client credentials; this provider's are opaque."""
        form = {"grant_type": "client_credentials", "scope": "openid"}
        basic = {"Authorization": aiohttp.encode_basic_auth("sid1", "verysecret")}
        async with (
            aiohttp.ClientSession() as session,
            session.post(self.told["token_endpoint"], data=form, headers=basic) as answer,
        ):
            return (await answer.json())["access_token"]

    async def _logged_in(self, session, name, client, response_type):
        asked = {
            "client_id": client, "redirect_uri": BACK, "response_type": response_type,
            "scope": "openid profile email", "state": "s", "nonce": "n",
        }  # fmt: skip
        async with session.get(self.told["authorization_endpoint"], params=asked) as page:
            request_id = re.search(r'name="id" value="([^"]+)"', await page.text())[1]
        form = {"id": request_id, "username": name, "password": PASSWORD}
        url = self.issuer + "login/username"
        for _ in range(4):
            send = session.post(url, data=form, allow_redirects=False) if form else session.get(
                url, allow_redirects=False
            )  # fmt: skip
            async with send as answer:
                place = answer.headers["Location"]
            if place.startswith(BACK):
                return place
            url, form = self.issuer.rstrip("/") + place if place.startswith("/") else place, None
        raise AssertionError("the provider leads in circles")


@asynccontextmanager
async def real_provider(folder):
    made = RealProvider(folder)
    await made.start()
    try:
        yield made
    finally:
        made.stop()
