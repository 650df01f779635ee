"""A receipt as a document: the one form that is signed, chained, stored and shown.

**Rules**
1. Field names are the model's but ``class`` for ``class_``; times are decimal text (RFC 8785 cannot
   say them as numbers); nothing is left out, null included, but fields that came later (``_LATER``)
   and say nothing: receipts of before stay what they were signed as.
2. The signature covers the document without ``signature``; the key's id is inside.
3. Reading a document back gives an equal receipt.
"""

from typing import Any

import msgspec
import orjson

from processors.model.call import Receipt

_TIMES = ("started_at_ns", "finished_at_ns")
_LATER = ("upstream_authority", "upstream_address")


def to_document(receipt: Receipt) -> dict[str, Any]:
    """The receipt as JSON-like values."""
    document: dict[str, Any] = msgspec.structs.asdict(receipt)
    document["class"] = document.pop("class_")
    document["reasons"] = list(receipt.reasons)
    for name in _TIMES:
        document[name] = str(document[name])
    for name in _LATER:
        if document[name] is None:
            del document[name]
    return document


def from_document(document: dict[str, Any]) -> Receipt:
    """The receipt a document says. Raises msgspec.ValidationError."""
    fields = {**document, "class_": document["class"]}
    del fields["class"]
    for name in _TIMES:
        fields[name] = int(fields[name])
    return msgspec.convert(fields, Receipt)


def signed_bytes(receipt: Receipt, kid: str | None = None) -> bytes:
    """What the signature covers: domain ``agwr/1`` and RFC 8785 bytes without ``signature``.

    ``kid``: the key that is about to sign, where the receipt does not name it yet.
    """
    document = to_document(receipt)
    if kid is not None:
        document["kid"] = kid
    del document["signature"]
    return b"agwr/1\n" + _canonical(document)


def text(receipt: Receipt) -> str:
    """The whole document in RFC 8785 form."""
    return _canonical(to_document(receipt)).decode()


def _canonical(document: dict[str, Any]) -> bytes:
    # Keys are ASCII, numbers small integers, the rest text: there sorted orjson is RFC 8785
    # (performance.md), at a quarter of the cost.
    return orjson.dumps(document, option=orjson.OPT_SORT_KEYS)
