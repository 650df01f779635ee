"""A server's result as its client gets it: with our ids beside it.

**Rules**
1. What the server said stays the text it is: no number is read and written anew.
2. ``agenttwin/`` members of ``_meta`` are said by us alone; a server's are left out.
"""

import msgspec

from sidecar.gateway.content import Headers

_OURS = "agenttwin/"
_TOLD = frozenset({"gateway-decision", "gateway-receipt", "idempotent-replayed"})
_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])


def tagged(raw: bytes, headers: Headers, *, modern: bool, private: bool) -> bytes:
    """A result with what a reply's headers say of its call.

    ``modern``: for 2026-07-28, which wants its type; ``private``: and how long it may be kept.
    """
    result = _MEMBERS.decode(raw)
    if modern:
        result.setdefault("resultType", msgspec.Raw(b'"complete"'))
        if private:  # what one may read another may not
            result.update(ttlMs=msgspec.Raw(b"0"), cacheScope=msgspec.Raw(b'"private"'))
    ours = {f"{_OURS}{name}": value for name, value in headers if name in _TOLD}
    meta = bytes(result.get("_meta", b"{}"))
    told = _MEMBERS.decode(meta) if meta.startswith(b"{") else {}
    kept = {key: value for key, value in told.items() if not key.startswith(_OURS)}
    result["_meta"] = msgspec.Raw(msgspec.json.encode({**kept, **ours}))
    return msgspec.json.encode(result)
