"""Makes a crash proof: kills gateways at every step, asks the next ones, counts at the upstream.

**Rules**
1. One lane an upstream, each with a folder, a key and, on SQLite, a ledger of its own; on Postgres
   the lanes' gateways share one ledger.
2. A life serves the end of one case and the death of the next: so every start but the first is a
   recovery.
3. What an effect is, the upstream's own database says, once the upstream has read all it was sent.
4. A play whose kill was not made (the machine was busy and the gateway refused the call) proves
   nothing: the case is played again under another key, ``_PLAYS_MAX`` times at most.
"""

import asyncio
import multiprocessing
import os
import signal
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from multiprocessing.context import ForkServerContext
from pathlib import Path
from random import Random

import aiohttp
from msgspec import structs

from sidecar import clock
from sidecar.app.loading import load_config
from sidecar.app.minting import create_key
from sidecar.app.opening import open_backend, open_keys, open_ledger
from sidecar.chaos.client import Answer, ask
from sidecar.chaos.files import Ground, arm, make_folder, prepare
from sidecar.chaos.http import ChaosShop
from sidecar.chaos.plan import UPSTREAMS, Case, State, Upstream, cases
from sidecar.chaos.process import Spoil
from sidecar.chaos.proof import Attempt, Found, Proof, Store, conclude
from sidecar.chaos.worker import Lives
from sidecar.errors import SidecarError
from sidecar.gateway.audit import verify
from sidecar.identity.keys import KeyTerms
from sidecar.store.backend import LedgerReader
from sidecar.store.ledger import AuditEntry, CallQuery
from sidecar.store.location import is_postgres

_ANSWER_SECONDS, _POLL_SECONDS = 120.0, 0.05
_PLAYS_MAX = 4
_GRACE_SECONDS = 1.0
"""For a kill on its way when the answer is there."""
_RETRIED = frozenset({"in_flight", "fail_closed", "policy_error", "upstream_unreachable"})
_PAGE = 1000
_UPSTREAM_KILLS = frozenset({"mid_send", "after_send"})
"""Steps at which the upstream kills."""

Told = Callable[[Found], None]


async def prove(
    *,
    iterations: int,
    seed: int,
    store: str = "",
    whole: int = 0,
    spoil: Spoil | None = None,
    told: Told,
) -> Proof:
    """Kill ``iterations`` times, ``whole`` of them a whole sidecar, and say what was found.

    Raises SidecarError.
    ``store`` names a Postgres database whose ledger is empty; without, ledgers are SQLite files in
    a temporary folder.
    """
    if store and not is_postgres(store):
        raise SidecarError(
            "a proof on SQLite makes its own ledgers",
            where=f"--store {store}",
            do="Leave it out, or name a Postgres database of its own for the proof.",
        )
    dice = Random(seed)  # noqa: S311 - repeatable, not secret
    planned = tuple(
        structs.replace(case, shared=bool(store)) for case in cases(iterations, dice, whole=whole)
    )
    seal_key = clock.random_bytes(32).hex()
    with tempfile.TemporaryDirectory(prefix="crash-proof-") as folder:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["sidecar.chaos.process"])
        async with AsyncExitStack() as stack:
            lanes = [
                await stack.enter_async_context(
                    _lane(context, Path(folder) / name, name, store, seal_key, spoil)
                )
                for name in UPSTREAMS
                if any(case.upstream == name for case in planned)
            ]
            ran = await asyncio.gather(*(lane.run(planned, told) for lane in lanes))
            stores = [lane.store() for lane in (lanes[:1] if store else lanes)]
    return conclude([found for each in ran for found in each], stores, seed=seed)


@asynccontextmanager
async def _lane(
    context: ForkServerContext,
    folder: Path,
    upstream: Upstream,
    store: str,
    seal_key: str,
    spoil: Spoil | None,
) -> AsyncIterator["_Lane"]:
    make_folder(folder)
    shop = ChaosShop(folder, upstream)
    async with AsyncExitStack() as stack:
        await shop.start()
        stack.push_async_callback(shop.stop)
        file = prepare(folder, upstream, Ground(port=shop.port, store=store, seal_key=seal_key))
        loaded = load_config(str(file), None)
        with open_backend(loaded) as stores:
            stores.migrate()
        with open_keys(loaded) as keys:
            text, _ = create_key(keys, KeyTerms(kind="agent", project="default", name=upstream))
        ledger = stack.enter_context(open_ledger(loaded))
        if store and upstream == next(iter(UPSTREAMS)) and ledger.list_calls(CallQuery(limit=1)):
            raise SidecarError(
                "this store holds calls already; a crash proof kills gateways on it",
                where=store,
                do="Name a database of its own for the proof.",
            )
        session = await stack.enter_async_context(
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True))
        )
        lives = Lives(context, folder, spoil)
        lane = _Lane(lives, folder, upstream, shop, ledger, session, text)
        stack.push_async_callback(lane.stop)
        yield lane


