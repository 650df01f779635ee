"""The listener of Prometheus and of who asks whether the sidecar lives and is ready."""

from collections.abc import Awaitable, Callable

from aiohttp import web
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from sidecar.listen.fault import ConnectionLimits
from sidecar.listen.files import Certificate
from sidecar.listen.http import Listener, Manners
from sidecar.telemetry import REGISTRY, Faults, cannot_listen


class MetricsServer:
    """``/metrics``, ``/healthz`` and ``/readyz``; none of them needs a key or tells content.

    ``reasons``: why the sidecar is not ready now, set once everything is started.
    """

    def __init__(
        self,
        host: str,
        port: int,
        limits: ConnectionLimits = ConnectionLimits(connections_max=64),  # noqa: B008 - frozen
        tls: Certificate | None = None,
    ) -> None:
        self._address = (host, port)
        self.reasons: Callable[[], Awaitable[list[str]]] = _starting
        app = web.Application()
        app.router.add_get("/metrics", self._metrics)
        app.router.add_get("/healthz", self._health)
        app.router.add_get("/readyz", self._readiness)
        manners = Manners(record=Faults("metrics").record, limits=limits, tls=tls)
        self._listener = Listener(app, host, port, manners)

    @property
    def port(self) -> int:
        """The bound port."""
        return self._listener.port

    async def start(self) -> None:
        """Bind and serve. Raises SidecarError when the address is taken."""
        try:
            await self._listener.start()
        except OSError as error:
            raise cannot_listen("metrics.listen", *self._address, error) from None

    async def stop(self) -> None:
        """Stop serving. Safe without start and twice."""
        await self._listener.stop()

    async def _metrics(self, _: web.Request) -> web.Response:
        return web.Response(
            body=generate_latest(REGISTRY), headers={"Content-Type": CONTENT_TYPE_LATEST}
        )

    async def _health(self, _: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def _readiness(self, _: web.Request) -> web.Response:
        reasons = await self.reasons()
        if not reasons:
            return web.Response(text="ready\n")
        return web.Response(text="\n".join(["not ready", *reasons, ""]), status=503)


async def _starting() -> list[str]:
    return ["the sidecar is starting"]
