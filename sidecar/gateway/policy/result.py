"""What a policy may answer, read strictly: anything else is a denial with ``policy_error``.

**Rules**
1. An answer is an object with a known effect and nothing unknown in it. Undefined, late, malformed,
   mis-typed, an unknown limit or obligation: deny, with the reason in ``error``.
2. An allow has a positive reason. There is no allow by the absence of a deny.
3. Limits and obligations are those this gateway can keep; one it cannot keep is a denial, not an
   omission.

Source: gateway.md §2.5, and the obligations profile of OpenID AuthZEN.
"""

import contextlib
import re
from collections.abc import Iterator
from typing import Any, get_args

import msgspec
from msgspec import Struct, structs

from processors.model.call import ApprovalTerms, Decision, Obligation, Reason
from processors.model.names import Effect
from processors.model.principal import StepUp
from sidecar.gateway.amount import read_amount
from sidecar.gateway.policy import constraints, obligations

POLICY_ERROR = "policy_error"
_KEYS = frozenset({"effect", "reasons", "limits", "approval", "obligations", "advice"})
SUBJECTS = frozenset({"project", "agent", "tool", "session", "agent_tool"})
_LIMITS = frozenset(
    {
        *("max_amount", "currency", "timeout_ms", "max_response_bytes"),
        *("rate", "spend", "count", "allowed_hosts", "arguments"),
    }
)
_ITEMS_MAX = 20
_WINDOW_S_MAX = 366 * 86_400
_EFFECTS: dict[Any, Effect] = {effect: effect for effect in get_args(Effect)}
_CODE = re.compile(r"[a-z][a-z0-9_.]{0,79}\Z")
_CURRENCY = re.compile(r"[A-Z]{3}\Z")
_ROLE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,63}\Z")


class PolicyAnswer(Struct, frozen=True, kw_only=True):
    """A policy's answer on one document. ``error`` is None, or why there is no answer (then: deny).

    ``revision`` is the bundle's digest, ``engine`` name and version, ``input_digest`` the
    document's.
    """

    effect: Effect
    reasons: tuple[Reason, ...] = ()
    limits: dict[str, Any] = {}
    approval: ApprovalTerms | None = None
    obligations: tuple[Obligation, ...] = ()
    revision: str = ""
    engine: str = ""
    input_digest: str = ""
    error: str | None = None

    def decision(self, decision_id: str) -> Decision:
        """The answer as a Decision of the model."""
        return Decision(
            decision_id=decision_id,
            effect=self.effect,
            reasons=self.reasons,
            limits=self.limits,
            approval=self.approval,
            obligations=self.obligations,
            policy_revision=self.revision,
            engine=self.engine,
            input_digest=self.input_digest,
            error=self.error,
        )


class _Unreadable(ValueError):
    """The answer breaks the contract; the message says where."""


def denied(error: str, *, code: str = POLICY_ERROR) -> PolicyAnswer:
    """The answer where there is none: deny."""
    return PolicyAnswer(effect="deny", reasons=(Reason(code=code, message=error),), error=error)


def read_answer(raw: Any) -> PolicyAnswer:
    """The answer a raw value of ``data.agenttwin.v1.decide`` is; a denial where it is none."""
    try:
        return _answer(raw)
    except _Unreadable as error:
        refused = denied(f"the policy's answer is not usable: {error}")
        return structs.replace(refused, obligations=obligations.telling(_readable(raw)))


def _answer(raw: Any) -> PolicyAnswer:
    _known(raw, _KEYS, "the answer")
    word = raw.get("effect")
    effect = _EFFECTS.get(word) if isinstance(word, str) else None
    if effect is None:
        raise _Unreadable(f"unknown effect {word!r:.60}")
    reasons = tuple(_reason(item) for item in _list(raw, "reasons"))
    limits = _limits(raw.get("limits", {}))
    if effect in ("allow", "allow_with_limits") and not reasons:
        raise _Unreadable("an allow without a reason")
    if (effect == "allow_with_limits") != bool(limits):
        raise _Unreadable("limits belong to allow_with_limits, and it to them")
    if "approval" in raw and effect != "require_approval":
        raise _Unreadable(f"approval terms with the effect {effect}")
    return PolicyAnswer(
        effect=effect,
        reasons=reasons,
        limits=limits,
        approval=_approval(raw["approval"]) if "approval" in raw else None,
        obligations=tuple(_obligation(item) for item in _list(raw, "obligations")),
    )


def _known(value: Any, keys: frozenset[str], what: str) -> None:
    if not isinstance(value, dict):
        raise _Unreadable(f"{what} is no object but {type(value).__name__}")
    unknown = sorted(str(key) for key in value.keys() - keys)
    if unknown:
        raise _Unreadable(f"unknown key {unknown[0]!r:.60} in {what}")


def _list(raw: dict[str, Any], key: str) -> list[Any]:
    value = raw.get(key, [])
    if not isinstance(value, list):
        raise _Unreadable(f"{key} is no array")
    return value


def _text(value: Any, what: str) -> str:
    if not isinstance(value, str):
        raise _Unreadable(f"{what} is no text")
    return value


def _reason(item: Any) -> Reason:
    _known(item, frozenset({"code", "message", "rule"}), "a reason")
    code = _text(item.get("code"), "a reason's code")
    if not _CODE.match(code):
        raise _Unreadable(f"the reason code {code!r:.60} is not lower_snake_case")
    return Reason(
        code=code,
        message=_text(item.get("message", ""), "a reason's message"),
        rule=_text(item.get("rule", ""), "a reason's rule"),
    )


