"""urllib3 (2 and newer), and with it requests: ``HTTPConnectionPool._make_request``, an attempt.

Played, no connection is made, the wait before another attempt is left out, and urllib3's own
response reads what the tape holds.
"""

import sys
from collections.abc import Callable
from functools import wraps
from typing import Any, Final

from sidecar.capture.encodings import Known
from sidecar.capture.exchange import Request
from sidecar.capture.seams import sockets
from sidecar.capture.seams.exchanges import Unsent, close_at_end, enter
from sidecar.capture.seams.install import patch
from sidecar.capture.seams.session import Session, active, current

_PORTS: Final = {"http": 80, "https": 443}
_MAKES: Final = "_make_request"


def install(session: Session) -> None:
    """Patch the connection pool. Raises where this urllib3 is of another shape."""
    close_at_end(session)
    library: Any = sys.modules["urllib3"]
    pool = library.connectionpool.HTTPConnectionPool
    if int(str(library.__version__).partition(".")[0]) < 2:
        raise NotImplementedError("urllib3 before 2")
    patch(session, pool, _MAKES, _made(library, vars(pool)[_MAKES]))
    secure = library.connectionpool.HTTPSConnectionPool
    patch(session, secure, "_prepare_proxy", _prepared(vars(secure)["_prepare_proxy"]))
    retry = library.util.retry.Retry
    patch(session, retry, "sleep", _slept(vars(retry)["sleep"]))


def _made(library: Any, original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def _make_request(
        self: Any,
        conn: Any,
        method: str,
        url: str,
        body: Any = None,
        headers: Any = None,
        **more: Any,
    ) -> Any:
        session = current()
        if session is None:
            return original(self, conn, method, url, body=body, headers=headers, **more)
        data = materialised(body)
        asked = Request(
            method=method, url=_absolute(self, url), headers=_pairs(headers), body=data or b""
        )
        x = enter(session, asked)
        if x is None:
            return original(self, conn, method, url, body=data, headers=headers, **more)
        if isinstance(x, Unsent):
            return _played(library, x, self, conn, method, url, more)
        preload = more.pop("preload_content", True)
        try:
            with x.inside():
                response = original(
                    self,
                    conn,
                    method,
                    url,
                    body=data,
                    headers=headers,
                    preload_content=False,
                    **more,
                )
        except BaseException as error:
            x.failed(error)
            raise
        sockets.tapped(x, response._original_response, _known(library))
        if preload:  # as its constructor does, once what it reads is recorded
            response._body = response.read(decode_content=more.get("decode_content", True))
        return response

    return _make_request


def _played(
    library: Any, x: Unsent, pool: Any, conn: Any, method: str, url: str, more: dict[str, Any]
) -> Any:
    raw = sockets.played(
        x,
        method,
        library.exceptions.ProtocolError,
        library.exceptions,
        pool=pool,
        url=url,
        conn=conn,
        original_error=ConnectionError(),
    )
    response = library.response.HTTPResponse(
        body=raw,
        headers=library.HTTPHeaderDict(raw.msg.items()),
        status=raw.status,
        version=raw.version,
        reason=raw.reason,
        preload_content=more.get("preload_content", True),
        decode_content=more.get("decode_content", True),
        original_response=raw,
        enforce_content_length=more.get("enforce_content_length", True),
        request_method=method,
        request_url=url,
    )
    response.retries = more.get("retries")
    response._connection = more.get("response_conn")
    response._pool = pool
    return response


def _prepared(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def _prepare_proxy(self: Any, conn: Any) -> Any:
        session = active()
        if session is not None and not (session.live("http") or session.live("provider")):
            return None
        return original(self, conn)

    return _prepare_proxy


def _slept(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def sleep(self: Any, response: Any = None) -> Any:
        session = active()
        return (
            None if session is not None and not session.live("http") else original(self, response)
        )

    return sleep


def materialised(body: Any) -> bytes | None:
    """A request's body as bytes, whatever it is given as."""
    if body is None or isinstance(body, bytes):
        return body
    if isinstance(body, str):
        return body.encode()
    if isinstance(body, bytearray | memoryview):
        return bytes(body)
    if hasattr(body, "read"):
        read = body.read()
        return read.encode() if isinstance(read, str) else bytes(read)
    return b"".join(part.encode() if isinstance(part, str) else bytes(part) for part in body)


def _absolute(pool: Any, url: str) -> str:
    if not url.startswith("/"):
        return url  # to a proxy
    host = f"[{pool.host}]" if ":" in pool.host and not pool.host.startswith("[") else pool.host
    port = "" if pool.port in (None, _PORTS.get(pool.scheme)) else f":{pool.port}"
    return f"{pool.scheme}://{host}{port}{url}"


def _pairs(headers: Any) -> list[tuple[str, str]]:
    return [(header_text(name), header_text(value)) for name, value in (headers or {}).items()]


def header_text(value: Any) -> str:
    """A header's name or value as text."""
    return value.decode("iso-8859-1") if isinstance(value, bytes) else str(value)


def _known(library: Any) -> Known:
    response = library.response
    found: dict[str, Any] = {}
    if getattr(response, "HAS_ZSTD", False):
        found["zstd"] = response.ZstdDecoder
    if getattr(response, "brotli", None) is not None:
        found["br"] = response.BrotliDecoder
    return found
