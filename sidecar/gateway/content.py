"""What a request's headers and body say, read strictly: the part of an action that is not its
address.

**Rules**
1. Headers are an allow-list, lower-case, each at most once. Credentials, hop-by-hop, forwarding and
   method-override headers are not on it.
2. A body is identity-encoded, with a declared type; JSON and forms are read strictly, others are
   opaque.
3. Refusals are Refused with 400, 413 or 415 and name what and where; they do not repeat values.
"""

import re
from collections.abc import AsyncIterator, Collection
from typing import Any, Protocol

from msgspec import Struct

from sidecar.canonical import NotCanonical, canonical, sha256
from sidecar.gateway.multipart import Multipart, NotMultipart, Part, boundary_of
from sidecar.gateway.problem import Refused
from sidecar.gateway.strict import NotStrict, read_json
from sidecar.gateway.target import NotCanonicalTarget, Pairs, read_pairs

Headers = tuple[tuple[str, str], ...]

ACTION_HEADERS = frozenset(
    {
        *("accept", "accept-language", "content-type", "range"),
        *("if-match", "if-none-match", "if-modified-since", "if-unmodified-since"),
    }
)
"""Forwarded, judged and hashed."""
TRACING_HEADERS = frozenset({"traceparent", "tracestate", "user-agent"})
"""Forwarded, but new on every attempt, so no part of the action."""
_NEVER = frozenset(
    {
        *("authorization", "cookie", "host", "connection", "keep-alive", "te", "trailer"),
        *("transfer-encoding", "upgrade", "content-length", "content-encoding", "expect"),
        *("forwarded", "x-real-ip", "x-original-url", "x-rewrite-url", "via", "origin"),
        *("x-http-method-override", "x-http-method", "x-method-override", "accept-encoding"),
        *("idempotency-key", "approval-token", "confirm-distinct", "prefer", "baggage"),
    }
)
_FRAMING = frozenset(
    {
        *("host", "connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"),
        *("content-length", "content-encoding", "content-type", "accept-encoding", "expect"),
    }
)
OWS = " \t"
"""White space beside a header's value (RFC 9110 §5.6.3); other blanks are part of it."""
HEADERS_MAX = 100
HEADER_BYTES_MAX = 32 * 1024
MULTIPART = "multipart/form-data"
FORM = "application/x-www-form-urlencoded"
_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+\Z")
_VALUE = re.compile(r"[\x20-\x7e\x80-\xff\t]*\Z")
_JSON = re.compile(r"application/(?:json|[a-z0-9.+-]+\+json)\Z")
_MEDIA_TYPE = re.compile(r"[a-z0-9!#$&^_.+-]+/[a-z0-9!#$&^_.+-]+\Z")


class Uploaded(Protocol):
    """A body that was spooled: hashed, and taken apart where it is a multipart form."""

    @property
    def digest(self) -> str:
        """``sha256:<hex>`` of its bytes."""
        ...

    @property
    def parts(self) -> tuple[Part, ...] | None:
        """Of a multipart form."""
        ...

    def __len__(self) -> int:
        """How many bytes."""
        ...

    def chunks(self) -> AsyncIterator[bytes]:
        """All of them, in order."""
        ...

    def close(self) -> None:
        """Let it go: its call has ended."""
        ...


class Body(Struct, frozen=True, kw_only=True):
    """``value`` is a JSON body's value, ``form`` the pairs of a form, or name and argument of a
    multipart form's parts; ``readable`` is false for any other type. ``jcs_digest``: of what it
    means, where that is not its bytes.
    """

    media_type: str | None = None
    value: Any = None
    form: tuple[tuple[str, Any], ...] | None = None
    digest: str | None = None
    jcs_digest: str | None = None
    readable: bool = True


def is_header(name: str, value: str) -> bool:
    """Whether a header can be written on a wire as it is."""
    return _TOKEN.match(name) is not None and _VALUE.match(value) is not None


def merged(name: str) -> str:
    """A header's name as a server reads it that tells neither case nor ``_`` from ``-`` (CGI)."""
    return name.lower().replace("_", "-")


def never_forwarded(name: str) -> bool:
    """Whether a header is of a connection, a caller or a proxy, and no tool may ask for it."""
    name = merged(name)
    return name in _NEVER or name.startswith(("proxy-", "x-forwarded-", "gateway-", "x-agenttwin-"))


def may_be_ours(name: str) -> bool:
    """Whether the gateway may set a header of this name on its own requests."""
    return is_header(name, "") and merged(name) not in _FRAMING


