"""The keys of OpenID Connect providers, fetched through egress and kept; and tokens judged by them.

**Rules**
1. A provider is asked at most once in ``_PAUSE_NS``, whatever tokens come: a flood of unknown key
   ids reaches nobody.
2. Keys that are known serve while newer ones are fetched, and for ``_KEPT_NS`` while the provider
   cannot be asked. Then its tokens open nothing.
3. The discovery document must name the issuer that was configured; its keys come from where it
   says, within the same address ranges, and never in clear where the issuer is https.
"""

import asyncio
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from prometheus_client import Counter

from processors.model.principal import Principal
from sidecar.egress.client import Egress, EgressFailed
from sidecar.egress.rules import Target
from sidecar.identity import oidc
from sidecar.identity.config import Provider
from sidecar.identity.keys import ProviderUnavailable, Unauthenticated
from sidecar.identity.login.http import CodeLogin
from sidecar.identity.oidc import PublicKey
from sidecar.telemetry import REGISTRY, log

ANSWER_BYTES_MAX = 1024**2
_SECOND_NS = 10**9
_PAUSE_NS = 10 * _SECOND_NS
_FRESH_NS = 10 * 60 * _SECOND_NS
_KEPT_NS = 24 * 3600 * _SECOND_NS
_DEADLINE_NS = 5 * _SECOND_NS
_URL = re.compile(r"(https?)(://[^/?#]+)(/[^?#]*)?(\?[^#]*)?\Z")
_FETCHES = Counter(
    "sidecar_oidc_key_fetches_total",
    "Times a provider was asked for its keys, by provider and result.",
    ("provider", "result"),
    registry=REGISTRY,
)


class KeySource:
    """The keys of one provider. ``monotonic_ns`` is a clock that only goes forward."""

    def __init__(self, provider: Provider, egress: Egress, monotonic_ns: Callable[[], int]) -> None:
        self._provider = provider
        self._egress = egress
        self._now = monotonic_ns
        self._keys: tuple[PublicKey, ...] = ()
        self._fetched_at: int | None = None
        self._asked_at: int | None = None
        self._asking: asyncio.Task[None] | None = None

    async def keys(self, kid: str | None) -> tuple[PublicKey, ...]:
        """The keys to look for ``kid`` among. Raises ProviderUnavailable."""
        age = None if self._fetched_at is None else self._now() - self._fetched_at
        known = age is not None and (kid is None or any(each.kid == kid for each in self._keys))
        if not known or age is None or age > _KEPT_NS:
            await self._ask()
        elif age > _FRESH_NS:
            self._begin()
        if self._fetched_at is None or self._now() - self._fetched_at > _KEPT_NS:
            raise ProviderUnavailable(
                f"the keys of identity provider {self._provider.name} cannot be had",
                where=self._provider.issuer,
                do="The log says why.",
            )
        return self._keys

    async def close(self) -> None:
        """Ask no more."""
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.gather(self._asking, return_exceptions=True)

    async def _ask(self) -> None:
        """Ask now, with all who want the same, unless that was done a moment ago."""
        asking = self._begin()
        if asking is not None:
            await asyncio.shield(asking)

    def _begin(self) -> asyncio.Task[None] | None:
        if self._asking is None or self._asking.done():
            if self._asked_at is not None and self._now() - self._asked_at < _PAUSE_NS:
                return None
            self._asked_at = self._now()
            self._asking = asyncio.create_task(self._fetch())
        return self._asking

    async def _fetch(self) -> None:
        name = self._provider.name
        try:
            keys = oidc.read_keys(await self._document(await self._keys_url()))
            if not keys:
                raise ValueError("there is no key for signatures among its keys")
        except (EgressFailed, ValueError, RecursionError) as error:
            _FETCHES.labels(name, "failed").inc()
            log("identity").warning("oidc_keys_not_fetched", provider=name, why=str(error)[:300])
            return
        _FETCHES.labels(name, "ok").inc()
        self._keys, self._fetched_at = keys, self._now()

    async def _keys_url(self) -> str:
        provider = self._provider
        if provider.jwks_url:
            return provider.jwks_url
        found = await self._document(
            f"{provider.issuer.rstrip('/')}/.well-known/openid-configuration"
        )
        if not isinstance(found, dict) or found.get("issuer") != provider.issuer:
            raise ValueError("its discovery document names another issuer")
        url = found.get("jwks_uri")
        if not isinstance(url, str):
            raise ValueError("its discovery document names no jwks_uri")
        if provider.issuer.startswith("https://") and not url.startswith("https://"):
            raise ValueError("its jwks_uri is not https")
        return url

    async def _document(self, url: str) -> Any:
        """A JSON document. Raises EgressFailed or ValueError."""
        match = _URL.match(url)
        if match is None:
            raise ValueError("a url of it is not http(s)://host[:port][/path]")
        scheme, authority, path, query = match.groups()
        target = Target(
            name=f"oidc {self._provider.name}",
            url=scheme + authority,
            allow_cidrs=self._provider.allow_cidrs,
        )
        answer = await self._egress.request(
            target,
            "GET",
            (path or "/") + (query or ""),
            (("accept", "application/json"),),
            deadline_ns=_DEADLINE_NS,
        )
        if answer.status != 200:
            raise ValueError(f"it answered {answer.status}")
        try:
            return json.loads(answer.body)
        except ValueError:
            raise ValueError("its answer is not JSON") from None


class OidcTokens:
    """The ``Tokens`` of all configured providers; ``logins`` are those at which people sign in."""

    def __init__(
        self,
        sources: Sequence[tuple[Provider, KeySource]],
        now_ns: Callable[[], int],
        organisations: Mapping[str, Sequence[str]],
        logins: Sequence[CodeLogin] = (),
    ) -> None:
        self.logins = logins
        self._sources = sources
        self._now_ns = now_ns
        self._organisations = organisations

    def reads(self, token: str) -> bool:
        """Whether the text has the form of such a token."""
        return oidc.is_token(token)

    async def principal(self, token: str, audiences: tuple[str, ...] = ()) -> Principal:
        """The principal of a token that is meant for one of ``audiences``, or where there are none
        for its provider's own. Raises Unauthenticated, or ProviderUnavailable.

        Where an audience decides, of two providers of one issuer the one that knows agents counts.
        """
        said = oidc.read_unverified(token)
        mine = [each for each in self._sources if each[0].issuer == said.issuer]
        if not mine:
            raise Unauthenticated("the token's issuer is not known here")
        if audiences:
            fits = bool({*audiences} & {*said.audiences})
            mine.sort(key=lambda each: not each[0].knows_agents)
            meant = mine if fits else []
        else:
            meant = [each for each in mine if each[0].audience in said.audiences]
        if not meant:
            raise Unauthenticated("the token is not meant for this sidecar")
        provider, source = meant[0]
        if said.algorithm not in provider.algorithms:
            raise Unauthenticated("the token's algorithm is not allowed")
        keys = await source.keys(said.kid)
        claims = oidc.verified(
            token, said, provider, keys, now_ns=self._now_ns(), audiences=audiences
        )
        return oidc.principal(claims, provider, self._organisations)

    async def start(self) -> None:
        """Nothing: providers are asked when a token of theirs comes."""

    async def stop(self) -> None:
        """Ask no provider any more."""
        for _, source in self._sources:
            await source.close()
