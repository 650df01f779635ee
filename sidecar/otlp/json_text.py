"""JSON of a request as plain values, within bounds of memory and depth.

Rules
1. A text with more objects and lists than allowed is TooMany before it is parsed: each costs about
   two hundred bytes, however few it takes to write.
2. Lone surrogates become U+FFFD; NaN and Infinity become None.
3. What nests deeper than a parser goes becomes null where that can be told cheaply; its siblings
   stay.
"""

import json
import re
from typing import Any

import msgspec

from processors.value import clean
from sidecar.otlp.errors import TooMany, Undecodable

_TEXT = rb'"(?:[^"\\]|\\.)*"'
_TEXTS = re.compile(_TEXT, re.DOTALL)
_BRACKETS = re.compile(_TEXT + rb"|[\[\]{}]", re.DOTALL)
# An attribute's own value begins at depth 9; one hundred levels of AnyValue are four hundred more.
_DEPTH_MAX = 450
_CUT_BRACKETS_MAX = 400_000


def parse_json(payload: bytes, nodes_max: int) -> Any:
    """The plain value of a JSON text. Raises Undecodable and TooMany."""
    _count(payload, nodes_max)
    try:
        return msgspec.json.decode(payload)
    except RecursionError:
        return _parsed(_shallow(payload))
    except ValueError:
        return _parsed(payload)  # a lenient parser takes surrogates, NaN, doubles out of range


def _parsed(payload: bytes) -> Any:
    try:
        return clean(json.loads(payload.decode("utf-8", "replace")))
    except (ValueError, RecursionError) as error:
        raise Undecodable(f"not JSON: {error}") from error


def _count(payload: bytes, nodes_max: int) -> None:
    """Raise TooMany for too many objects and lists; texts hold brackets too, which count last."""
    if payload.count(b"{") + payload.count(b"[") <= nodes_max:
        return
    bare = _TEXTS.sub(b"", payload)
    if bare.count(b"{") + bare.count(b"[") > nodes_max:
        raise TooMany(f"the request has more than {nodes_max} objects and lists; send smaller ones")


def _shallow(payload: bytes) -> bytes:
    """The text with null for each object or list at ``_DEPTH_MAX``. Raises Undecodable."""
    kept: list[bytes] = []
    depth = begin = seen = 0
    for match in _BRACKETS.finditer(payload):
        sign = payload[match.start()]
        if sign == 0x22:
            continue
        seen += 1
        if seen > _CUT_BRACKETS_MAX:
            raise Undecodable("not JSON: it nests too deep")
        if sign in b"[{":
            depth += 1
            if depth == _DEPTH_MAX:
                kept += (payload[begin : match.start()], b"null")
        else:
            depth -= 1
            if depth == _DEPTH_MAX - 1:
                begin = match.end()
    if depth != 0:
        raise Undecodable("not JSON: brackets do not match")
    return b"".join((*kept, payload[begin:]))
