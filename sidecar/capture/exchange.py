"""One HTTP exchange as an event: what was asked, what was answered, and the answer again.

**Rules**
1. A POST of a model's request to a path that model endpoints have is an ``llm_call`` at the seam
   PROVIDER, its payloads the bodies as the client has them; any other exchange is a call at the
   seam HTTP, ``{method, url, query, headers, body}`` and ``{status, headers, body}``.
2. No secret is ever put in a payload, whatever redaction follows: headers and query values whose
   names say credential or cookie are replaced here, user and password in a URL left out.
3. What a client library or a hop adds of its own (lengths, ids of requests, tracing, its version)
   is no part of what was asked.
4. How an answer was written on the wire (status, headers, spelling of its JSON) is in ``attr`` of a
   model's, which is in no identity; with payload and pieces it gives the answer's bytes again.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal
from urllib.parse import parse_qs, urlsplit

from msgspec import Struct

from sidecar.capture import bodies
from sidecar.tape.model import Kind, Seam
from sidecar.tape.value import address

Headers = Sequence[tuple[str, str]]
BODY_BYTES_MAX: Final = 32 * 1024 * 1024
HIDDEN: Final = "[secret]"
_PATHS: Final = (
    "/chat/completions",
    "/completions",
    "/responses",
    "/messages",
    "/embeddings",
    ":generatecontent",
    ":streamgeneratecontent",
)
_TOLD: Final = ("messages", "input", "prompt", "contents")
_IN_PATH: Final = re.compile(r"/(?:models|deployments)/([^/:]{1,200})")
_SECRET: Final = re.compile(
    r"(?:^|[-_])(?:auth|\w*authorization|\w*token|\w*secret|password|passwd|pwd|cookies?"
    r"|credentials?|sig|signature|session\w*|sid|assertion|jwt)(?:$|[-_])"
    r"|^key$|(?:api|access|secret|private|subscription|client|license|auth)[-_]?key(?:$|[-_])"
)
_PAGING: Final = re.compile(
    r"^(?:next|prev|page|continuation|sync|cursor)[-_]?(?:page)?[-_]?token$"
)
_PLUMBING: Final = frozenset(
    (
        *("accept-encoding", "connection", "content-length", "expect", "host", "keep-alive"),
        *("proxy-connection", "te", "trailer", "transfer-encoding", "upgrade", "user-agent"),
        *("traceparent", "tracestate", "baggage", "b3", "sentry-trace", "x-amzn-trace-id"),
        *("x-request-id", "request-id", "x-client-request-id", "x-correlation-id", "date"),
        *("amz-sdk-invocation-id", "amz-sdk-request", "x-goog-api-client"),
    )
)
_PLUMBING_STARTS: Final = ("x-stainless-", "x-b3-", "x-datadog-", "x-cloud-trace", "x-amz-date")
_STATUS: Final = re.compile(r"HTTP ([1-5]\d\d)")
_MINE: Final = ("stainless-",)  # values by which a client numbers its own attempts


class Request(Struct, frozen=True, kw_only=True):
    """What a client sends; ``url`` is absolute."""

    method: str
    url: str
    headers: Headers = ()
    body: bytes = b""


class Call(Struct, frozen=True, kw_only=True):
    """What to enter a session with."""

    kind: Kind
    seam: Seam
    name: str
    given: Any
    attributes: dict[str, Any]


class Reply(Struct, frozen=True, kw_only=True):
    """An answer as it is to be sent again; ``hint`` is how its body was written."""

    status: int
    reason: str
    headers: Headers
    body: Any = None
    hint: dict[str, Any] = {}


def call_of(request: Request) -> Call:
    """A request as an event's input."""
    url = urlsplit(request.url)
    method = request.method.upper()
    headers = dict_of(request.headers)
    body = bodies.asked(request.body, str(headers.get("content-type", "")))
    place = f"{url.hostname or ''}{url.path}"
    bare = f"{url.scheme}://{url.netloc.rpartition('@')[2]}{url.path}"
    model = _model(method, url.path, body)
    if model is not None:
        given = body if "model" in body else {**body, "model": model}
        return Call(
            kind="llm_call",
            seam="provider",
            name=model,
            given=given,
            attributes={"request": {"method": method, "url": bare}},
        )
    return Call(
        kind="tool_call",
        seam="http",
        name=f"{method} {place}",
        given={
            "method": method,
            "url": bare,
            "query": _query(url.query),
            "headers": _asked_headers(headers),
            "body": body,
        },
        attributes={},
    )


def unread(request: Request) -> Call:
    """A request that could not be taken apart: its method, and a digest of its bytes for a body."""
    method = request.method.upper()
    given = {"method": method, "body": address(request.body)}
    return Call(kind="tool_call", seam="http", name=method, given=given, attributes={})


def out_of(seam: Seam, reply: Reply, *, streamed: Any = None) -> tuple[Any, dict[str, Any]]:
    """An answer as an event's output, and what goes to its attributes.

    ``streamed``: of a streamed answer, what its pieces make together.
    """
    headers, cookies = _answered_headers(reply.headers)
    wire: dict[str, Any] = {**({"cookies": cookies} if cookies else {}), **reply.hint}
    if reply.reason:
        wire["reason"] = reply.reason
    body = reply.body if streamed is None else streamed
    if seam == "provider":
        wire |= {"status": reply.status, "headers": headers}
        return body, {"http": wire}
    return {"status": reply.status, "headers": headers, "body": body}, {
        "http": wire
    } if wire else {}


