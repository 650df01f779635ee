"""Long calls as tasks (``io.modelcontextprotocol/tasks``): a handle now, the answer later.

**Rules**
1. A task is given only to a client that declares the extension, for a call with a key of its own
   that may have an effect, once the ledger has it: then the key outlives this process, and so does
   the task.
2. Its id is the client's own to use: whose it is, of which call and until when is sealed in it.
3. Cancelling is taken note of: what may have an effect runs on, and the task says what became of
   it.
"""

import json
from typing import Any

import msgspec
from aiohttp import web

from sidecar import clock
from sidecar.errors import StoreUnavailable
from sidecar.gateway import response
from sidecar.gateway.outcome import store_failed
from sidecar.gateway.problem import Refused
from sidecar.gateway.registry import RegisteredTool
from sidecar.gateway.rpc import handle, head, message, sealed, wording
from sidecar.gateway.rpc.handle import Task
from sidecar.gateway.rpc.http import Talk, json_answer
from sidecar.gateway.rpc.message import RpcRefused
from sidecar.gateway.rpc.result import tagged
from sidecar.telemetry import CANCELLED

_PURPOSE = "task"


class Tasks:
    """The tasks of one gateway."""

    def offer(self, talk: Talk, tool: RegisteredTool | None, key: str | None) -> Task | None:
        """The task that a call may become; None where it must be waited for."""
        declared = talk.said.meta.get(head.CAPABILITIES_META)
        if tool is None or key is None or tool.config.class_ == "read":
            return None
        if talk.version != head.MODERN or not handle.declares(declared):
            return None
        now_ns = clock.now_ns()
        carried = {
            "sub": talk.asked.principal.id,
            "exp": now_ns + tool.key_retention_ns,
            "for": [talk.server, tool.name],
            "key": key,
            "at": now_ns,
        }
        made = sealed.seal(talk.gateway.secret("mcp"), _PURPOSE, carried)
        ends_ns = now_ns + tool.key_retention_ns
        return Task(task_id=made, tool=tool.name, key=key, at_ns=now_ns, ends_ns=ends_ns)

    def created(self, talk: Talk, task: Task) -> bytes | None:
        """The result that gives the handle, once the call is on its way and in the ledger."""
        claim, runs = talk.gateway.claimed(task.tool, task.key, talk.asked.principal)
        if claim is None or not runs or claim.state != "sent":
            return None
        told = {"resultType": "task", **task.document("working", claim.updated_at_ns)}
        assert talk.said.id is not None
        return message.result(talk.said.id, json.dumps(told).encode())

    async def answer(self, talk: Talk) -> web.Response:
        """The answer to ``tasks/get``, ``update`` and ``cancel``. Raises RpcRefused, Refused."""
        if not handle.declares(talk.said.meta.get(head.CAPABILITIES_META)):
            what, data = "declare the extension to be told of tasks", handle.missing()
            raise RpcRefused(handle.MISSING_CAPABILITY, what, status=400, data=data)
        task = self._read(talk)
        tool = talk.gateway.registry.tools.get(task.tool)
        if tool is None or not await talk.gateway.sees(tool, talk.asked.principal):
            raise _no_such()
        if talk.said.method == handle.GET:
            assert talk.said.id is not None
            return json_answer(message.result(talk.said.id, self._stands(talk, task)), 200)
        if talk.said.method == handle.CANCEL:
            CANCELLED.labels(tool.config.class_, "ran_on").inc()
        return talk.result({"resultType": "complete"})

    def _stands(self, talk: Talk, task: Task) -> bytes:
        """The task as it stands, its result as the text it is."""
        try:
            claim, runs = talk.gateway.claimed(task.tool, task.key, talk.asked.principal)
        except StoreUnavailable as failure:
            refusal = store_failed()
            raise Refused(refusal.status, refusal.code, refusal.detail) from failure
        if claim is None:
            raise _no_such()
        error = handle.failed(claim, runs=runs)
        told: dict[str, Any] = {}
        if error is None and claim.answer is not None:
            kept = response.stored(claim, clock.now_ns())
            raw, error = wording.kept_answer(kept)
            if raw is not None:
                result = tagged(raw, kept.headers, modern=True, private=False)
                told = {"result": msgspec.Raw(result)}
            elif error is not None:
                said = wording.of_server(error)
                error = {"code": said.code, "message": said.message, "data": said.data}
        if error is not None:
            told = {"error": error, "statusMessage": error["message"]}
        status = "failed" if error is not None else "completed" if told else "working"
        document = task.document(status, claim.updated_at_ns)
        return msgspec.json.encode({"resultType": "complete", **document, **told})

    @staticmethod
    def _read(talk: Talk) -> Task:
        text = talk.said.params.get("taskId")
        secret, principal = talk.gateway.secret("mcp"), talk.asked.principal.id
        found = sealed.unseal(secret, _PURPOSE, text, principal=principal, now_ns=clock.now_ns())
        if found is None or found["for"][0] != talk.server:
            raise _no_such()
        return Task(
            task_id=str(text),
            tool=found["for"][1],
            key=found["key"],
            at_ns=found["at"],
            ends_ns=found["exp"],
        )


def _no_such() -> RpcRefused:
    data = {"code": "no_such_task"}
    return RpcRefused(message.INVALID_PARAMS, "there is no such task of yours", data=data)
