"""What is known of a call before anything is decided: its key, its token, its place in a trace, and
whether it may be made at all.

**Rules**
1. In twin mode a call without an episode is refused; outside it an episode's credential is.
2. An irreversible call needs a key, or a tool that guards calls without one by its
   ``duplicate_window``; and a ledger that survives (unless accepted otherwise).
3. Observe mode refuses none of what rule 2 or policy refuses, only what cannot be sent safely.
   Gateway-wide observe does not reach irreversible tools: they must say so themselves.
4. An episode has keys of its own: two runs of one agent never share a claim.
"""

from collections.abc import Mapping

from msgspec import Struct, structs

from processors.model.principal import Principal
from sidecar.gateway import outcome, token
from sidecar.gateway.action import Prepared, ToolRequest
from sidecar.gateway.approval import changed_fields
from sidecar.gateway.config import Mode
from sidecar.gateway.events import CallReceived
from sidecar.gateway.fingerprint import fingerprint
from sidecar.gateway.idempotency import KeyRules, key_hash
from sidecar.gateway.problem import Refusal, Refused
from sidecar.gateway.provenance import told
from sidecar.gateway.registry import RegisteredTool
from sidecar.gateway.request import (
    Preferences,
    TraceContext,
    idempotency_key,
    preferences,
    single,
    trace_context,
)
from sidecar.store.ledger import OpenedCall

APPROVAL_TOKEN = "approval-token"  # noqa: S105 - a header's name
CONFIRM_DISTINCT = "confirm-distinct"
IDEMPOTENCY_KEY = "idempotency-key"


class House(Struct, frozen=True, kw_only=True):
    """What the gateway brings to every call. ``secret`` hides keys; ``keys`` check tokens."""

    mode: Mode
    ephemeral: bool
    accept_ephemeral: bool
    gateway_id: str
    secret: bytes
    keys: Mapping[str, bytes]


class Opening(Struct, frozen=True, kw_only=True):
    """An opened call: what the store keeps, what the machine gets, and how it is enforced.

    ``distinct_since_ns``: not to be made when the same was made since then. ``provenance``: the
    labels the caller adds; ``client_ip`` and ``claimed``: as the request says them.
    """

    call: OpenedCall
    received: CallReceived
    trace: TraceContext
    enforcement: str
    episode: str | None
    distinct_since_ns: int | None = None
    provenance: tuple[str, ...] = ()
    client_ip: str | None = None
    claimed: dict[str, bool] = {}


def open_call(
    request: ToolRequest,
    prepared: Prepared,
    principal: Principal,
    house: House,
    *,
    call_id: str,
    now_ns: int,
) -> Opening:
    """The opening of a prepared request. Raises Refused for malformed headers."""
    tool, trace = prepared.tool, trace_context(request.headers)
    hashed = _key_hash(request, prepared, principal, house, trace)
    call = OpenedCall(
        call_id=call_id,
        project=principal.project,
        principal=principal.id,
        principal_kind=principal.kind,
        tool=tool.name,
        class_=tool.config.class_,
        action_hash=prepared.action_hash,
        started_at_ns=now_ns,
        key_hash=hashed,
        trace_id=trace.trace_id,
        arguments=prepared.arguments,
    )
    observe = _observes(tool, house)
    received = _received(request, prepared, call, house, observe=observe)
    refusal = request.refusal or _refusal(call, principal, house, tool, observe=observe)
    return Opening(
        call=call,
        received=_with_refusal(received, refusal),
        trace=trace,
        enforcement=_enforcement(house, observe=observe),
        episode=principal.episode,
        distinct_since_ns=_distinct_since(request, tool, call),
        provenance=told(request.headers),
        client_ip=request.client_ip,
        claimed=request.claimed,
    )


