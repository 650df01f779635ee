"""AuthZEN on the gateway's port: decisions for whoever carries the call out elsewhere.

**Rules**
1. Only a decision is made: nothing is claimed, approved, reserved, sent or settled here, and every
   answer says so. What only the gateway could carry out is no permission.
2. A decision is 200, whichever it is. Whatever goes wrong on the way to one is a denial.
3. Tools of MCP servers are decided where their definitions are looked at, and not here.
"""

import json
from typing import Any

from processors.model.principal import Principal
from sidecar.gateway.authz.driver import judge
from sidecar.gateway.authz.evaluation import (
    Question,
    answer,
    is_over,
    read_asked,
    read_items,
    read_question,
)
from sidecar.gateway.driver import Gateway
from sidecar.gateway.explicit import explicit_request
from sidecar.gateway.problem import Refused
from sidecar.gateway.protocol import method_of
from sidecar.gateway.request import ToolReply

EVALUATION, EVALUATIONS = "/access/v1/evaluation", "/access/v1/evaluations"
CONFIGURATION = "/.well-known/authzen-configuration"
_HEADERS = (("content-type", "application/json"), ("cache-control", "no-store"))
_TOLD = ("code", "detail", "reasons", "next_action", "retry_after")


class Authzen:
    """The decisions of one gateway; ``irreversible``: such calls may be allowed too."""

    def __init__(self, gateway: Gateway, *, irreversible: bool = False) -> None:
        self._gateway = gateway
        self._irreversible = irreversible

    async def reply(self, path: str, body: bytes, caller: Principal) -> ToolReply:
        """The answer to one request. Raises Refused 400 or 404."""
        asked = read_asked(body)
        if path == EVALUATION:
            return _reply(await self._evaluated(asked, caller))
        if path != EVALUATIONS:
            raise Refused(404, "no_such_page", f"there are POST {EVALUATION} and {EVALUATIONS}")
        items, semantic = read_items(asked)
        if "evaluations" not in asked:
            return _reply(await self._evaluated(items[0], caller))
        found = []
        for item in items:
            found.append(await self._evaluated(item, caller))
            if is_over(found[-1]["decision"], semantic):
                break
        return _reply({"evaluations": found})

    async def _evaluated(self, item: dict[str, Any], caller: Principal) -> dict[str, Any]:
        try:
            question = read_question(item, caller)
        except Refused as refused:
            return _denied(refused, ())
        try:
            self._check(question)
            request = explicit_request(question.document, (), self._gateway.registry)
        except Refused as refused:
            return _denied(refused, question.not_judged)
        judged = await judge(self._gateway, request, caller, irreversible=self._irreversible)
        said: dict[str, Any] = {}
        if judged.refusal is not None:
            document = json.loads(judged.refusal.body)
            said = {key: document[key] for key in _TOLD if document.get(key) not in (None, "")}
            said["receipt_id"] = dict(judged.refusal.headers).get("gateway-receipt", "")
            if judged.code == "approval_not_here":
                said["access_request"] = {"endpoint": "/v1/actions", "template": question.template}
        return answer(
            judged.refusal is None,
            decision_id=judged.decision_id,
            said=said,
            not_judged=question.not_judged,
        )

    def _check(self, question: Question) -> None:
        tool = self._gateway.registry.tools.get(question.tool)
        if tool is None:
            said = f"no tool is registered as {question.tool[:80]!r}"
            raise Refused(404, "no_such_tool", said)
        match = tool.config.match
        if match.on_mcp:
            said = "what is on an MCP server is decided when it is called there"
            raise Refused(403, "mcp_not_here", f"{said}: {method_of(match)} at /mcp")
        if question.action not in ("call", f"http.{match.method.lower()}"):
            said = f"the action of {tool.name} is 'call', or 'http.{match.method.lower()}'"
            raise Refused(400, "action_unknown", said, next_action="request")


def configuration(resource: str) -> dict[str, Any]:
    """Where AuthZEN is answered."""
    return {
        "policy_decision_point": resource,
        "access_evaluation_endpoint": resource + EVALUATION,
        "access_evaluations_endpoint": resource + EVALUATIONS,
    }


def _denied(refused: Refused, not_judged: tuple[str, ...]) -> dict[str, Any]:
    said = {
        "code": refused.code,
        "detail": refused.detail,
        "error": {"status": refused.status, "message": refused.detail},
        "next_action": refused.next_action,
    }
    return answer(False, decision_id="", said=said, not_judged=not_judged)


def _reply(document: dict[str, Any]) -> ToolReply:
    return ToolReply(
        status=200, headers=_HEADERS, body=json.dumps(document, ensure_ascii=False).encode()
    )