def read_headers(headers: Headers, also: Collection[str] = ()) -> Headers:
    """The headers that may be forwarded, sorted by name; ``also``: those the tool asks for.

    Raises Refused 400 or 415.
    """
    size = sum(len(name) + len(value) for name, value in headers)
    if len(headers) > HEADERS_MAX or size > HEADER_BYTES_MAX:
        raise Refused(
            400, "headers_too_large", f"more than {HEADERS_MAX} headers or {HEADER_BYTES_MAX} bytes"
        )
    kept: dict[str, str] = {}
    for raw_name, value in headers:
        if not is_header(raw_name, value):
            raise Refused(400, "header_malformed", "a header's name or value is malformed")
        name = raw_name.lower()
        if name == "content-encoding" and value.strip(OWS).lower() not in ("", "identity"):
            raise Refused(
                415, "content_encoding", "the body is encoded; send it with no Content-Encoding"
            )
        if name in ACTION_HEADERS or name in TRACING_HEADERS or name in also:
            if name in kept:
                raise Refused(400, "header_repeated", f"the header {name} stands twice")
            kept[name] = value.strip(OWS)
    return tuple(sorted(kept.items()))


def read_body(
    data: bytes, content_type: str, bytes_max: int, upload: Uploaded | None = None
) -> Body:
    """What the body says, or one that was spooled as it came. Raises Refused 400, 413 or 415."""
    if upload is not None:
        return _uploaded(upload, _media_type(content_type))
    if len(data) > bytes_max:
        raise Refused(413, "body_too_large", f"the body is larger than {bytes_max} bytes")
    if not data:
        return Body()
    parts = _parts(data, content_type)
    if parts is not None:
        return _form(sha256(data), parts)
    media_type = _media_type(content_type)
    if _JSON.match(media_type):
        return _json_body(data, media_type)
    if media_type == FORM:
        pairs = _form_pairs(data)
        meant = sha256(canonical([[*pair] for pair in pairs]))
        return Body(media_type=media_type, form=pairs, digest=sha256(data), jcs_digest=meant)
    return Body(media_type=media_type, digest=sha256(data), readable=False)


def _parts(data: bytes, content_type: str) -> tuple[Part, ...] | None:
    """The parts of a multipart form; None where the type is another."""
    try:
        boundary = boundary_of(content_type)
        if boundary is None:
            return None
        form = Multipart(boundary)
        form.feed(data)
        return form.end()
    except NotMultipart as error:
        what = f"the form cannot be read in one way: {error}"
        raise Refused(400, "form_malformed", what) from error


def _form(digest: str, parts: tuple[Part, ...]) -> Body:
    """A multipart form: what it means are its parts in order, whatever boundary is between."""
    meant = sha256(canonical([part.document for part in parts]))
    named = tuple((part.name, part.argument) for part in parts)
    return Body(media_type=MULTIPART, form=named, digest=digest, jcs_digest=meant)


def _uploaded(upload: Uploaded, media_type: str) -> Body:
    if upload.parts is not None:
        return _form(upload.digest, upload.parts)
    if _JSON.match(media_type) or media_type == FORM:
        what = "a body this large is taken as a multipart form, or unread: send less as JSON"
        raise Refused(413, "body_too_large", what)
    return Body(media_type=media_type, digest=upload.digest, readable=False)


def _media_type(content_type: str) -> str:
    essence, *parameters = (part.strip(OWS) for part in content_type.split(";"))
    if not _MEDIA_TYPE.match(essence.lower()):
        raise Refused(415, "media_type_missing", "the body has no usable Content-Type")
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        charset = value.strip(OWS).strip('"').lower()
        if name.strip(OWS).lower() == "charset" and charset not in ("utf-8", "utf8"):
            raise Refused(415, "charset", "the body's charset is not UTF-8")
    return essence.lower()


def _json_body(data: bytes, media_type: str) -> Body:
    try:
        value = read_json(data)
        jcs_digest = sha256(canonical(value))
    except (NotStrict, NotCanonical) as error:
        raise Refused(400, "json_malformed", f"the body is not strict JSON: {error}") from error
    return Body(media_type=media_type, value=value, digest=sha256(data), jcs_digest=jcs_digest)


def _form_pairs(data: bytes) -> Pairs:
    try:
        return read_pairs(data.decode("ascii"), what="form")
    except UnicodeDecodeError as error:
        raise Refused(
            400, "form_malformed", f"the form is not ASCII at byte {error.start}"
        ) from error
    except NotCanonicalTarget as error:
        raise Refused(400, "form_malformed", str(error)) from error