def _distinct_since(request: ToolRequest, tool: RegisteredTool, call: OpenedCall) -> int | None:
    """Since when a call without a key must not have been made; None where it may have been."""
    said = single(request.headers, CONFIRM_DISTINCT)
    if said not in (None, "?0", "?1"):
        raise Refused(400, "confirm_distinct_invalid", "Confirm-Distinct is ?1 or ?0 (RFC 8941)")
    if call.key_hash is not None or call.class_ == "read" or said == "?1":
        return None
    if not tool.duplicate_window_ns:
        return None
    return call.started_at_ns - tool.duplicate_window_ns


def stopped(opening: Opening, code: str | None) -> Opening:
    """The opening of a call that falls under a stop: refused before it is even looked up."""
    if code is None:
        return opening
    received = structs.replace(opening.received, refusal=outcome.stopped(code))
    return structs.replace(opening, received=received)


def timeless(opening: Opening) -> Opening:
    """The opening of a call while the wall clock cannot be trusted: no approval is asked for, and
    no token proves anything."""
    received = structs.replace(opening.received, token=None, token_fault=outcome.clock_skewed())
    return structs.replace(opening, received=received)


def unwitnessed(opening: Opening, unanchored: bool) -> Opening:
    """The opening of a call with effects while the chain is not kept elsewhere as it must be."""
    if not unanchored or opening.call.class_ == "read" or opening.received.refusal is not None:
        return opening
    received = structs.replace(opening.received, refusal=outcome.not_anchored())
    return structs.replace(opening, received=received)


def crowded(opening: Opening, *, full: bool) -> Opening:
    """The opening of a call whose tool has as many on their way as it may: refused, not queued."""
    if not full or opening.received.refusal is not None:
        return opening
    received = structs.replace(opening.received, refusal=outcome.tool_busy())
    return structs.replace(opening, received=received)


def nameless_call(
    principal: Principal, *, call_id: str, trace_id: str | None, now_ns: int
) -> OpenedCall:
    """A request that is no action, for its receipt: no tool, no hash, taken for irreversible."""
    return OpenedCall(
        call_id=call_id,
        project=principal.project,
        principal=principal.id,
        principal_kind=principal.kind,
        tool="",
        class_="irreversible",
        action_hash="",
        started_at_ns=now_ns,
        trace_id=trace_id,
    )


def _received(
    request: ToolRequest, prepared: Prepared, call: OpenedCall, house: House, *, observe: bool
) -> CallReceived:
    tool = prepared.tool
    config, wishes = tool.config, preferences(request.headers)
    proven, fault = _token(request, prepared, call, house)
    return CallReceived(
        class_=config.class_,
        fingerprint=fingerprint(prepared),
        rules=KeyRules(
            class_=config.class_,
            upstream_idempotent=config.idempotency.upstream_idempotent,
            reconcilable=config.reconcile is not None,
        ),
        observe=observe,
        fail_open=config.class_ == "read" and config.policy_failure == "allow",
        has_key=call.key_hash is not None,
        token=proven,
        token_fault=fault,
        wait_ns=wishes.wait_s * 1_000_000_000,
        asynchronous=_asynchronous(wishes),
        respond_async=wishes.respond_async,
        no_effect_statuses=frozenset(config.no_effect_statuses),
    )


def _asynchronous(wishes: Preferences) -> bool:
    return wishes.respond_async or wishes.wait_s > 0


def _with_refusal(received: CallReceived, refusal: Refusal | None) -> CallReceived:
    return received if refusal is None else structs.replace(received, refusal=refusal)


def _key_hash(
    request: ToolRequest,
    prepared: Prepared,
    principal: Principal,
    house: House,
    trace: TraceContext,
) -> str | None:
    rules = prepared.tool.config.idempotency
    key = idempotency_key(request.headers, rules.header)
    if rules.header.lower() != IDEMPOTENCY_KEY:
        key = _either(key, idempotency_key(request.headers, IDEMPOTENCY_KEY), rules.header)
    if key is None and rules.derive and trace.trace_id is not None:
        key = f"derived {trace.trace_id} {trace.span_id}"
    if key is None:
        return None
    return hashed_key(house, principal, prepared.tool.name, key)


