"""Follows which key signs, while the gateway runs.

**Rules**
1. It looks every ``LOOK_SECONDS``. A new key is known longer than that before it signs, so whoever
   is shown what it signed, in whichever process, knows its public half (``store.signing``).
2. The public halves of revoked keys are taken away: a token that such a key signed is refused.
3. While it cannot be read which key signs, the one that signed before goes on; the store refuses
   what a revoked key signed.
"""

import asyncio
from collections.abc import Callable

from sidecar import clock
from sidecar.errors import StoreUnavailable
from sidecar.gateway import signing
from sidecar.store.envelope import SealBroken
from sidecar.store.ports import GatewayLedger
from sidecar.store.signing import LOOK_SECONDS
from sidecar.store.signing import signing as signing_now
from sidecar.telemetry import TASK_FAILURES, log

_LOG = log("signing")


class SigningKeys:
    """The key that signs (``signer``) and those that check (``public``), kept as the ledger has
    them. ``open`` before anything else, ``run`` for as long as the gateway does."""

    def __init__(self, ledger: GatewayLedger, now_ns: Callable[[], int]) -> None:
        self._ledger = ledger
        self._now_ns = now_ns
        self.signer = signing.CurrentKey()
        self.public: dict[str, bytes] = {}

    async def open(self) -> None:
        """Take the key that signs now, made where there is none. Raises StoreUnavailable,
        SealBroken."""
        made = signing.make(clock.random_bytes(signing.PRIVATE_BYTES), self._now_ns())
        key = signing.SigningKey(await self._ledger.find_or_add_signing_key(made))
        self._read()
        self.signer.use(key)

    def begin(self) -> None:
        """Let the ledger sign with it."""
        self._ledger.use_signer(self.signer.key)

    async def turn(self) -> None:
        """Look once. Raises StoreUnavailable, SealBroken."""
        now_ns = self._now_ns()
        self._read()
        chosen = signing_now(self._ledger.signing_keys(), now_ns)
        if chosen is None or chosen.kid != self.signer.kid:
            await self.open()
            self.begin()
            _LOG.info("signing with another key", kid=self.signer.kid)

    async def run(self) -> None:
        """Look again and again, until cancelled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                await self.turn()
            except (StoreUnavailable, SealBroken) as error:
                TASK_FAILURES.labels("signing keys").inc()
                _LOG.error("signing keys not read", why=error)

    def _read(self) -> None:
        able = {each.kid: each.public for each in self._ledger.signing_keys() if not each.revoked}
        for kid in self.public.keys() - able.keys():
            del self.public[kid]
        self.public.update(able)
