"""How the demo's own services listen: saying where, until they are told to stop.

Rules
1. The address is printed once the socket accepts, so that a parent never has to guess or poll.
2. SIGTERM and SIGINT end a service at once: handlers still waiting are cancelled, not waited for.
"""

import argparse
import asyncio
import signal

from aiohttp import web


def listening(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """The arguments of every such service: loopback and any free port unless told otherwise."""
    parser.add_argument("--host", default="127.0.0.1", help="a container listens on 0.0.0.0")
    parser.add_argument("--port", type=int, default=0)
    return parser


async def serve(app: web.Application, host: str, port: int) -> None:
    """Serve on ``host``:``port`` (0 = any free one) and print ``listening URL``."""
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    site = web.TCPSite(runner, host, port)
    await site.start()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    print(f"listening http://{host}:{runner.addresses[0][1]}", flush=True)
    try:
        await stop.wait()
    finally:
        await runner.cleanup()