def _either(key: str | None, plain: str | None, header: str) -> str | None:
    """The key of a call to a tool with a header of its own for it: a client that sends the usual
    one means it no less. Raises Refused where both are there and differ."""
    if key is not None and plain is not None and key != plain:
        said = f"{header} and Idempotency-Key hold two keys; send one"
        raise Refused(400, "idempotency_key_invalid", said, next_action="request")
    return plain if key is None else key


def hashed_key(house: House, principal: Principal, tool: str, key: str) -> str:
    """How a principal's key for a tool stands in the ledger."""
    who = principal.id if principal.episode is None else f"{principal.id} {principal.episode}"
    return key_hash(house.secret, project=principal.project, principal=who, tool=tool, key=key)


def _token(
    request: ToolRequest, prepared: Prepared, call: OpenedCall, house: House
) -> tuple[str | None, Refusal | None]:
    """The approval a presented token proves for this call, or why it proves none."""
    text = single(request.headers, APPROVAL_TOKEN)
    if text is None:
        return None, None
    try:
        claims = token.read(
            text, house.keys, gateway_id=house.gateway_id, now_ns=call.started_at_ns
        )
    except token.TokenInvalid as error:
        return None, Refusal(
            status=403,
            code="approval_invalid",
            detail=f"the approval token is not usable: {error}",
            next_action="request",
        )
    bound = (call.principal, call.action_hash, call.key_hash)
    if (claims.sub, claims.act, claims.idk) != bound:
        return None, outcome.mismatched(_differing(claims, prepared, call, house))
    if claims.tool != prepared.tool.tool_digest:
        return None, outcome.not_spendable("approval_tool_changed")
    return claims.jti, None


def _differing(
    claims: token.Claims, prepared: Prepared, call: OpenedCall, house: House
) -> tuple[str, ...]:
    """What of a call is another than what its token is for, by name."""
    if claims.sub != call.principal:
        return ("agent",)  # who it is for is told what of it differs, and nobody else
    named = () if claims.idk == call.key_hash else ("idempotency_key",)
    if claims.act == call.action_hash:
        return named
    return (*named, *changed_fields(claims.fld, prepared.action, house.secret, claims.jti))


def _observes(tool: RegisteredTool, house: House) -> bool:
    if house.mode == "twin":
        return False
    if tool.config.mode is not None:
        return tool.config.mode == "observe"
    return house.mode == "observe" and tool.config.class_ != "irreversible"


def _enforcement(house: House, *, observe: bool) -> str:
    word = "twin" if house.mode == "twin" else "observe" if observe else "enforce"
    return f"{word},ephemeral" if house.ephemeral and house.mode != "twin" else word


def _refusal(
    call: OpenedCall, principal: Principal, house: House, tool: RegisteredTool, *, observe: bool
) -> Refusal | None:
    if house.mode == "twin" and (principal.kind != "episode" or principal.episode is None):
        return Refusal(
            status=403,
            code="episode_required",
            detail="this gateway is in twin mode; send the episode's token as the credential "
            "or in baggage agenttwin-episode",
        )
    if house.mode != "twin" and principal.kind == "episode":
        return Refusal(
            status=403,
            code="episode_refused",
            detail="an episode's token is honoured by a gateway in twin mode only",
        )
    if principal.tools and call.tool not in principal.tools:
        return Refusal(
            status=403, code="tool_not_granted", detail="the credential is not for this tool"
        )
    if call.class_ != "irreversible" or observe:
        return None
    if house.ephemeral and not house.accept_ephemeral and house.mode != "twin":
        return Refusal(
            status=503,
            code="ephemeral_ledger",
            detail="the ledger would not survive a restart, so irreversible calls are refused; "
            "put the store on a disk, or set gateway.accept_ephemeral_ledger",
        )
    if call.key_hash or tool.duplicate_window_ns:
        return None
    return outcome.key_required("the call is irreversible")
