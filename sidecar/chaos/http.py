"""The upstream of a crash proof: it counts what happened in a database of its own, and kills.

**Rules**
1. An effect is one committed row, made when a whole request has been read and never before.
2. ``keyed`` makes one effect a key and gives the same answer again; the others make one a request.
3. ``kill`` is called where the armed case says: half of the body read, or the effect committed and
   nothing answered. The killed client's bytes that still arrive count, as they would anywhere.
4. Its ``manner`` is how it answers once the effect is made.
"""

import asyncio
import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Literal
from urllib.parse import parse_qs, urlsplit

from sidecar.chaos.plan import Step, Upstream

_HEAD_BYTES_MAX = 64 * 1024
Manner = Literal["answers", "hangs", "breaks off", "speaks nonsense", "fails"]
_HANG_SECONDS = 60.0
_SCHEMA = "CREATE TABLE effect (number INTEGER PRIMARY KEY, order_id TEXT, key TEXT)"


class Held:
    """Requests that wait for their answers. ``all_here`` once ``count`` do; ``answer`` lets go."""

    def __init__(self, count: int) -> None:
        self._missing = count
        self.all_here = asyncio.Event()
        self.answer = asyncio.Event()

    async def wait_with_all(self) -> None:
        """One more is here; returns when it may be answered."""
        self._missing -= 1
        if self._missing <= 0:
            self.all_here.set()
        await self.answer.wait()


class ChaosShop:
    """Takes refunds and notes, and tells what it has. ``start``, then ``port``; ``stop``."""

    def __init__(self, folder: Path, upstream: Upstream) -> None:
        self._upstream = upstream
        self._database = sqlite3.connect(folder / "upstream.db", isolation_level=None)
        self._database.execute("PRAGMA journal_mode=WAL")
        self._database.execute(_SCHEMA)
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._armed: tuple[str, Step] | None = None
        self._kill: Callable[[], None] = lambda: None
        self._held: Held | None = None
        self.manner: Manner = "answers"
        self.port = 0

    async def start(self, port: int = 0) -> None:
        """Listen on a free port of 127.0.0.1, or on the one it had before it was closed."""
        self._server = await asyncio.start_server(
            self._serve, "127.0.0.1", port, limit=_HEAD_BYTES_MAX
        )
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Stop listening; what was counted can still be asked for."""
        if self._server is not None:
            self._server.close()

    async def stop(self) -> None:
        """Stop listening and close the database."""
        await self.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._database.close()

    def arm(self, order: str, step: Step, kill: Callable[[], None]) -> None:
        """Kill at this step of the call about this order, once."""
        self._armed, self._kill = (order, step), kill

    def disarm(self) -> None:
        """Kill nobody any more."""
        self._armed = None

    def effects(self, order: str) -> int:
        """How many effects there were for an order."""
        with closing(
            self._database.execute("SELECT count(*) FROM effect WHERE order_id = ?", (order,))
        ) as found:
            return int(found.fetchone()[0])

    def hold(self, count: int) -> "Held":
        """From now on answer nobody until it is said; the effects are made."""
        self._held = Held(count)
        return self._held

    async def quiet(self) -> None:
        """Wait until no request is being read or answered."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            while await self._one(reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client was killed: nothing whole came
        except asyncio.CancelledError:
            pass  # the shop closes, with this answer still owed
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, target, _ = head[0].split(" ")
        fields = {
            name.lower(): value.strip()
            for name, _, value in (line.partition(":") for line in head[1:] if line)
        }
        order = [*target.split("/"), "", ""][2]
        await self._read(reader, int(fields.get("content-length", 0)), order)
        if method == "GET":
            status, answer = 200, self._shown(target)
        else:
            status, answer = 201, self._take(order, fields.get("idempotency-key", ""))
        if self._fires(order, "after_send"):
            self._kill()
        if self._held is not None:
            await self._held.wait_with_all()
        if self.manner == "hangs":
            await asyncio.sleep(_HANG_SECONDS)
        if self.manner == "speaks nonsense":
            writer.write(b"220 shop ESMTP ready\r\n")
            return False
        if self.manner == "fails":
            status, answer = 503, {"error": "busy"}
        body = json.dumps(answer).encode()
        if self.manner == "breaks off":
            length = len(body) + 9  # more than comes
            writer.write(f"HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n".encode() + body)
            return False
        writer.write(
            f"HTTP/1.1 {status} OK\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n".encode()
            + body
        )
        await writer.drain()
        return True

    async def _read(self, reader: asyncio.StreamReader, length: int, order: str) -> None:
        half = length // 2
        await reader.readexactly(half)
        if self._fires(order, "mid_send"):
            self._kill()
        await reader.readexactly(length - half)

    def _fires(self, order: str, step: Step) -> bool:
        if self._armed != (order, step):
            return False
        self._armed = None
        return True

    def _take(self, order: str, key: str) -> dict[str, object]:
        known = self._upstream == "keyed" and self._keys(key)
        if not known:
            self._database.execute("INSERT INTO effect (order_id, key) VALUES (?, ?)", (order, key))
        return {"order": order}

    def _shown(self, target: str) -> dict[str, object]:
        asked = parse_qs(urlsplit(target).query).get("key", [""])[0]
        return {"found": self._keys(asked), "path": target}

    def _keys(self, key: str) -> list[str]:
        rows = self._database.execute("SELECT order_id FROM effect WHERE key = ?", (key,))
        return [row[0] for row in rows.fetchall()]
