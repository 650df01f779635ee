"""Bodies of requests that are larger than is held in memory: on disk while their call lasts.

**Rules**
1. A file has no name in its folder: it is gone with its call, and with the process.
2. What is in it is sealed with a key that only this process knows, and only while the call lasts:
   AES-256-GCM, piece by piece, in order.
3. It is hashed, and a form taken apart, while it is written: what is read again is what was
   hashed, or an error.
4. So many at a time, so that they do not fill the disk; what cannot be written refuses its call.
"""

import asyncio
import hashlib
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import IO

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from sidecar.clock import random_bytes
from sidecar.gateway.multipart import Multipart, NotMultipart, Part, boundary_of
from sidecar.gateway.problem import Refused
from sidecar.telemetry import log

MEMORY_BYTES_MAX = 1024**2
AT_ONCE_MAX = 16
_PIECE = 256 * 1024
_TAG = 16
_LOG = log("gateway")


class Spooled:
    """One body on disk; an ``Upload``. ``close`` it when its call has ended. Safe twice."""

    def __init__(self, spools: "Spools", file: IO[bytes], boundary: bytes | None) -> None:
        self._spools = spools
        self._file = file
        self._cipher = AESGCM(random_bytes(32))
        self._hash = hashlib.sha256()
        self._form = Multipart(boundary) if boundary is not None else None
        self._rest = bytearray()
        self._size = self._pieces = 0
        self._closed = False
        self.parts: tuple[Part, ...] | None = None

    def __len__(self) -> int:
        return self._size

    @property
    def digest(self) -> str:
        """``sha256:<hex>`` of all of it."""
        return f"sha256:{self._hash.hexdigest()}"

    async def add(self, data: bytes) -> None:
        """Take what comes. Raises OSError, NotMultipart."""
        self._size += len(data)
        self._rest += data
        while len(self._rest) >= _PIECE:
            piece = bytes(self._rest[:_PIECE])
            del self._rest[:_PIECE]
            await asyncio.to_thread(self._write, piece)

    async def end(self) -> None:
        """All has come. Raises OSError, NotMultipart."""
        if self._rest:
            await asyncio.to_thread(self._write, bytes(self._rest))
            self._rest.clear()
        await asyncio.to_thread(self._file.flush)
        if self._form is not None:
            self.parts = self._form.end()

    async def chunks(self) -> AsyncIterator[bytes]:
        """All of it in order. Raises OSError where it is not what was written."""
        for number in range(self._pieces):
            yield await asyncio.to_thread(self._read, number)

    def close(self) -> None:
        """Let it go."""
        if not self._closed:
            self._closed = True
            self._file.close()
            self._spools.leave()

    def _write(self, piece: bytes) -> None:
        self._hash.update(piece)
        if self._form is not None:
            self._form.feed(piece)
        self._file.write(self._cipher.encrypt(_nonce(self._pieces), piece, None))
        self._pieces += 1

    def _read(self, number: int) -> bytes:
        self._file.seek(number * (_PIECE + _TAG))
        try:
            return self._cipher.decrypt(_nonce(number), self._file.read(_PIECE + _TAG), None)
        except InvalidTag:
            raise OSError("a spooled body is not what was written") from None


class Spools:
    """The bodies on disk of one gateway, in a folder."""

    def __init__(self, folder: Path, *, memory_bytes_max: int = MEMORY_BYTES_MAX) -> None:
        self.memory_bytes_max = memory_bytes_max
        self._folder = folder
        self._open = 0

    async def take(
        self, begun: bytes, rest: AsyncIterator[bytes], content_type: str, bytes_max: int
    ) -> Spooled:
        """A body of which ``begun`` has come already. Raises Refused 400, 413, 503."""
        if self._open >= AT_ONCE_MAX:
            said = "as many large bodies are on their way as there may be"
            raise Refused(503, "spool_full", said, next_action="retry", retry_after=5)
        self._open += 1
        spooled = None
        try:
            boundary = boundary_of(content_type)
            spooled = Spooled(self, await asyncio.to_thread(self._file), boundary)
            await spooled.add(begun)
            async for chunk in rest:
                if len(spooled) + len(chunk) > bytes_max:
                    raise Refused(
                        413, "body_too_large", f"the body is larger than {bytes_max} bytes"
                    )
                await spooled.add(chunk)
            await spooled.end()
            return spooled
        except BaseException as error:
            self._drop(spooled)
            if isinstance(error, NotMultipart):
                what = f"the form cannot be read in one way: {error}"
                raise Refused(400, "form_malformed", what) from error
            if isinstance(error, OSError) and not isinstance(error, ConnectionError):
                _LOG.error("body not spooled", why=error)
                said = "the body could not be kept, so the call was not made"
                raise Refused(
                    *(503, "spool_failed", said), next_action="retry", retry_after=5
                ) from error
            raise

    def _file(self) -> IO[bytes]:
        return tempfile.TemporaryFile(dir=self._folder)

    def leave(self) -> None:
        """One less is on disk."""
        self._open -= 1

    def _drop(self, spooled: Spooled | None) -> None:
        if spooled is None:
            self.leave()
        else:
            spooled.close()


def _nonce(number: int) -> bytes:
    return number.to_bytes(12, "big")
