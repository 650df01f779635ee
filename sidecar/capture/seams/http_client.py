"""``http.client`` used through ``request`` and ``getresponse``, and so ``urllib.request``.

Who puts a request together line by line (``putrequest``) is not served, and passes unseen.
"""

import http.client
from collections.abc import Callable
from functools import wraps
from typing import Any, Final

from sidecar.capture.exchange import Request
from sidecar.capture.seams import sockets
from sidecar.capture.seams.crossing import Crossing
from sidecar.capture.seams.exchanges import Unsent, close_at_end, enter, failed_sending
from sidecar.capture.seams.install import patch
from sidecar.capture.seams.session import Session, current
from sidecar.capture.seams.urllib3_pool import header_text, materialised

_PENDING: Final = "_agenttwin_crossing"


def install(session: Session) -> None:
    """Patch the connection class; subclasses that have methods of their own go by those."""
    close_at_end(session)
    kind = http.client.HTTPConnection
    patch(session, kind, "request", _requested(kind.request))
    patch(session, kind, "getresponse", _responded(kind.getresponse))


def _requested(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def request(
        self: Any, method: str, url: str, body: Any = None, headers: Any = None, **more: Any
    ) -> None:
        session = current()
        given = {} if headers is None else headers
        if session is None:
            original(self, method, url, body, given, **more)
            return
        data = body.encode("iso-8859-1") if isinstance(body, str) else materialised(body)
        pairs = [(str(name), header_text(value)) for name, value in given.items()]
        asked = Request(method=method, url=_absolute(self, url), headers=pairs, body=data or b"")
        x = enter(session, asked)
        if x is None:
            original(self, method, url, data, given, **more)
            return
        if isinstance(x, Unsent) and x.sending:
            sockets.played(x, method)  # raises what was raised while it was sent
        vars(self)[_PENDING] = x, method
        if isinstance(x, Unsent):
            return
        try:
            with x.inside():
                original(self, method, url, data, given, **more)
        except BaseException as error:
            del vars(self)[_PENDING]
            failed_sending(x, error)
            raise

    return request


def _responded(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def getresponse(self: Any) -> Any:
        pending: tuple[Crossing | Unsent, str] | None = vars(self).pop(_PENDING, None)
        if pending is None:
            return original(self)
        x, method = pending
        if isinstance(x, Unsent):
            return sockets.played(x, method)
        try:
            with x.inside():
                response = original(self)
        except BaseException as error:
            x.failed(error)
            raise
        sockets.tapped(x, response, None)
        return response

    return getresponse


def _absolute(connection: Any, url: str) -> str:
    if "://" in url:
        return url  # to a proxy
    secure = isinstance(connection, http.client.HTTPSConnection)
    host = connection._tunnel_host or connection.host
    port = connection._tunnel_port if connection._tunnel_host else connection.port
    host = f"[{host}]" if ":" in host else host
    usual = port in (None, connection.default_port)
    return f"{'https' if secure else 'http'}://{host}{'' if usual else f':{port}'}{url}"
