"""VCR cassettes as tapes: vcrpy's YAML and JSON, and Ruby's ``http_interactions``.

**Rules**
1. An interaction is a call and its result at the HTTP seam, in the order of the cassette; one with
   a model's endpoint is a model call.
2. Bodies are what they say they are: inflated where gzip or deflate, within bounds, JSON parsed,
   other text as text, other bytes as bytes. A query is parsed, so that its values are redacted.
3. YAML is read by the safe loader: no tag makes anything but text, numbers, bytes, lists and
   mappings; aliases are counted each time they are used.
"""

import base64
import binascii
import zlib
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import msgspec
import yaml

from processors.model.names import Capture
from sidecar.replay.import_tape import Imported, Unimportable, content_id, file_name, lowered
from sidecar.tape.compose import Fact, site
from sidecar.tape.model import Header
from sidecar.tape.value import encoded

_NODES_MAX: Final = 500_000
_BODY_BYTES_MAX: Final = 32 * 1024 * 1024
_MODEL_ENDPOINTS: Final = (
    "/chat/completions",
    "/completions",
    "/responses",
    "/messages",
    "/embeddings",
    ":generateContent",
    ":streamGenerateContent",
)
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Cassette(_Loader):  # type: ignore[misc]
    """Safe, with the two tags that old cassettes have for texts."""


for _tag in ("python/unicode", "python/str"):
    _Cassette.add_constructor(
        f"tag:yaml.org,2002:{_tag}", lambda loader, node: loader.construct_scalar(node)
    )


def cassette(text: bytes, name: str, capture: Capture) -> Imported:
    """The tape of one cassette. Raises Unimportable."""
    value = _read(text)
    if not isinstance(value, dict):
        raise Unimportable("it is no cassette")
    found = value.get("interactions", value.get("http_interactions"))
    if not isinstance(found, list):
        raise Unimportable("it has no interactions")
    facts: list[Fact] = []
    for place, one in enumerate(found):
        try:
            facts += _interaction(one, len(facts))
        except Unimportable as error:
            raise Unimportable(f"interaction {place}: {error}") from None
        except (TypeError, AttributeError, KeyError, ValueError):
            raise Unimportable(f"interaction {place} is not of that shape") from None
    facts.append(Fact(kind="terminal", output={"status": "unset"}))
    header = Header(
        tape_id=content_id("vcr", encoded(_plain(value, [0]))),
        source="import:vcr",
        fidelity=lowered("L2", (), capture),
        mapping="vcr/1",
        labels={"recorded_with": str(value.get("recorded_with") or "vcrpy")},
    )
    return Imported(name=file_name(name), header=header, facts=facts)


def _interaction(one: Any, seq: int) -> Iterator[Fact]:
    request, response = one["request"], one["response"]
    method, url = str(request["method"]).upper(), urlsplit(str(request["uri"]))
    headers_in, headers_out = _headers(request), _headers(response)
    asked, given = _body(request, headers_in), _body(response, headers_out)
    code = int(response["status"]["code"])
    failed = code >= 400
    error = (f"HTTP {code}", str(response["status"].get("message") or "")) if failed else None
    place = f"{url.hostname or ''}{url.path}"
    where = site("vcr", method, "http", place)
    if method == "POST" and isinstance(asked, dict) and url.path.endswith(_MODEL_ENDPOINTS):
        yield Fact(
            kind="llm_call",
            seam="provider",
            name=str(asked.get("model") or place),
            site=where,
            input=asked,
            output=given,
            status="error" if failed else "ok",
            error=error,
        )
        return
    base = f"{url.scheme}://{url.netloc.rpartition('@')[2]}{url.path}"
    query = parse_qs(url.query, keep_blank_values=True, max_num_fields=1000)
    sent = {"method": method, "url": base, "query": query, "headers": headers_in, "body": asked}
    back = {"status": code, "headers": headers_out, "body": given}
    name = f"{method} {place}"
    yield Fact(kind="tool_call", seam="http", name=name, site=where, input=sent)
    yield Fact(
        kind="tool_result",
        seam="http",
        name=name,
        site=where,
        output=back,
        status="error" if failed else "ok",
        error=error,
        cause=(seq,),
    )


def _headers(message: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in (message.get("headers") or {}).items():
        lone = isinstance(value, list) and len(value) == 1
        found[str(name).lower()] = _plain(value[0] if lone else value, [0])
    return found


def _body(message: dict[str, Any], headers: dict[str, Any]) -> Any:
    body = message.get("body")
    if isinstance(body, dict):
        packed = body.get("base64_string")
        body = body.get("string") if packed is None else _unpacked(packed)
    if body is None or body in ("", b""):
        return None
    if isinstance(body, str):
        body = body.encode(errors="surrogatepass")
    if not isinstance(body, bytes):
        raise Unimportable("a body that is neither text nor bytes")
    body = _inflated(body, str(headers.get("content-encoding", "")).lower())
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return body
    if text.lstrip()[:1] in ("{", "["):
        try:
            return msgspec.json.decode(text)
        except (msgspec.DecodeError, RecursionError):
            return text
    return text


def _unpacked(text: Any) -> bytes:
    try:
        return base64.b64decode(str(text), validate=False)
    except binascii.Error:
        raise Unimportable("a body that is no base64") from None


def _inflated(body: bytes, encoding: str) -> bytes:
    """The body without its encoding; as it is where cassettes kept the header and not the form."""
    wbits = {"gzip": 31, "deflate": 47}.get(encoding)
    if wbits is None:
        return body
    inflate = zlib.decompressobj(wbits=wbits)
    try:
        found = inflate.decompress(body, _BODY_BYTES_MAX + 1)
    except zlib.error:
        return body
    if len(found) > _BODY_BYTES_MAX:
        raise Unimportable("a body that unpacks to more than may be")
    return found


def _read(text: bytes) -> Any:
    try:
        if text.lstrip()[:1] == b"{":
            return msgspec.json.decode(text)
        return _plain(yaml.load(text, Loader=_Cassette), [0])  # noqa: S506  a safe loader
    except (yaml.YAMLError, msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError):
        raise Unimportable("it is neither YAML nor JSON that a cassette may hold") from None


def _plain(value: Any, count: list[int]) -> Any:
    """A value of JSON's kinds and bytes; ValueError where it grows beyond what may be."""
    count[0] += 1
    if count[0] > _NODES_MAX:
        raise ValueError("too large")
    if isinstance(value, dict):
        return {str(key): _plain(item, count) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, count) for item in value]
    if isinstance(value, set):
        return sorted((_plain(item, count) for item in value), key=repr)
    return value.isoformat() if isinstance(value, datetime) else value
