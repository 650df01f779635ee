"""How the demo's own services listen: on loopback, saying where, until they are told to stop.

Rules
1. The address is printed once the socket accepts, so that a parent never has to guess or poll.
2. SIGTERM and SIGINT end a service at once: handlers still waiting are cancelled, not waited for.
"""

import asyncio
import signal

from aiohttp import web


async def serve(app: web.Application, port: int) -> None:
    """Serve on 127.0.0.1:``port`` (0 = any free one) and print ``listening URL``."""
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", port)
    await site.start()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    print(f"listening http://127.0.0.1:{runner.addresses[0][1]}", flush=True)
    try:
        await stop.wait()
    finally:
        await runner.cleanup()
