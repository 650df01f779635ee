"""A request as Envoy tells of it, as the call it is; and why some cannot be judged beside a proxy.

**Rules**
1. Envoy sends on what it has, not what was judged here. So what has more than one spelling or
   reader is refused: a path that is not canonical already, ``+`` in a query, headers that name
   another method or path, a body that is not whole.
2. Which upstream it is, the route says (``agenttwin.upstream``), else the authority.
3. A decision that only the gateway itself could carry out (an approval, a limit on the answer, a
   reservation, a receipt) is no permission here.

Source: Envoy, envoy.service.auth.v3; gateway.md §3.4.
"""

from collections.abc import Mapping

from msgspec import Struct

from processors.model.call import Decision
from sidecar.egress.rules import Target
from sidecar.gateway.action import ToolRequest
from sidecar.gateway.forward import below, read_absolute
from sidecar.gateway.problem import Refusal, Refused
from sidecar.gateway.target import NotCanonicalTarget, canonical_path

UPSTREAM = "agenttwin.upstream"
NOT_PROMISED = ("idempotency", "approvals", "budgets", "receipts", "outcome", "egress")
"""What a mesh that only asks for decisions does without; said in every answer."""
_REWRITES = frozenset(
    {
        *("x-http-method-override", "x-http-method", "x-method-override"),
        *("x-original-url", "x-rewrite-url", "x-forwarded-prefix"),
    }
)
_BODILESS = frozenset({"GET", "HEAD"})
_PARTIAL = "x-envoy-auth-partial-body"
_ENVOYS = "x-envoy-"
_CHECKED_LIMITS = frozenset({"max_amount", "currency", "allowed_hosts"})


class Checked(Struct, frozen=True, kw_only=True):
    """One request as Envoy tells of it; ``path`` is raw, with its query."""

    method: str
    scheme: str
    host: str
    path: str
    headers: Mapping[str, str]
    body: bytes = b""
    extensions: Mapping[str, str] = {}


def as_request(checked: Checked, upstreams: Mapping[str, Target]) -> ToolRequest:
    """The call that a request is. Raises Refused."""
    _check_spelling(checked)
    _check_body(checked)
    name, raw_path = _upstream(checked, upstreams)
    headers = tuple(
        (key, value)
        for key, value in checked.headers.items()
        if not key.startswith((":", _ENVOYS)) and key != "content-length"
    )
    return ToolRequest(
        upstream=name,
        method=checked.method,
        raw_path=raw_path,
        headers=headers,
        body=checked.body,
    )


def nowhere(refused: Refused) -> ToolRequest:
    """A request that is for no tool: it leaves a receipt as every other does."""
    return ToolRequest(upstream="", method="POST", raw_path="/", refusal=refused.refusal())


def beyond(
    decision: Decision, *, reserves: bool, class_: str, irreversible: bool
) -> Refusal | None:
    """Why a decision that is no denial is no permission for a proxy beside us, or None."""
    if decision.effect == "require_approval":
        return _refusal(
            "approval_not_here", "this call needs approval, which only the gateway asks"
        )
    if decision.effect == "allow_with_limits" and decision.limits.keys() - _CHECKED_LIMITS:
        return _refusal("limit_not_here", "policy limits what only the gateway itself can hold to")
    if decision.obligations:
        return _refusal("obligation_not_here", "policy obliges what only the gateway itself can do")
    if reserves:
        return _refusal(
            "budget_not_here", "this call takes of a budget, which only the gateway holds"
        )
    if class_ == "irreversible" and not irreversible:
        text = "irreversible calls go through the gateway itself, or are allowed by configuration"
        return _refusal("irreversible_not_here", text)
    return None


def _check_spelling(checked: Checked) -> None:
    rewritten = sorted(_REWRITES & checked.headers.keys())
    if rewritten:
        raise Refused(400, "method_override", f"the header {rewritten[0]} is not let through")
    path, _, query = checked.path.partition("?")
    try:
        same = canonical_path(path) == path
    except NotCanonicalTarget as error:
        raise Refused(400, "target_malformed", str(error)) from error
    if not same or "+" in query:
        text = "the target has another spelling too; send it canonically (%20, no dots, no escapes)"
        raise Refused(400, "target_not_canonical", text)


def _check_body(checked: Checked) -> None:
    if checked.headers.get(_PARTIAL, "false") != "false":
        raise Refused(413, "body_too_large", "the body is larger than what Envoy passes on")
    length = checked.headers.get("content-length")
    if length is None:
        # Envoy tells nothing of a transfer coding: a body that it was not told to send, and no
        # body, look alike. Of what has one by rights, no body is none that was judged.
        whole = bool(checked.body) or checked.method in _BODILESS
    else:
        whole = length.isascii() and length.isdigit() and int(length) == len(checked.body)
    if not whole:
        raise Refused(400, "body_missing", "configure with_request_body, so that it is judged")


def _upstream(checked: Checked, upstreams: Mapping[str, Target]) -> tuple[str, str]:
    named = checked.extensions.get(UPSTREAM)
    if named is not None:
        if named not in upstreams:
            raise Refused(404, "no_such_upstream", f"there is no upstream {named!r}")
        return named, checked.path
    for scheme in dict.fromkeys((checked.scheme or "http", "http", "https")):
        absolute = read_absolute(f"{scheme}://{checked.host}{checked.path}", checked.host)
        if (found := below(absolute, upstreams.values())) is not None:
            return found
    raise Refused(404, "no_such_upstream", "no upstream of the gateway has this authority and path")


def _refusal(code: str, detail: str) -> Refusal:
    return Refusal(status=403, code=code, detail=detail)
