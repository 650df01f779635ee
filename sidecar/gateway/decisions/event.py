"""A decision as an event of OPA's decision log: what was asked, what was said, and what was hidden.

**Rules**
1. The shape is OPA's (labels, decision_id, bundles, path, input, result, erased, masked, metrics,
   requested_by, timestamp); what OPA has no place for stands under ``agenttwin``.
2. Values whose name says secret are erased always; pointers of the configuration are erased or
   masked; and of a project whose content is not captured nothing the agent wrote is told: no
   arguments, body, query or path.
3. Where hiding fails nothing is told of the input but its keyed digest. A plain digest of a value
   that can be guessed would tell it.
4. The audit chain is the record; this log is for those who replay and tune policy.
"""

import hmac
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, Literal

import msgspec
import orjson
from msgspec import Struct

from processors.model.call import Decision
from processors.redact.masker import Masker, names_secret
from sidecar.gateway.policy.obligations import extra

MASKED = "**REDACTED**"
PATH = "agenttwin/v1/decide"
_CONTENT = (
    *("/arguments", "/normalized", "/http/body", "/http/query", "/http/path"),
    *("/http/path_segments", "/resource/properties/path"),
)
_SECOND_NS = 1_000_000_000
_DEPTH_MAX = 64


class Rule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is hidden of every input: the value at ``pointer``, removed or replaced."""

    pointer: str
    op: Literal["erase", "mask"] = "erase"


class Decided(Struct, frozen=True, kw_only=True):
    """One decision with the document that was judged. Times in nanoseconds."""

    decision: Decision
    document: dict[str, Any]
    project: str
    principal: str
    tool: str
    call_id: str
    trace_id: str | None
    at_ns: int
    took_ns: int


class Hiding(Struct, frozen=True, kw_only=True):
    """How inputs are hidden: ``captures`` says per project what of content may be told."""

    rules: tuple[Rule, ...]
    captures: Callable[[str], Literal["off", "redacted", "full"]]
    secret: bytes

    def captures_of(self, project: str) -> Literal["off", "redacted", "full"]:
        """What may be told; nothing where it cannot be known."""
        try:
            return self.captures(project)
        except Exception:  # whatever went wrong, it is no permission
            return "off"


def event(said: Decided, hiding: Hiding, labels: dict[str, str], masker: Masker) -> dict[str, Any]:
    """The event, as JSON-like values."""
    decision = said.decision
    shown, erased, masked = _hidden(said, hiding, masker)
    told: dict[str, Any] = {
        "labels": labels,
        "decision_id": decision.decision_id,
        "bundles": {"agenttwin": {"revision": decision.policy_revision}},
        "path": PATH,
        "result": _result(decision, hiding.captures_of(said.project), masker),
        "requested_by": said.principal,
        "timestamp": _rfc3339(said.at_ns),
        "metrics": {"timer_rego_query_eval_ns": said.took_ns},
        "agenttwin": {
            "project": said.project,
            "tool": said.tool,
            "call_id": said.call_id,
            "engine": decision.engine,
            "input_hmac": _digest(said.document, hiding.secret),
        },
    }
    added = _extra(decision, hiding.captures_of(said.project), masker)
    if added:
        told["agenttwin"]["extra"] = added
    if shown is not None:
        told["input"] = shown
    if said.trace_id is not None:
        told["trace_id"] = said.trace_id
    for name, pointers in (("erased", erased), ("masked", masked)):
        if pointers:
            told[name] = [f"/input{each}" for each in pointers]
    if decision.error is not None:
        told["error"] = {"code": "policy_error", "message": decision.error}
    return told


def _hidden(
    said: Decided, hiding: Hiding, masker: Masker
) -> tuple[dict[str, Any] | None, list[str], list[str]]:
    try:
        document: dict[str, Any] = orjson.loads(orjson.dumps(said.document))
        capture = hiding.captures(said.project)
        rules = list(hiding.rules)
        if capture == "off":
            rules += [Rule(pointer=each) for each in _CONTENT]
        erased, masked = _applied(document, rules)
        _walk(document, "", erased, masked, masker if capture == "redacted" else None, 0)
    except Exception:  # whatever went wrong, what was not hidden is not told
        return None, [""], []
    return document, erased, masked


def _applied(document: dict[str, Any], rules: Sequence[Rule]) -> tuple[list[str], list[str]]:
    erased: list[str] = []
    masked: list[str] = []
    for rule in rules:
        parts = [part.replace("~1", "/").replace("~0", "~") for part in rule.pointer.split("/")[1:]]
        holder: Any = document
        for part in parts[:-1]:
            holder = _step(holder, part)
        place = _key(holder, parts[-1])
        if place is None:
            continue
        if rule.op == "mask":
            holder[place] = MASKED
            masked.append(rule.pointer)
        else:
            del holder[place]
            erased.append(rule.pointer)
    return erased, masked


def _step(holder: Any, part: str) -> Any:
    place = _key(holder, part)
    return None if place is None else holder[place]


def _key(holder: Any, part: str) -> Any:
    if isinstance(holder, dict):
        return part if part in holder else None
    if isinstance(holder, list) and part.isdecimal() and int(part) < len(holder):
        return int(part)
    return None


def _walk(
    value: Any, at: str, erased: list[str], masked: list[str], masker: Masker | None, depth: int
) -> None:
    if depth > _DEPTH_MAX:
        raise ValueError("too deep to be hidden")
    if isinstance(value, dict):
        for name in [each for each in value if names_secret(each)]:
            if isinstance(value[name], bool):  # key_present and its like say nothing
                continue
            del value[name]
            erased.append(f"{at}/{_escaped(name)}")
    places = list(value.items() if isinstance(value, dict) else enumerate(value))
    for place, item in places:
        below = f"{at}/{_escaped(str(place))}"
        if isinstance(item, dict | list):
            _walk(item, below, erased, masked, masker, depth + 1)
        elif isinstance(item, str) and masker is not None:
            after = masker.mask(item)
            if after != item:
                value[place] = after
                masked.append(below)


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def result_of(decision: Decision) -> dict[str, Any]:
    """What a decision says, without the texts that a policy makes."""
    return _result(decision, "off", Masker())


def _result(
    decision: Decision, capture: Literal["off", "redacted", "full"], masker: Masker
) -> dict[str, Any]:
    """Codes, rules and limits; texts in which a policy may quote the agent as captured content."""

    def quoted(text: str) -> str:
        return masker.mask(text) if capture == "redacted" else text

    reasons = [{"code": each.code, "rule": each.rule} for each in decision.reasons]
    if capture != "off":
        for each, reason in zip(reasons, decision.reasons, strict=True):
            each["message"] = quoted(reason.message)
    found: dict[str, Any] = {"effect": decision.effect, "reasons": reasons}
    if decision.limits:
        found["limits"] = decision.limits
    if decision.approval is not None:
        terms = decision.approval
        lifetimes = {"ttl_s": terms.ttl_s, "execute_s": terms.execute_s}
        found["approval"] = {
            "min": terms.min,
            "roles": list(terms.roles),
            **{name: value for name, value in lifetimes.items() if value is not None},
            **({"step_up": msgspec.to_builtins(terms.step_up)} if terms.step_up else {}),
        }
    if decision.obligations:
        found["obligations"] = [{"id": each.id, "type": each.type} for each in decision.obligations]
    return found


def _extra(
    decision: Decision, capture: Literal["off", "redacted", "full"], masker: Masker
) -> dict[str, str]:
    """What policy adds (``log_extra``): texts as captured content, names always."""
    added = extra(decision)
    if capture == "off":
        return dict.fromkeys(added, MASKED)
    return {
        name: MASKED if names_secret(name) else masker.mask(text) if capture == "redacted" else text
        for name, text in added.items()
    }


def _digest(document: dict[str, Any], secret: bytes) -> str:
    encoded = orjson.dumps(document, option=orjson.OPT_SORT_KEYS)
    return "hmac:" + hmac.digest(secret, b"dlog/1\n" + encoded, "sha256").hex()


def _rfc3339(at_ns: int) -> str:
    moment = datetime.fromtimestamp(at_ns // _SECOND_NS, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{at_ns % _SECOND_NS:09d}Z"
