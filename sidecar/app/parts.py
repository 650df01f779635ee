"""Parts of a process that start and stop."""

from contextlib import AsyncExitStack
from typing import Protocol


class Part(Protocol):
    async def start(self) -> None: ...

    async def stop(self) -> None: ...


async def start(stack: AsyncExitStack, part: Part) -> None:
    stack.push_async_callback(part.stop)
    await part.start()
