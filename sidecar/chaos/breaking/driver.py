"""Breaks one part of a real gateway after the other, and asks it for a call of each class.

**Rules**
1. What is broken is broken from outside, as it would be: a stopped process, a lock, a limit, a
   closed port, an upstream that misbehaves, a changed file. The gateway has no hook for it.
2. Each row has a gateway, a ledger and an upstream of its own.
"""

import asyncio
import contextlib
import multiprocessing
import os
import resource
import signal
import sqlite3
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, closing, contextmanager
from multiprocessing.context import ForkServerContext
from pathlib import Path

import aiohttp

from sidecar import clock
from sidecar.app.loading import load_config
from sidecar.app.minting import create_key
from sidecar.app.opening import open_backend, open_keys
from sidecar.chaos.breaking.files import break_bundle, change_seal_key, cut_chain
from sidecar.chaos.client import ask
from sidecar.chaos.files import Ground, make_folder, prepare, running_children_of
from sidecar.chaos.http import ChaosShop, Manner
from sidecar.chaos.matrix import CLASSES, Answer, Break, Judged, Matrix, Row, Seen, conclude, judge
from sidecar.chaos.plan import Case
from sidecar.chaos.process import Spoil
from sidecar.chaos.worker import Lives, NotStarted
from sidecar.identity.keys import KeyTerms

_ANSWER_SECONDS = 180.0
"""A gateway whose ledger is locked tries for a while to write what it knows."""
_STOP_AGAIN_SECONDS = 0.002
_FILE_BYTES = 16 * 1024
"""More than the log has, less than one commit writes."""
_MANNERS: dict[Break, Manner] = {
    "tool_hangs": "hangs",
    "tool_breaks_off": "breaks off",
    "tool_speaks_nonsense": "speaks nonsense",
    "tool_fails": "fails",
}

Told = Callable[[Judged], None]


async def try_all(rows: tuple[Row, ...], *, spoil: Spoil | None = None, told: Told) -> Matrix:
    """Break what each row says, and say what came of it."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["sidecar.chaos.process"])
    judged = []
    with tempfile.TemporaryDirectory(prefix="fault-matrix-") as folder:
        for row in rows:
            async with _bench(context, Path(folder) / row.name, row, spoil) as bench:
                judged.append(judge(row, await bench.try_it()))
            told(judged[-1])
    return conclude(tuple(judged))


@asynccontextmanager
async def _bench(
    context: ForkServerContext, folder: Path, row: Row, spoil: Spoil | None
) -> AsyncIterator["_Bench"]:
    make_folder(folder)
    shop = ChaosShop(folder, "plain")
    async with AsyncExitStack() as stack:
        await shop.start()
        stack.push_async_callback(shop.stop)
        refused = row.name == "address_refused"
        ground = Ground(
            port=shop.port,
            seal_key=clock.random_bytes(32).hex(),
            host="localhost" if refused else "127.0.0.1",
            allowed=("192.0.2.0/24",) if refused else ("127.0.0.0/8",),
            timeout="1s",
            deadline="300ms" if row.name == "policy_hangs" else "5s",
            bundle=break_bundle(folder) if row.name == "bad_policy_bundle" else "",
        )
        loaded = load_config(str(prepare(folder, "plain", ground)), None)
        with open_backend(loaded) as stores:
            stores.migrate()
        with open_keys(loaded) as keys:
            text, _ = create_key(keys, KeyTerms(kind="agent", project="default", name="agent"))
        session = await stack.enter_async_context(
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True))
        )
        bench = _Bench(Lives(context, folder, spoil), folder, row, shop, session, text)
        stack.push_async_callback(bench.stop)
        yield bench


class _Bench:
    """One row's gateway and upstream."""

    def __init__(
        self,
        lives: Lives,
        folder: Path,
        row: Row,
        shop: ChaosShop,
        session: aiohttp.ClientSession,
        credential: str,
    ) -> None:
        self._lives = lives
        self._ledger = folder / "data" / "ledger.db"
        self._folder = folder
        self._row = row
        self._shop = shop
        self._session = session
        self._credential = credential

    async def stop(self) -> None:
        """End what is left. Safe twice."""
        await self._lives.stop()

    async def try_it(self) -> Seen:
        """Break it and ask."""
        if not self._row.starts:
            return await self._begin_again()
        await self._lives.start()
        name = self._row.name
        self._shop.manner = _MANNERS.get(name, "answers")
        if name == "policy_hangs":
            answers = await self._beside(self._stop_policy())
        elif name == "ledger_locked":
            with _locked(self._ledger):
                answers = await self._ask_all()
        elif name == "disk_full":
            with _no_growth(self._lives.pid):
                answers = await self._ask_all()
        elif name == "ledger_lost_after_sending":
            answers = await self._lose_ledger()
        else:
            if name == "tool_away":
                await self._shop.close()
            answers = await self._ask_all()
        effects = tuple(self._shop.effects(_case(class_).order) for class_ in range(3))
        return Seen(started=True, answers=answers, effects=effects)

    async def _begin_again(self) -> Seen:
        if self._row.name != "bad_policy_bundle":
            await self._lives.start()
            await self._ask_all()
            await self._lives.stop()
        if self._row.name == "chain_tampered":
            cut_chain(self._ledger)
        if self._row.name == "wrong_seal_key":
            change_seal_key(self._folder, clock.random_bytes(32).hex())
        try:
            await self._lives.start()
        except NotStarted:
            return Seen(started=False)
        return Seen(started=True)

    async def _ask_all(self) -> tuple[Answer, ...]:
        return tuple(await asyncio.gather(*(self._ask(number) for number in range(3))))

    async def _ask(self, number: int) -> Answer:
        case, port = _case(number), self._lives.port
        said = await ask(self._session, port, self._credential, case, seconds=_ANSWER_SECONDS)
        return (said.status, said.code) if said else (0, "no answer")

    async def _beside(self, doing: asyncio.Task[None]) -> tuple[Answer, ...]:
        try:
            return await self._ask_all()
        finally:
            doing.cancel()
            await asyncio.gather(doing, return_exceptions=True)

    def _stop_policy(self) -> asyncio.Task[None]:
        """Stop every policy process, and each that is started in its place, at once."""
        _stop_children(self._lives.pid)

        async def again() -> None:
            while True:
                _stop_children(self._lives.pid)
                await asyncio.sleep(_STOP_AGAIN_SECONDS)

        return asyncio.ensure_future(again())

    async def _lose_ledger(self) -> tuple[Answer, ...]:
        """Lock the ledger when all three calls have been sent and none is answered."""
        held = self._shop.hold(len(CLASSES))
        asking = asyncio.ensure_future(self._ask_all())
        here = asyncio.ensure_future(held.all_here.wait())
        await asyncio.wait({asking, here}, return_when=asyncio.FIRST_COMPLETED)
        here.cancel()
        with _locked(self._ledger):
            held.answer.set()
            return await asking


def _case(number: int) -> Case:
    return Case(number=number, upstream="plain", step="anywhere", class_=CLASSES[number])


def _stop_children(pid: int) -> None:
    for child in running_children_of(pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGSTOP)


@contextmanager
def _locked(ledger: Path) -> Iterator[None]:
    with closing(sqlite3.connect(ledger, isolation_level=None, timeout=60)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield
        connection.execute("ROLLBACK")


@contextmanager
def _no_growth(pid: int) -> Iterator[None]:
    before = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (_FILE_BYTES, before[1]))
    yield
    resource.prlimit(pid, resource.RLIMIT_FSIZE, before)
