"""Finding out whether a call happened: the tool's own recipe, as a request and a judgement.

**Rules**
1. The recipe is a GET and a CEL condition; it never sends the call again.
2. Values put into the recipe are encoded for their place and refused where they could change it.
3. True is done, false is not done; anything else (no answer, an error status, a condition without a
   value) is neither, and a person decides.
4. A recipe that does not ask about the one call is refused at load: "not done" would be said of
   any, and the call be sent again.
"""

import json
import re
from typing import Any
from urllib.parse import quote

from msgspec import Struct

from sidecar.expression.cel import Expression, ExpressionFailed
from sidecar.gateway.target import NotCanonicalTarget, canonical_path, read_pairs, write_pairs
from sidecar.gateway.upstream import UpstreamReply
from sidecar.store.ledger import Answer

_PLACE = re.compile(r"\{([A-Za-z_][A-Za-z0-9_.]*)\}")
_UNSAFE = re.compile(r"[/?#\x00-\x1f\x7f]|\.\.")


class Unanswerable(Exception):
    """The recipe cannot be asked for this call; the text says why."""


class Ruling(Struct, frozen=True, kw_only=True):
    """A person's word on an unknown outcome: whether the call happened, who says so, and why."""

    project: str
    call_id: str
    done: bool
    by: str
    reason: str


class Question(Struct, frozen=True, kw_only=True):
    """The canonical path and query of the recipe's GET."""

    path: str
    query_raw: str


def wrong_recipe(get: str, done: str) -> str | None:
    """Why a recipe asks about no one call; None where it does.

    A brace that is part of no ``{name}`` would be sent as it stands.
    """
    names = _PLACE.findall(get)
    if re.search(r"[{}]", _PLACE.sub("", get)):
        return "has a brace that is part of no {idempotency_key} and no {arguments.NAME}"
    strange = [n for n in names if n != "idempotency_key" and not n.startswith("arguments.")]
    if strange:
        return f"knows no {{{strange[0]}}}; write {{idempotency_key}} or {{arguments.NAME}}"
    if not names and not re.search(r"\bidempotency_key\b", done):
        return "asks about no call: write {idempotency_key} or {arguments.NAME}"
    try:
        sample = {name.removeprefix("arguments."): "x" for name in names}
        question(get, idempotency_key="x", arguments=sample)
    except Unanswerable as error:
        return str(error)
    return None


def question(template: str, *, idempotency_key: str, arguments: dict[str, Any]) -> Question:
    """The recipe's request for one call. Raises Unanswerable."""
    values = {"idempotency_key": idempotency_key}
    for name, value in arguments.items():
        if isinstance(value, str | int | float) and not isinstance(value, bool):
            values[f"arguments.{name}"] = str(value)
    raw_path, _, raw_query = template.partition("?")
    try:
        return Question(
            path=canonical_path(_PLACE.sub(lambda m: _value(m, values, path=True), raw_path)),
            query_raw=write_pairs(
                read_pairs(_PLACE.sub(lambda m: _value(m, values, path=False), raw_query))
            ),
        )
    except NotCanonicalTarget as error:
        raise Unanswerable(str(error)) from error


def judge(done: Expression, reply: UpstreamReply, *, idempotency_key: str) -> bool | None:
    """Whether the call happened, by the reply to the recipe's GET."""
    if not 200 <= reply.status < 300:
        return None
    text = reply.body.decode("utf-8", "replace")
    response = {
        "status": reply.status,
        "headers": {name.lower(): value for name, value in reply.headers},
        "text": text,
        "json": _json(text),
    }
    try:
        return done.holds({"response": response, "idempotency_key": idempotency_key})
    except ExpressionFailed:
        return None


def evidence(reply: UpstreamReply, call_id: str) -> Answer:
    """What is answered for a call that was found done: the tool's own answer is lost."""
    text = reply.body.decode("utf-8", "replace")
    found = _json(text)
    document = {
        "outcome": "done",
        "reconciled": True,
        "call_id": call_id,
        "evidence": text if found is None else found,
    }
    return Answer(
        status=200,
        headers=(("content-type", "application/json"),),
        body=json.dumps(document, ensure_ascii=False).encode(),
    )


def ruled(call_id: str) -> Answer:
    """What is answered for a call that a person says was done."""
    document = {"outcome": "done", "resolved": True, "call_id": call_id}
    return Answer(
        status=200,
        headers=(("content-type", "application/json"),),
        body=json.dumps(document).encode(),
    )


def _value(match: re.Match[str], values: dict[str, str], *, path: bool) -> str:
    value = values.get(match[1])
    if value is None:
        raise Unanswerable(f"there is no value for {match[0]}")
    if path and _UNSAFE.search(value):
        raise Unanswerable(f"the value of {match[0]} does not fit in a path")
    return quote(value, safe="")


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