def _limits(raw: Any) -> dict[str, Any]:
    _known(raw, _LIMITS, "limits")
    for key in ("timeout_ms", "max_response_bytes", "count"):
        if key in raw:
            _positive(raw[key], f"limits.{key}")
    money = {"max_amount", "spend"} & raw.keys()
    if bool(money) != ("currency" in raw):
        raise _Unreadable(
            "limits.currency goes with limits.max_amount or limits.spend, and they with it"
        )
    if money and not _CURRENCY.match(_text(raw["currency"], "limits.currency")):
        raise _Unreadable("limits.currency is not ISO 4217")
    read = dict(raw)
    if "max_amount" in raw:
        read["max_amount"] = _amount(raw["max_amount"], "limits.max_amount")
    if "rate" in raw:
        read["rate"] = [_rate(item) for item in _some(raw, "rate")]
    if "spend" in raw:
        read["spend"] = [_spend(item) for item in _some(raw, "spend")]
    if "arguments" in raw:
        read["arguments"] = [_constraint(item) for item in _some(raw, "arguments")]
    if "allowed_hosts" in raw:
        hosts = _some(raw, "allowed_hosts")
        read["allowed_hosts"] = [_text(each, "limits.allowed_hosts").lower() for each in hosts]
    return read


def _some(raw: dict[str, Any], key: str) -> list[Any]:
    items = _list(raw, key)
    if not 0 < len(items) <= _ITEMS_MAX:
        raise _Unreadable(f"limits.{key} has not 1 to {_ITEMS_MAX} items")
    return items


def _rate(item: Any) -> dict[str, Any]:
    _known(item, frozenset({"n", "window_s", "key"}), "a rate")
    return {"n": _positive(item.get("n"), "a rate's n"), **_windowed(item, "key", "a rate")}


def _spend(item: Any) -> dict[str, Any]:
    _known(item, frozenset({"limit", "window_s", "scope"}), "a spending limit")
    limit = _amount(item.get("limit"), "a spending limit")
    return {"limit": limit, **_windowed(item, "scope", "a spending limit")}


def _constraint(item: Any) -> dict[str, Any]:
    _known(item, constraints.KEYS, "a limit on an argument")
    why = constraints.wrong(item)
    if why is not None:
        raise _Unreadable(f"a limit on an argument {why}")
    return dict(item)


def _windowed(item: dict[str, Any], key: str, what: str) -> dict[str, Any]:
    whose = item.get(key, "agent")
    if not isinstance(whose, str) or whose not in SUBJECTS:
        raise _Unreadable(f"{what} is of none of {', '.join(sorted(SUBJECTS))}")
    window_s = _positive(item.get("window_s"), f"{what}'s window_s", _WINDOW_S_MAX)
    return {"key": whose, "window_s": window_s}


def _amount(value: Any, what: str) -> str:
    """Decimal text; a policy may write a whole number, never a fraction as a double."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise _Unreadable(f"{what} is neither decimal text nor a whole number")
    amount = read_amount(str(value))
    if amount is None:
        raise _Unreadable(f"{what} is no plain decimal number such as 12.50")
    return f"{amount:f}"


def _positive(value: Any, what: str, largest: int = 2**53 - 1) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= largest:
        raise _Unreadable(f"{what} is no whole number from 1 to {largest}")
    return value


def _approval(raw: Any) -> ApprovalTerms:
    _known(raw, frozenset({"min", "roles", "ttl_s", "execute_s", "step_up"}), "approval")
    terms = ApprovalTerms(
        min=_positive(raw.get("min", 1), "approval.min", 20),
        ttl_s=_lifetime(raw, "ttl_s"),
        execute_s=_lifetime(raw, "execute_s"),
        step_up=_step_up(raw["step_up"]) if "step_up" in raw else None,
        roles=tuple(_text(role, "approval.roles") for role in _list(raw, "roles")),
    )
    if not all(_ROLE.match(role) for role in terms.roles):
        raise _Unreadable("approval.roles has a malformed role")
    return terms


def _step_up(raw: Any) -> StepUp:
    why = obligations.wrong_step_up(raw)
    if why is not None:
        raise _Unreadable(f"approval.step_up {why}")
    return msgspec.convert(raw, StepUp)


def _lifetime(raw: dict[str, Any], key: str) -> int | None:
    return _positive(raw[key], f"approval.{key}", 30 * 86_400) if key in raw else None


def _readable(raw: Any) -> Iterator[Obligation]:
    """The obligations of an answer that is none, as far as each can be read by itself."""
    items = raw.get("obligations") if isinstance(raw, dict) else None
    for item in items[:_ITEMS_MAX] if isinstance(items, list) else ():
        with contextlib.suppress(_Unreadable):
            yield _obligation(item)


def _obligation(item: Any) -> Obligation:
    _known(item, frozenset({"id", "type", "properties"}), "an obligation")
    kind = _text(item.get("type"), "an obligation's type")
    if kind not in obligations.TYPES:
        raise _Unreadable(f"an obligation this gateway cannot keep: {kind!r:.60}")
    properties = item.get("properties", {})
    if not isinstance(properties, dict):
        raise _Unreadable("an obligation's properties are no object")
    why = obligations.wrong(kind, properties)
    if why is not None:
        raise _Unreadable(f"the obligation {kind}: {why}")
    return Obligation(
        id=_text(item.get("id", kind), "an obligation's id"), type=kind, properties=properties
    )
