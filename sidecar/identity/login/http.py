"""Sends people to an identity provider to sign in, and takes the token they come back for."""

import asyncio
import json
import re
from pathlib import Path
from typing import Any

from processors.model.principal import StepUp
from sidecar.egress.client import Egress, EgressFailed, EgressReply
from sidecar.egress.rules import Target
from sidecar.identity.config import Provider
from sidecar.identity.login import rules
from sidecar.identity.login.rules import Begun, LoginFailed
from sidecar.telemetry import log

_DEADLINE_NS = 5 * 10**9
_URL = re.compile(r"(https?://[^/?#]+)(/[^?#]*)?(\?[^#]*)?\Z")
_LOG = log("identity")


class CodeLogin:
    """One provider's. ``secret_file`` is where the client's secret lies; empty for a public
    client."""

    def __init__(self, provider: Provider, egress: Egress, secret_file: str) -> None:
        assert provider.login is not None
        self._provider = provider
        self._login = provider.login
        self._egress = egress
        self._secret_file = secret_file

    @property
    def name(self) -> str:
        """The provider's name, for people too."""
        return self._provider.name

    @property
    def issuer(self) -> str:
        """Whose answers it takes."""
        return self._provider.issuer

    async def url(
        self,
        begun: Begun,
        state: str,
        back: str,
        demand: StepUp = StepUp(),  # noqa: B008 - frozen
    ) -> str:
        """Where the browser goes, to sign in as demanded. Raises LoginFailed."""
        return rules.sign_in_url(
            await self._endpoints(),
            begun,
            state,
            client_id=self._login.client_id,
            back=back,
            scopes=self._login.scopes,
            demand=demand,
        )

    async def token(self, begun: Begun, code: str, back: str) -> str:
        """The id token for a code, whose signature is still to be judged. Raises LoginFailed."""
        secret = await asyncio.to_thread(self._secret) if self._secret_file else None
        form = rules.exchange_form(
            begun, code, client_id=self._login.client_id, secret=secret, back=back
        )
        headers = (
            ("content-type", "application/x-www-form-urlencoded"),
            ("accept", "application/json"),
        )
        url = (await self._endpoints()).token
        try:
            answer = await self._ask("POST", url, headers, form)
        except (EgressFailed, ValueError) as error:
            raise self._failed(error) from None
        if answer.status != 200:
            raise self._failed(ValueError(f"its token endpoint answered {answer.status}"))
        return rules.id_token(answer.body, begun)

    async def _endpoints(self) -> rules.Endpoints:
        url = f"{self._provider.issuer.rstrip('/')}/.well-known/openid-configuration"
        try:
            answer = await self._ask("GET", url, (("accept", "application/json"),), b"")
            if answer.status != 200:
                raise ValueError(f"its discovery document is answered with {answer.status}")
            document: Any = json.loads(answer.body)
            return rules.endpoints(document, self._provider.issuer)
        except (EgressFailed, ValueError, RecursionError) as error:
            raise self._failed(error) from None

    async def _ask(
        self, method: str, url: str, headers: tuple[tuple[str, str], ...], body: bytes
    ) -> EgressReply:
        match = _URL.match(url)
        if match is None:
            raise ValueError("a url of it is not http(s)://host[:port][/path]")
        target = Target(
            name=f"oidc {self._provider.name}",
            url=match[1],
            allow_cidrs=self._provider.allow_cidrs,
        )
        path_query = (match[2] or "/") + (match[3] or "")
        return await self._egress.request(
            target, method, path_query, headers, body, deadline_ns=_DEADLINE_NS
        )

    def _secret(self) -> str:
        try:
            return Path(self._secret_file).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise self._failed(ValueError("the client's secret cannot be read")) from error

    def _failed(self, error: Exception) -> LoginFailed:
        """Told in the log; people are told that it failed."""
        _LOG.warning("oidc_login_failed", provider=self.name, why=str(error)[:300])
        return LoginFailed("the identity provider cannot be used now; the log says why")
