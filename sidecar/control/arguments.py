"""What came in, as the operation's record: each value by its type, nothing unknown, nothing twice.

Rules
1. Text of a query or path becomes a number only where the record has one; it is never ``null``.
2. A refusal names the field as this program spells it, and repeats nothing that came in.
3. A path that no id can have is no such thing: 404, as for any other unknown id.
"""

import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

import msgspec
from msgspec import NODEFAULT, Struct
from msgspec.inspect import IntType, Metadata, Type, UnionType, type_info

from sidecar.control.operations import Operation
from sidecar.control.requests import Request
from sidecar.gateway.problem import Refused

_NUMBER = re.compile(r"(0|[1-9][0-9]{0,18})\Z")
_PLACE = re.compile(r"\$\.?([A-Za-z_.]*)")


def from_http(
    operation: Operation,
    path: Mapping[str, str],
    query: Iterable[tuple[str, str]],
    body: Any = None,
) -> Request:
    """The record of an HTTP request; ``body`` is None where the operation has none.

    Raises Refused: 400 for the query, 404 for the path, 422 for the body.
    """
    asks = operation.asks
    asked = _query(operation, query)
    _fits(part(asks, operation.in_query), asked, 400, "parameter_malformed")
    try:
        msgspec.convert(dict(path), part(asks, operation.in_path))
    except msgspec.ValidationError:
        raise Refused(404, "no_such_page", "there is no such page") from None
    given: dict[str, Any] = {}
    if operation.in_body:
        if not isinstance(body, dict):
            raise Refused(422, "body_malformed", "the body is not a JSON object")
        given = {name: _whole(value) for name, value in body.items()}
        _fits(part(asks, operation.in_body), given, 422, "body_malformed")
    return msgspec.convert({**asked, **path, **given}, asks)


def from_message(operation: Operation, values: dict[str, Any]) -> Request:
    """The record of a gRPC request. Raises Refused 400."""
    _fits(operation.asks, values, 400, "argument_malformed")
    return msgspec.convert(values, operation.asks)


def _whole(value: Any) -> Any:
    """A whole number however it is written: to JSON Schema 377.0 is an integer."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


@cache
def part(asks: type[Request], names: tuple[str, ...], title: str = "") -> type[Struct]:
    """A record of some of the fields: what comes by query, by path or in a body."""
    fields = [each for each in msgspec.structs.fields(asks) if each.encode_name in names]
    return msgspec.defstruct(
        title or f"{asks.__name__}Part",
        [
            (each.name, each.type)
            if each.default is NODEFAULT
            else (each.name, each.type, each.default)
            for each in fields
        ],
        frozen=True,
        kw_only=True,
        forbid_unknown_fields=True,
    )


def _query(operation: Operation, query: Iterable[tuple[str, str]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, text in query:
        if name not in operation.in_query:
            known = ", ".join(operation.in_query)
            raise Refused(400, "parameter_unknown", f"the query has an unknown name, not: {known}")
        if name in found:
            raise Refused(400, "parameter_repeated", f"{name} stands twice in the query")
        number = name in _numbers(operation.asks) and _NUMBER.match(text)
        found[name] = int(text) if number else text
    return found


def _fits(kind: type[Struct], values: dict[str, Any], status: int, code: str) -> None:
    try:
        msgspec.convert(values, kind)
        msgspec.json.encode(values)  # a text that is no Unicode has no UTF-8 form
    except msgspec.ValidationError as error:
        raise Refused(status, code, _told(error)) from None
    except UnicodeEncodeError:
        raise Refused(status, code, "a text holds half a surrogate pair") from None


def _told(error: msgspec.ValidationError) -> str:
    """Which field does not fit, without what stood there: an unknown name is the caller's text."""
    what, _, where = str(error).partition(" - at ")
    if what.startswith("Object missing required field"):
        return f"{what.partition('`')[2].partition('`')[0]} is missing"
    if what.startswith("Object contains unknown field"):
        return "there is an unknown member (see GET /v1/openapi.json)"
    place = _PLACE.search(where)
    name = place[1] if place else ""
    return f"{name or 'a member'} is not as GET /v1/openapi.json says"


@cache
def _numbers(asks: type[Request]) -> frozenset[str]:
    fields = getattr(type_info(asks), "fields", ())
    return frozenset(each.encode_name for each in fields if _is_number(each.type))


def _is_number(kind: Type) -> bool:
    if isinstance(kind, Metadata):
        return _is_number(kind.type)
    if isinstance(kind, UnionType):
        return any(_is_number(each) for each in kind.types)
    return isinstance(kind, IntType)
