"""AuthZEN's questions as the calls they are about, and its answers.

**Rules**
1. The subject is whoever asks: nobody learns what another may do.
2. The resource is a tool by its name, the action one of its calls with its arguments. What else is
   said of them, and of the context, are claims that nobody here can check: they are not judged, and
   every answer says so.
3. What cannot be read is no permission.

Source: OpenID AuthZEN Authorization API 1.0; Access Request and Approval Profile.
"""

import json
from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct

from processors.model.principal import Principal
from sidecar.gateway.authz.check import NOT_PROMISED
from sidecar.gateway.problem import MEDIA_TYPE, Refused
from sidecar.gateway.request import ToolReply
from sidecar.gateway.spelling import AUTHZEN
from sidecar.gateway.strict import NotStrict, read_json

EVALUATIONS_MAX = 50
_MEMBERS = ("subject", "action", "resource", "context")
Semantic = Literal["execute_all", "deny_on_first_deny", "permit_on_first_permit"]
_SEMANTICS: tuple[Semantic, ...] = (
    *("execute_all", "deny_on_first_deny", "permit_on_first_permit"),
)  # fmt: skip


class Question(Struct, frozen=True, kw_only=True):
    """One evaluation: the call it is about, and what of it is not judged."""

    tool: str
    action: str
    arguments: dict[str, Any]
    key: str | None
    not_judged: tuple[str, ...]

    @property
    def template(self) -> dict[str, Any]:
        """The explicit action that it is."""
        key = {} if self.key is None else {"idempotency_key": self.key}
        return {"tool": self.tool, "arguments": self.arguments, **key}

    @property
    def document(self) -> bytes:
        """The same as bytes."""
        return json.dumps(self.template, ensure_ascii=False).encode()


def read_asked(body: bytes) -> dict[str, Any]:
    """The object of a request. Raises Refused 400."""
    try:
        value = read_json(body)
    except NotStrict as error:
        raise Refused(400, "json_malformed", f"the body is not strict JSON: {error}") from error
    if not isinstance(value, dict):
        raise _malformed("the body must be an object")
    return value


def read_items(value: Mapping[str, Any]) -> tuple[list[dict[str, Any]], Semantic]:
    """The evaluations of a request for several, each with the defaults. Raises Refused 400."""
    items = value.get("evaluations", [])
    options = value.get("options", {})
    semantic = options.get("evaluations_semantic", "execute_all") if _is(options) else None
    if not isinstance(items, list) or len(items) > EVALUATIONS_MAX or not all(map(_is, items)):
        raise _malformed(f"evaluations must be at most {EVALUATIONS_MAX} objects")
    if semantic not in _SEMANTICS:
        raise _malformed(f"options.evaluations_semantic is one of {', '.join(_SEMANTICS)}")
    defaults = {key: value[key] for key in _MEMBERS if key in value}
    return [{**defaults, **each} for each in items] or [defaults], semantic


def read_question(value: Mapping[str, Any], caller: Principal) -> Question:
    """One evaluation. Raises Refused 400 or 403."""
    subject, action, resource = (_object(value, key) for key in _MEMBERS[:3])
    context = _object(value, "context") if "context" in value else {}
    if subject.get("type") != caller.kind or subject.get("id") != caller.id:
        said = f"the subject is whoever asks: type {caller.kind!r}, id {caller.id!r}"
        raise Refused(403, "subject_not_caller", said, next_action="request")
    if resource.get("type") != "tool" or not isinstance(resource.get("id"), str):
        raise _malformed("resource must be of type 'tool', its id the name of a tool")
    properties = action.get("properties", {})
    arguments = properties.get("arguments", {}) if _is(properties) else None
    if not isinstance(action.get("name"), str) or not isinstance(arguments, dict):
        raise _malformed("action needs a name, and properties.arguments that are an object")
    key = context.get("idempotency_key")
    if key is not None and not isinstance(key, str):
        raise _malformed("context.idempotency_key must be text")
    return Question(
        tool=resource["id"],
        action=action["name"],
        arguments=arguments,
        key=key,
        not_judged=tuple(_unjudged(subject, action, resource, context)),
    )


def answer(
    decision: bool, *, decision_id: str, said: Mapping[str, Any], not_judged: tuple[str, ...]
) -> dict[str, Any]:
    """One answer; ``said``: more of its context."""
    context = {
        **({"decision_id": decision_id} if decision_id else {}),
        **said,
        "enforcement": "decision-only",
        "not_promised": list(NOT_PROMISED),
        **({"not_judged": list(not_judged)} if not_judged else {}),
    }
    return {"decision": decision, "context": context}


def is_over(decision: bool, semantic: Semantic) -> bool:
    """Whether nothing more is asked after a decision."""
    ends = {"deny_on_first_deny": False, "permit_on_first_permit": True}
    return ends.get(semantic) is decision


def as_authzen(reply: ToolReply) -> ToolReply:
    """A call that needs approval, told as AuthZEN's requestable denial; any other reply as it is.

    The status stays: what is asked for and where to learn of it is in ``access_request``.
    """
    if dict(reply.headers).get("content-type") != MEDIA_TYPE:
        return reply
    document = json.loads(reply.body)
    approval = document.get("approval")
    if document.get("code") != "approval_required" or not isinstance(approval, dict):
        return reply
    context = {
        **{key: document[key] for key in ("code", "decision_id", "next_action") if key in document},
        "reason": document["detail"],
        "access_request": {**approval, "endpoint": f"/v1/approvals/{approval['id']}"},
    }
    headers = tuple(
        (name, AUTHZEN if name == "content-type" else value) for name, value in reply.headers
    )
    body = json.dumps({"decision": False, "context": context}, ensure_ascii=False).encode()
    return ToolReply(status=reply.status, headers=headers, body=body)


def _unjudged(
    subject: Mapping[str, Any],
    action: Mapping[str, Any],
    resource: Mapping[str, Any],
    context: Mapping[str, Any],
) -> list[str]:
    found = [name for name, of in (("subject", subject), ("resource", resource)) if len(of) > 2]
    if action.get("properties", {}).keys() - {"arguments"} or len(action) > 2:
        found.append("action")
    return [*found, *(["context"] if context.keys() - {"idempotency_key"} else [])]


def _object(value: Mapping[str, Any], key: str) -> dict[str, Any]:
    found = value.get(key)
    if not isinstance(found, dict):
        raise _malformed(f"{key} must be an object")
    return found


def _is(value: Any) -> bool:
    return isinstance(value, dict)


def _malformed(why: str) -> Refused:
    return Refused(400, "evaluation_malformed", why, next_action="request")