def reply_of(seam: Seam, out: Any, attributes: Mapping[str, Any]) -> Reply:
    """The answer again, from an event's output and attributes."""
    wire = attributes.get("http") or {}
    if seam == "http" and not (isinstance(out, dict) and "status" in out):
        # A result that a replay declares, and that is only the body of one.
        out = {"status": 200, "headers": {"content-type": "application/json"}, "body": out}
    of = wire if seam == "provider" else out
    found: list[tuple[str, str]] = []
    for name, value in (of.get("headers") or {}).items():
        found += [(name, str(one)) for one in (value if isinstance(value, list) else [value])]
    found += [("set-cookie", f"{one[0]}={HIDDEN}{one[1]}") for one in wire.get("cookies", ())]
    return Reply(
        status=int(of.get("status") or 200),
        reason=str(wire.get("reason", "")),
        headers=found,
        body=out if seam == "provider" else of.get("body"),
        hint={key: wire[key] for key in ("text", "spelling") if key in wire},
    )


def failure_of(error: tuple[str, str | None]) -> Reply | None:
    """The answer that an error of a status is, where no more is known of it; None of any other."""
    found = _STATUS.fullmatch(error[0])
    if found is None:
        return None
    return Reply(
        status=int(found[1]),
        reason=error[1] or "",
        headers=[("content-type", "application/json")],
        body={"error": {"message": error[1] or error[0]}},
    )


def error_of(reply: Reply) -> tuple[Literal["ok", "error"], tuple[str, str | None] | None]:
    """Status and error of an event whose answer this is."""
    if reply.status < 400:
        return "ok", None
    return "error", (f"HTTP {reply.status}", reply.reason)


def usage_of(body: Any) -> dict[str, int]:
    """Tokens a model's answer says were used, in the words of our own usage records."""
    said = body.get("usage", body.get("usageMetadata")) if isinstance(body, dict) else None
    if not isinstance(said, dict):
        return {}
    details = {
        key: item for part in said.values() if isinstance(part, dict) for key, item in part.items()
    }
    cached = ("cache_read_input_tokens", "cached_tokens", "cachedContentTokenCount")
    found = {
        "input": _first(said, ("input_tokens", "prompt_tokens", "promptTokenCount")),
        "output": _first(said, ("output_tokens", "completion_tokens", "candidatesTokenCount")),
        "cache_read": _first({**details, **said}, cached),
        "cache_write": _first(said, ("cache_creation_input_tokens",)),
        "reasoning": _first({**details, **said}, ("reasoning_tokens", "thoughtsTokenCount")),
    }
    return {key: count for key, count in found.items() if count is not None}


def dict_of(headers: Headers) -> dict[str, Any]:
    """Headers by lower-case name; those that stand several times as a list."""
    found: dict[str, Any] = {}
    for name, value in headers:
        key = name.lower()
        if key not in found:
            found[key] = value
        elif isinstance(found[key], list):
            found[key].append(value)
        else:
            found[key] = [found[key], value]
    return found


def is_secret(name: str) -> bool:
    """Whether a header or a query's key names a credential."""
    folded = name.lower()
    return _SECRET.search(folded) is not None and _PAGING.match(folded) is None


def _model(method: str, path: str, body: Any) -> str | None:
    """The model a request asks; None where it asks none."""
    if method != "POST" or not isinstance(body, dict) or not path.lower().endswith(_PATHS):
        return None
    if not any(key in body for key in _TOLD):
        return None
    model = body.get("model")
    if isinstance(model, str) and model:
        return model
    found = _IN_PATH.search(path)
    return found[1] if found is not None else None


def _query(text: str) -> dict[str, Any]:
    try:
        found = parse_qs(text, keep_blank_values=True, max_num_fields=bodies.FIELDS_MAX)
    except ValueError:
        return {"": [text]}
    return {key: [HIDDEN] if is_secret(key) else values for key, values in found.items()}


def _asked_headers(headers: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in headers.items():
        if name in _PLUMBING or name.startswith(_PLUMBING_STARTS):
            continue
        if is_secret(name):
            found[name] = HIDDEN
        elif not str(value).startswith(_MINE):
            found[name] = _boundless(value) if name == "content-type" else value
    return found


def _answered_headers(headers: Headers) -> tuple[dict[str, Any], list[list[str]]]:
    cookies: list[list[str]] = []
    kept: list[tuple[str, str]] = []
    for name, value in headers:
        if name.lower() in ("set-cookie", "set-cookie2"):
            pair, semicolon, rest = value.partition(";")
            cookies.append([pair.partition("=")[0].strip(), semicolon + rest])
        elif is_secret(name):
            kept.append((name, HIDDEN))
        else:
            kept.append((name, value))
    return dict_of(kept), cookies


def _boundless(value: Any) -> Any:
    text = str(value)
    parts = [one for one in text.split(";") if not one.strip().lower().startswith("boundary=")]
    return ";".join(parts) if text.lower().startswith("multipart/") else value


def _first(said: Mapping[str, Any], names: Iterable[str]) -> int | None:
    for name in names:
        count = said.get(name)
        if isinstance(count, int) and not isinstance(count, bool) and count >= 0:
            return count
    return None