class _Lane:
    """One upstream, and the lives of the gateways before it."""

    def __init__(
        self,
        lives: Lives,
        folder: Path,
        upstream: Upstream,
        shop: ChaosShop,
        ledger: LedgerReader,
        session: aiohttp.ClientSession,
        credential: str,
    ) -> None:
        self._lives = lives
        self._folder = folder
        self._upstream = upstream
        self._shop = shop
        self._ledger = ledger
        self._session = session
        self._credential = credential

    async def run(self, planned: tuple[Case, ...], told: Told) -> list[Found]:
        """Every case of this upstream, one after the other."""
        ran = []
        for case in planned:
            if case.upstream != self._upstream:
                continue
            for turn in range(_PLAYS_MAX):
                ran.append(await self._play(structs.replace(case, turn=turn)))
                told(ran[-1])
                if ran[-1].killed:
                    break
        await self.stop()
        return ran

    async def stop(self) -> None:
        """End the life that is left. Safe without and twice."""
        await self._lives.stop()

    def store(self) -> Store:
        """The ledger in the end."""
        found = verify(self._entries(), self._ledger.audit_head(), self._ledger.public_keys())
        fault = found.fault
        return Store(
            where=self._upstream,
            entries=found.entries,
            fault=f"the audit chain breaks at {fault.index}: {fault.what}" if fault else None,
        )

    async def _play(self, case: Case) -> Found:
        if not self._lives.begun or self._lives.whole != case.whole:
            await self._lives.start(whole=case.whole)
        killed = await self._kill(case)
        await self._shop.quiet()
        orphans = await self._lives.orphans() if killed else 0
        left = self._state(case)
        await self._lives.start(whole=case.whole)
        answer = await self._settled(case)
        return Found(
            case=case,
            killed=killed,
            left=left,
            state=self._state(case),
            effects=self._shop.effects(case.order),
            answered=answer.status if answer else 0,
            attempts=self._attempts(case),
            orphans=orphans,
        )

    async def _kill(self, case: Case) -> bool:
        """Make the call, and see the process die at its step; whether it did."""
        pid = self._lives.pid

        def kill() -> None:
            os.kill(pid, signal.SIGKILL)

        if case.step in _UPSTREAM_KILLS:
            self._shop.arm(case.order, case.step, kill)
        elif case.step != "anywhere":
            arm(self._folder, case)
        asking = asyncio.ensure_future(ask(self._session, self._lives.port, self._credential, case))
        if case.step == "anywhere":
            await asyncio.sleep(case.after_seconds)
            kill()
        dying = asyncio.ensure_future(self._lives.killed())
        await asyncio.wait({asking, dying}, return_when=asyncio.FIRST_COMPLETED)
        if asking.done() and asking.result() is not None:
            await asyncio.wait({dying}, timeout=_GRACE_SECONDS)
            killed = dying.done() and dying.result()
            dying.cancel()
            await asyncio.wait({dying})
        else:
            killed = await dying
        arm(self._folder, None)
        self._shop.disarm()
        await asking
        return killed

    async def _settled(self, case: Case) -> Answer | None:
        """The call again, with the same key, until it is not asked to come back."""
        ends = clock.monotonic_ns() + int(_ANSWER_SECONDS * 1e9)
        while True:
            answer = await ask(self._session, self._lives.port, self._credential, case)
            later = answer is None or answer.code in _RETRIED or answer.retry is not None
            if not later or clock.monotonic_ns() > ends:
                return answer
            await asyncio.sleep(_POLL_SECONDS * 4)

    def _state(self, case: Case) -> State:
        query = CallQuery(trace_id=case.trace_id, limit=_PAGE)
        states = [row.state for row in self._ledger.list_calls(query) if row.state is not None]
        return states[0] if states else None

    def _attempts(self, case: Case) -> tuple[Attempt, ...]:
        query = CallQuery(trace_id=case.trace_id, limit=_PAGE)
        found = []
        for row in self._ledger.list_calls(query):
            whole = self._ledger.get_call(row.call_id)
            receipts = map(self._ledger.get_receipt, whole.receipts if whole else ())
            phases = tuple(receipt.phase for receipt in receipts if receipt is not None)
            found.append(Attempt(call_id=row.call_id, phases=phases))
        return tuple(found)

    def _entries(self) -> Iterator[AuditEntry]:
        after = -1
        while page := self._ledger.entries_after(after, _PAGE):
            yield from page
            after = page[-1].seq
