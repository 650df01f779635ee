"""Twins served by themselves: built from their files, started, and stopped by a signal."""

import asyncio
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from sidecar import clock
from sidecar.errors import Problem, SidecarError
from sidecar.twins.files import load_twins
from sidecar.twins.group import TwinGroup
from sidecar.twins.serving.driver import Hall
from sidecar.twins.serving.files import key_of, new_key
from sidecar.twins.serving.http import TwinServer
from sidecar.twins.state.files import with_state


class Asked(Struct, frozen=True, kw_only=True):
    """What is served, and where. ``key_file`` None: the control key is told once and not kept."""

    twins: tuple[Path, ...]
    listen: str
    state: Path | None = None
    key_file: Path | None = None
    silence_seconds: float = 30.0
    mcp: bool = False


class Serving(Struct, frozen=True, kw_only=True):
    """What a started server tells: its address, the upstreams under it, the MCP server if it is one
    (else empty), the twins' digests, whose state they have, and the control key where no file
    holds it.
    """

    address: str
    upstreams: dict[str, str]
    twins: dict[str, str]
    state: dict[str, Any] = {}
    mcp: str = ""
    control_key: str = ""


def group_of(twins: Sequence[Path], state: Path | None) -> TwinGroup:
    """The twins, with their state. Raises SidecarError."""
    group = load_twins(list(twins)).group
    problems: list[Problem] = group.problems()
    if problems:
        raise SidecarError("; ".join(one.text for one in problems), where=str(twins[0]))
    return with_state(group, state) if state is not None else group


def serve_twins(asked: Asked, ready: Callable[[Serving], None]) -> int:
    """Serve until SIGTERM or SIGINT; how many episodes were open then, and taken back."""
    return asyncio.run(_serve(asked, ready))


async def _serve(asked: Asked, ready: Callable[[Serving], None]) -> int:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    group = group_of(asked.twins, asked.state)
    key = key_of(asked.key_file, make=True) if asked.key_file is not None else new_key()
    hall = Hall(group, clock.random_bytes(32), new_id=clock.new_id)
    server = TwinServer(
        hall, key, listen=asked.listen, mcp=asked.mcp, silence_seconds=asked.silence_seconds
    )
    await server.start()
    try:
        host = asked.listen.rpartition(":")[0]
        address = f"http://{host}:{server.port}"
        ready(
            Serving(
                address=address,
                upstreams={name: f"{address}/{name}" for name in server.upstreams},
                twins=group.digests(),
                state=group.state_of(clock.now_ns()),
                mcp=f"{address}/mcp" if asked.mcp else "",
                control_key="" if asked.key_file is not None else key,
            )
        )
        await stop.wait()
    finally:
        await server.stop()
    left = hall.names
    for name in left:
        hall.end(name, clock.now_ns(), settle=False)
    return len(left)
