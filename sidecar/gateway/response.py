"""The headers of an answer to an agent.

**Rules**
1. Ours are set by us alone: an upstream cannot speak of decisions, receipts or replays.
2. Hop-by-hop headers and a length end with the connection they came from; so do cookies.
3. A header that cannot stand in an answer (a control character, a name that is no token) is left
   out; the answer is not lost with it.
"""

from sidecar.gateway.content import Headers, is_header
from sidecar.gateway.problem import Refusal, render
from sidecar.gateway.request import ToolReply
from sidecar.gateway.upstream import UpstreamReply
from sidecar.store.ledger import Claim

OURS = frozenset({"gateway-decision", "gateway-receipt", "idempotent-replayed"})
_NOT_RETURNED = frozenset(
    {
        *("connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "te", "trailer"),
        *("transfer-encoding", "upgrade", "content-length", "proxy-connection"),
        *("set-cookie", "set-cookie2", "server", "alt-svc", "strict-transport-security"),
    }
)
_DROPPED = _NOT_RETURNED | OURS


def clean(headers: Headers) -> Headers:
    """An upstream's headers without those that are not passed on, names in lower case."""
    lowered = [(name.lower(), value) for name, value in headers if is_header(name, value)]
    named = {
        part.strip().lower()
        for name, value in lowered
        if name == "connection"
        for part in value.split(",")
    }
    dropped = _DROPPED | named if named else _DROPPED
    return tuple([pair for pair in lowered if pair[0] not in dropped])


def passed(answer: UpstreamReply, decision_id: str, receipt_id: str) -> ToolReply:
    """The tool's own answer."""
    headers = (*clean(answer.headers), *_ids(decision_id, receipt_id))
    return ToolReply(
        status=answer.status, headers=headers, body=answer.body, streamed=answer.streamed
    )


def shown(headers: Headers, decision_id: str) -> Headers:
    """The headers of an answer that is passed on while it comes, before it has a receipt."""
    return (*clean(headers), *_ids(decision_id, ""))


def stored(claim: Claim, now_ns: int) -> ToolReply:
    """A kept answer again, with the receipt of the call that got it."""
    answer = claim.answer
    assert answer is not None
    age_s = max(0, now_ns - claim.updated_at_ns) // 1_000_000_000
    replayed = (("idempotent-replayed", "true"), ("age", str(age_s)))
    headers = (*clean(answer.headers), *replayed, *_ids("", claim.receipt_id or ""))
    return ToolReply(status=answer.status, headers=headers, body=answer.body)


def refused(
    refusal: Refusal, decision_id: str, receipt_id: str, *, reasons: tuple[str, ...] = ()
) -> ToolReply:
    """A problem document."""
    headers, body = render(refusal, decision_id=decision_id, reasons=reasons)
    ours = _ids(decision_id, receipt_id)
    return ToolReply(status=refusal.status, headers=(*headers, *ours), body=body)


def _ids(decision_id: str, receipt_id: str) -> Headers:
    ours = (("gateway-decision", decision_id), ("gateway-receipt", receipt_id))
    return tuple(pair for pair in ours if pair[1])
