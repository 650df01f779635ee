"""Who is calling: what was presented, looked at in the one order that every listener shares.

Rules
1. A bearer credential, where there is one, is the one that counts: a good certificate never makes
   up for a bad key.
2. What a credential proves is decided by pure functions; this file asks the stores and providers
   they need.
3. Nothing presented is repeated in an error.
4. Keys that lie on another machine are looked up in threads of their own: while they cannot be
   had, nothing else waits.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Protocol

from processors.model.principal import Presented, Principal
from sidecar.identity.certificate import CertificateGrants
from sidecar.identity.keys import KeyStore, Unauthenticated, authenticate, bearer

_LOOKUPS = 8

Authenticate = Callable[[Presented], Awaitable[Principal]]
"""The principal of what was presented. Raises Unauthenticated, or StoreUnavailable where it cannot
be told now."""


class Tokens(Protocol):
    """Who judges tokens of identity providers."""

    def reads(self, token: str) -> bool:
        """Whether the text has the form of such a token."""
        ...

    async def principal(self, token: str, audiences: tuple[str, ...] = ()) -> Principal:
        """The principal of a token that is meant for one of ``audiences``, or where there are none
        for what its provider is configured with. Raises Unauthenticated."""
        ...


class Identity:
    """An ``Authenticate`` over keys, client certificates and providers' tokens.

    ``remote``: the keys do not lie on this machine.
    """

    def __init__(
        self,
        keys: KeyStore,
        now_ns: Callable[[], int],
        *,
        organisations: Mapping[str, Sequence[str]] | None = None,
        certificates: CertificateGrants | None = None,
        tokens: Tokens | None = None,
        remote: bool = False,
    ) -> None:
        self._keys = keys
        self._now_ns = now_ns
        self._organisations = organisations or {}
        self._certificates = certificates
        self._tokens = tokens
        self._threads = ThreadPoolExecutor(_LOOKUPS, "identity") if remote else None

    async def __call__(self, presented: Presented) -> Principal:
        """The principal. Raises Unauthenticated, or StoreUnavailable."""
        if presented.authorization is None and presented.certificate:
            return self._of_certificate(presented.certificate)
        if self._tokens is not None:
            token = bearer(presented.authorization)
            if self._tokens.reads(token):
                return await self._tokens.principal(token, presented.audiences)
        if self._threads is None:
            return self._of_key(presented.authorization)
        look_up = partial(self._of_key, presented.authorization)
        return await asyncio.get_running_loop().run_in_executor(self._threads, look_up)

    def _of_key(self, authorization: str | None) -> Principal:
        return authenticate(
            authorization, self._keys, now_ns=self._now_ns(), organisations=self._organisations
        )

    def _of_certificate(self, names: Sequence[str]) -> Principal:
        if self._certificates is None:
            raise Unauthenticated("no client certificate is known here; send a key")
        return self._certificates.principal(names)
