"""One policy engine child as its parent sees it: started, spoken to in frames, killed, reaped.

**Rules**
1. The child gets a clean interpreter, an empty environment and one socket; no other descriptor of
   ours.
2. The owner hears of every frame and of the end, once each, through two callbacks.
3. A killed child is always waited for: no zombies.
"""

import asyncio
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

from sidecar.gateway.policy.bundle import Bundle
from sidecar.gateway.policy.process import ANSWER, HEAD, LOAD, ORDERS, RULE, TREE

START_SECONDS = 15.0
_REAP_SECONDS = 0.05
FRAME_BYTES_MAX = 64 * 1024**2
_SCRIPT = Path(__file__).with_name("process.py")

OnFrame = Callable[["Child", int, int, bytes], None]
OnLost = Callable[["Child"], None]


class ChildFailed(Exception):
    """The child said it cannot, or ended; the text is the engine's where it said one."""


class Child(asyncio.Protocol):
    """A running child. ``start`` makes one; ``on_frame(child, id, status, payload)``,
    ``on_lost(child)``.
    """

    def __init__(self) -> None:
        self.on_frame: OnFrame = _nobody
        self.on_lost: OnLost = _nobody
        self._buffer = bytearray()
        self._transport: asyncio.Transport | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._waiting: dict[int, asyncio.Future[tuple[int, bytes]]] = {}
        self._lost = False

    @classmethod
    async def start(cls) -> "Child":
        """A child that has loaded nothing yet."""
        try:
            ours, theirs = socket.socketpair()
        except OSError as error:  # no descriptor is left: a moment later one may be
            raise ChildFailed(f"the policy engine cannot be started: {error}") from error
        child = cls()
        try:
            ours.setblocking(False)
            # not asyncio's: its kill may reap behind its own watcher's back
            child._process = subprocess.Popen(  # noqa: ASYNC220, S603 - a millisecond; our own script
                [sys.executable, "-I", str(_SCRIPT), str(theirs.fileno()), str(os.getpid())],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,  # a panic's message may hold arguments
                env={"PATH": os.defpath, "LANG": "C.UTF-8", "RUST_BACKTRACE": "0"},
            )
            await asyncio.get_running_loop().create_connection(lambda: child, sock=ours)
        except BaseException as error:  # a cancelled start leaves no process behind either
            child.kill()
            ours.close()
            await child.ended()
            if isinstance(error, OSError):
                raise ChildFailed(f"the policy engine cannot be started: {error}") from error
            raise
        finally:
            theirs.close()
        return child

    @property
    def lost(self) -> bool:
        """Whether its socket has ended."""
        return self._lost

    @property
    def pid(self) -> int:
        """The process id."""
        assert self._process is not None
        return self._process.pid

    async def load(self, bundle: Bundle, *, warm: bool) -> None:
        """Give it its bundle; ``warm`` evaluates once, so that the first decision is not the slow
        one.

        Raises ChildFailed with the engine's message where the bundle does not parse.
        """
        modules = [[module.path, module.text] for module in bundle.modules]
        payload = json.dumps({"modules": modules, "data": bundle.data, "warm": warm}).encode()
        await self._converse(LOAD, payload)

    async def trees(self) -> list[dict[str, Any]]:
        """The syntax trees of the loaded modules. Raises ChildFailed."""
        trees: list[dict[str, Any]] = json.loads(await self._converse(TREE, b""))
        return trees

    async def differing(
        self,
        bundle: Bundle,
        orders: Sequence[Sequence[str]],
        documents: Sequence[tuple[int, bytes]],
        members: frozenset[str] | None = None,
    ) -> str | None:
        """A document on which orders of the bundle's modules decide differently; None: all agree.

        ``members``: those of a document that the last of the orders is given. Raises ChildFailed.
        """
        asked = {
            "modules": [[module.path, module.text] for module in bundle.modules],
            "data": bundle.data,
            "orders": orders,
            "documents": [[kind, document.decode()] for kind, document in documents],
            "members": members if members is None else list(members),
        }
        found = await self._converse(ORDERS, json.dumps(asked).encode())
        return None if found == b"null" else found.decode()

    async def evaluate(self, rule: str) -> bytes:
        """The JSON text of one rule's value with an empty input. Raises ChildFailed."""
        return await self._converse(RULE, rule.encode())

    def send(self, identity: int, kind: int, payload: bytes) -> None:
        """Queue one request frame; a lost child swallows it, ``on_lost`` has told."""
        if self._transport is not None and not self._lost:
            self._transport.write(HEAD.pack(9 + len(payload), identity, kind) + payload)

    def kill(self) -> None:
        """End it now."""
        if self._process is not None:
            self._process.kill()
        if self._transport is not None:
            self._transport.abort()

    async def ended(self) -> None:
        """Wait until the process is reaped."""
        if self._process is None:
            return
        try:
            await asyncio.to_thread(self._process.wait)
        except (OSError, RuntimeError):  # no thread can be had: it is reaped all the same
            while self._process.poll() is None:  # noqa: ASYNC110 - nobody tells us then
                await asyncio.sleep(_REAP_SECONDS)

    async def _converse(self, kind: int, payload: bytes) -> bytes:
        future: asyncio.Future[tuple[int, bytes]] = asyncio.get_running_loop().create_future()
        if self._lost:
            raise ChildFailed("the policy engine ended")
        self._waiting[0] = future
        self.send(0, kind, payload)
        try:
            status, answer = await asyncio.wait_for(future, START_SECONDS)
        except TimeoutError:
            raise ChildFailed(f"the policy engine was silent for {START_SECONDS:.0f} s") from None
        if status != ANSWER:
            raise ChildFailed(answer.decode("utf-8", "replace"))
        return answer

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transport has the methods of asyncio.Transport but not its class.
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while len(self._buffer) >= HEAD.size:
            length, identity, status = HEAD.unpack_from(self._buffer)
            if not 9 <= length <= FRAME_BYTES_MAX:
                self.kill()
                return
            if len(self._buffer) < 4 + length:
                return
            payload = bytes(self._buffer[HEAD.size : 4 + length])
            del self._buffer[: 4 + length]
            waiting = self._waiting.pop(identity, None)
            if waiting is None:
                self.on_frame(self, identity, status, payload)
            elif not waiting.done():
                waiting.set_result((status, payload))

    def connection_lost(self, _error: Exception | None) -> None:
        self._lost = True
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(ChildFailed("the policy engine ended"))
        self._waiting.clear()
        self.on_lost(self)


def _nobody(*_: object) -> None:
    """Where nobody listens yet."""
