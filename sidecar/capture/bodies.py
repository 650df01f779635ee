"""Bodies of requests and answers as payloads of a tape, and back.

**Rules**
1. JSON objects and lists are parsed, forms and multipart bodies taken apart so that their fields
   are redacted by name; other UTF-8 is text, the rest bytes. Nothing is ``None``.
2. An answer's body comes back byte for byte: what the payload does not say of its spelling is in
   ``hint``. A request's need not: it is compared, never sent again.
3. A boundary is no content, and stands nowhere.
"""

from typing import Any, Final
from urllib.parse import parse_qs

from sidecar.capture.spelling import parsed, spelled

FIELDS_MAX: Final = 1000
_JSON_STARTS: Final = (b"{", b"[")


def answered(data: bytes) -> tuple[Any, dict[str, Any]]:
    """An answer's body as payload, and the hint with which ``written`` gives the bytes back."""
    if not data:
        return None, {}
    if data.lstrip()[:1] in _JSON_STARTS:
        try:
            text = data.decode()
            value, spelling = parsed(text)
        except (ValueError, RecursionError):
            return _plain(data), {}
        if spelling is None:
            return value, {"text": text}
        return value, {"spelling": spelling} if spelling else {}
    return _plain(data), {}


def written(body: Any, hint: dict[str, Any]) -> bytes:
    """The bytes of an answer's body, from payload and hint."""
    if body is None:
        return b""
    if isinstance(body, bytes):
        return body
    if isinstance(body, str):
        return body.encode(errors="replace")
    text = hint.get("text")
    if isinstance(text, str) and _says(text, body):
        return text.encode(errors="replace")
    return spelled(body, hint.get("spelling", {})).encode(errors="replace")


def asked(data: bytes, content_type: str) -> Any:
    """A request's body as payload."""
    if not data:
        return None
    media, _, parameters = content_type.partition(";")
    media = media.strip().lower()
    if data.lstrip()[:1] in _JSON_STARTS:
        try:
            return parsed(data.decode())[0]
        except (ValueError, RecursionError):
            return _plain(data)
    if media == "multipart/form-data":
        boundary = _parameter(parameters, "boundary")
        parts = _parts(data, boundary) if boundary else None
        if parts is not None:
            return {"multipart": parts}
    if media == "application/x-www-form-urlencoded":
        try:
            return {
                "form": parse_qs(data.decode(), keep_blank_values=True, max_num_fields=FIELDS_MAX)
            }
        except ValueError:
            pass
    return _plain(data)


def _says(text: str, body: Any) -> bool:
    """Whether a text is still the body's: a replay may change one of them."""
    try:
        return bool(parsed(text)[0] == body)
    except (ValueError, RecursionError):
        return False


def _plain(data: bytes) -> Any:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data


def _parts(data: bytes, boundary: str) -> list[dict[str, Any]] | None:
    """A multipart body's parts in order; None where it is not of that form."""
    mark = b"--" + boundary.encode(errors="replace")
    pieces = data.split(mark)
    if len(pieces) < 3 or len(pieces) > FIELDS_MAX or pieces[-1].strip() != b"--":
        return None
    found: list[dict[str, Any]] = []
    for piece in pieces[1:-1]:
        head, gap, body = piece.removeprefix(b"\r\n").partition(b"\r\n\r\n")
        if not gap:
            return None
        part: dict[str, Any] = {}
        for line in head.decode(errors="replace").split("\r\n"):
            name, _, value = line.partition(":")
            if name.strip().lower() == "content-disposition":
                for key in ("name", "filename"):
                    word = _parameter(value, key)
                    if word:
                        part[key] = word
            elif name.strip().lower() == "content-type":
                part["type"] = value.strip()
        content = body.removesuffix(b"\r\n")
        # A field's value stands under its name, so that a secret's is known as one.
        value = asked(content, part.get("type", ""))
        name = part.pop("name", "")
        found.append({**part, "field": {name: value}} if name else {**part, "value": value})
    return found


def _parameter(text: str, name: str) -> str:
    for one in text.split(";"):
        key, _, value = one.partition("=")
        if key.strip().lower() == name:
            return value.strip().strip('"')
    return ""
