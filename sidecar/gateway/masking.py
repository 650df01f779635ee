"""Answers told without some of their values, as an obligation of the decision asks.

**Rules**
1. What must be masked and cannot be is withheld: an answer that is no plain JSON does not leave.
2. Numbers of an answer are kept as they are written.
"""

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import msgspec
from msgspec import structs

from processors.model.call import Decision
from sidecar.gateway.policy.obligations import of_type
from sidecar.gateway.upstream import UpstreamReply

MASKED = "**REDACTED**"
WITHHELD = (
    b'{"code":"answer_withheld","detail":"policy lets this answer be told only without some of its'
    b' values, and they cannot be taken out of it; the call was made"}'
)
_OF_THE_BYTES = frozenset({"etag", "digest", "content-digest", "repr-digest", "content-md5"})
_BODY_HEADERS = frozenset({"content-type", "content-encoding", "content-language"})
_decoder = msgspec.json.Decoder(Any, float_hook=Decimal)
_encoder = msgspec.json.Encoder(decimal_format="number")


def masked_paths(decision: Decision | None) -> tuple[str, ...]:
    """The JSON pointers whose values an answer must be told without."""
    return tuple(path for each in of_type(decision, "mask_response") for path in each["paths"])


def mask(answer: UpstreamReply, paths: Sequence[str]) -> UpstreamReply:
    """The answer without these values; without its body where they cannot be taken out."""
    if not answer.body:
        return answer
    headers = [pair for pair in answer.headers if pair[0].lower() not in _OF_THE_BYTES]
    body = _without(answer, paths)
    if body is None:
        kept = [pair for pair in headers if pair[0].lower() not in _BODY_HEADERS]
        headers, body = [*kept, ("content-type", "application/json")], WITHHELD
    return structs.replace(answer, headers=tuple(headers), body=body)


def _without(answer: UpstreamReply, paths: Sequence[str]) -> bytes | None:
    said = {name.lower(): value for name, value in answer.headers}
    if said.get("content-encoding", "identity").strip().lower() != "identity":
        return None
    media = said.get("content-type", "").partition(";")[0].strip().lower()
    if media != "application/json" and not media.endswith("+json"):
        return None
    try:
        document = _decoder.decode(answer.body)
    except (msgspec.DecodeError, ValueError, ArithmeticError, RecursionError):
        return None
    for path in paths:
        _hide(document, [_unescaped(part) for part in path.split("/")[1:]])
    return _encoder.encode(document)


def _hide(value: Any, parts: list[str]) -> None:
    """Replace what a pointer names; ``-`` is every item of an array."""
    part, rest = parts[0], parts[1:]
    for place in _places(value, part):
        if rest:
            _hide(value[place], rest)
        else:
            value[place] = MASKED


def _places(value: Any, part: str) -> list[Any]:
    if isinstance(value, dict):
        return [part] if part in value else []
    if not isinstance(value, list):
        return []
    if part == "-":
        return list(range(len(value)))
    return [int(part)] if part.isdecimal() and int(part) < len(value) else []


def _unescaped(part: str) -> str:
    return part.replace("~1", "/").replace("~0", "~")
