"""Random reads and writes of one project's things, over every listener, each with who may do it.

An operation ``got`` its aim when it read or changed what is the project's; whether it did, and not
only how it was answered, is what the test asserts.
"""

from collections.abc import Callable
from typing import Any

from msgspec import Struct
from tenancy_world import EXPORT, ORGANISATION, PROJECTS, TRACES_EACH, spans, trace_id

from sidecar._pb.v1 import approval_pb2, call_pb2, key_pb2, trace_pb2

PEOPLE = ("approver", "reader", "admin")
READ_SERVICES = {
    "traces": ("TraceService/ListTraces", trace_pb2.ListTracesRequest, trace_pb2.TracePage),
    "trace": ("TraceService/GetTrace", trace_pb2.GetTraceRequest, trace_pb2.AgentTrace),
    "steps": ("TraceService/ListSteps", trace_pb2.ListStepsRequest, trace_pb2.StepPage),
    "calls": ("CallService/ListCalls", call_pb2.ListCallsRequest, call_pb2.CallPage),
    "call": ("CallService/GetCall", call_pb2.GetCallRequest, None),
    "receipt": ("CallService/GetReceipt", call_pb2.GetReceiptRequest, None),
    "approvals": (
        "ApprovalService/ListApprovals", approval_pb2.ListApprovalsRequest,
        approval_pb2.ApprovalPage,
    ),
    "approval": ("ApprovalService/GetApproval", approval_pb2.GetApprovalRequest, None),
    "keys": ("KeyService/ListKeys", key_pb2.ListKeysRequest, key_pb2.KeyPage),
    "key": ("KeyService/GetKey", key_pb2.KeyRequest, None),
}  # fmt: skip
PATHS = {
    "traces": "/v1/traces", "trace": "/v1/traces/{}", "steps": "/v1/traces/{}/steps",
    "calls": "/v1/calls", "call": "/v1/calls/{}", "receipt": "/v1/receipts/{}",
    "approvals": "/v1/approvals", "approval": "/v1/approvals/{}", "keys": "/v1/keys",
    "key": "/v1/keys/{}",
}  # fmt: skip
FIELDS = {"trace": "trace_id", "steps": "trace_id", "call": "call_id", "receipt": "receipt_id",
          "approval": "approval_id", "key": "key_id"}  # fmt: skip
LISTS = ("traces", "calls", "approvals", "keys")


class Operation(Struct):
    """``by``: the kinds of credential that may; ``own``: a credential of the same kind in another
    project is answered too, with what is its own."""

    name: str
    project: str
    by: tuple[str, ...]
    act: Callable[..., Any]
    own: bool = False
    over_control: bool = False

    def right(self, world, rng):
        """A credential that may, and whether it names the project."""
        organised = self.over_control and self.project in ORGANISATION and "admin" in self.by
        if organised and rng.random() < 0.2:
            return world.good["organisation", "ab"], True
        return world.good[rng.choice(self.by), self.project], rng.random() < 0.3

    def wrong(self, world, rng):
        """A credential that may not, and whether it names the project."""
        kind, named = rng.choice(self.by), rng.random() < 0.5
        others = [each for each in PROJECTS if each != self.project]
        choices = [
            lambda: None,
            lambda: "sk_admin_0123456789abcdef",
            lambda: rng.choice(world.bad[kind, self.project]),
            lambda: rng.choice(world.bad[kind, self.project]),
            lambda: world.good[
                rng.choice([k for k in ("agent", *PEOPLE) if k not in self.by]), self.project
            ],
        ]
        if self.over_control or self.own:
            choices += 3 * [lambda: world.good[kind, rng.choice(others)]]
        if self.over_control and self.project not in ORGANISATION:
            choices.append(lambda: world.good["organisation", "ab"])
        return rng.choice(choices)(), named


def _read(what, wire, target, by):
    async def act(world, project, key, named):
        if wire == "http":
            query = {"limit": "50"} if what in LISTS else {}
            query |= {"project": project} if named else {}
            path = PATHS[what].format(target) + "?" + "&".join(f"{k}={v}" for k, v in query.items())
            answer = await world.http("control.listen", "GET", path, key)
        else:
            method, asks, gives = READ_SERVICES[what]
            given = {FIELDS[what]: target} if target else {"limit": 50}
            given |= {"project": project} if named else {}
            answer = await world.rpc(
                "control.grpc", f"/sidecar.v1.{method}", asks(**given), key, gives
            )
        if not answer.good:
            return False, answer
        if what in ("trace", "steps"):
            # Another project may have sent a trace of the same id: that one is its own.
            return f"work-{project}" in {step["name"] for step in answer.body["steps"]}, answer
        if what not in LISTS:
            return True, answer
        owners = {item["project"] for item in answer.body.get(what, ())}
        assert len(owners) <= 1, "a list is of one project"
        return project in owners, answer

    return Operation, f"{wire} {what}", by, act, what in (*LISTS, "trace", "steps")


async def _shown(world, project, approval_id):
    """The digest of what an approver of the project is shown."""
    path, key = f"/v1/approvals/{approval_id}", world.good["approver", project]
    return (await world.http("control.listen", "GET", path, key)).body["shown_digest"]


def _write(what, wire, target):
    bodies = {"approve": {"reason": "checked"}, "deny": {"reason": "no"}, "revoke": {},
              "rotate": {"overlap_seconds": 0}, "create": {"role": "agent"}}  # fmt: skip

    async def act(world, project, key, named):
        body = bodies[what]
        if what == "approve":
            body = body | {"shown_digest": await _shown(world, project, target)}
        if wire == "http":
            place = {"approve": f"/v1/approvals/{target}/approve", "create": "/v1/keys",
                     "deny": f"/v1/approvals/{target}/deny"}  # fmt: skip
            path = place.get(what, f"/v1/keys/{target}/{what}")
            path += f"?project={project}" if named else ""
            answer = await world.http("control.listen", "POST", path, key, json_=body)
        else:
            method, asks, gives, field = {
                "approve": ("ApprovalService/Approve", approval_pb2.ApproveRequest,
                            approval_pb2.Approval, "approval_id"),
                "deny": ("ApprovalService/Deny", approval_pb2.DenyRequest,
                         approval_pb2.Approval, "approval_id"),
                "revoke": ("KeyService/RevokeKey", key_pb2.KeyRequest, key_pb2.KeyDocument,
                           "key_id"),
                "rotate": ("KeyService/RotateKey", key_pb2.RotateKeyRequest, key_pb2.CreatedKey,
                           "key_id"),
                "create": ("KeyService/CreateKey", key_pb2.CreateKeyRequest, key_pb2.CreatedKey,
                           None),
            }[what]  # fmt: skip
            given = body | ({field: target} if field else {})
            given |= {"project": project} if named else {}
            answer = await world.rpc(
                "control.grpc", f"/sidecar.v1.{method}", asks(**given), key, gives
            )
        return answer.good and answer.body["project"] == project, answer

    by = ("approver",) if what in ("approve", "deny") else ("admin",)
    return Operation, f"{wire} {what}", by, act, what == "create"


def _export(wire, trace):
    async def act(world, project, key, named):
        owner = next((who for who, good in world.good.items() if good == key), None)
        name = f"work-{project}" if owner == ("agent", project) else f"intruder-{project}"
        data = spans(trace, name, world.next_span())
        if wire == "http":
            answer = await world.http("receive.http", "POST", "/v1/traces", key, data=data,
                                      Content_Type="application/x-protobuf")  # fmt: skip
        else:
            answer = await world.rpc("receive.grpc", EXPORT, data, key)
        # Another project's agent may send; where it went is looked at in the end.
        return answer.good and owner == ("agent", project), answer

    return Operation, f"otlp {wire}", ("agent",), act, True


def _call(what, target):
    async def act(world, project, key, named):
        headers = {"X_Project": project} if named else {}
        if what == "poll":
            answer = await world.http("gateway.listen", "GET", f"/v1/approvals/{target}", key)
        elif what == "read":
            answer = await world.http("gateway.listen", "GET", f"/shop/orders/{target}", key,
                                      **headers)  # fmt: skip
        elif what == "write":
            answer = await world.note(target, f"once-{target}", key)
        else:
            order, idempotency_key, first = target
            answer = await world.note(order, idempotency_key, key)
            # Each effect's answer is one of its kind: who gets this one gets the project's.
            return answer.good and answer.body == first.body, answer
        return answer.good, answer

    return Operation, f"gateway {what}", ("agent",), act, what == "replay"


def operations(world, count, rng):
    """So many random operations; those that change something each have a thing of their own."""
    made = []
    for number in range(count):
        project = rng.choice(PROJECTS)
        family = rng.choices(
            ("read", "write", "otlp", "gateway"), weights=(52, 10, 22, 16)
        )[0]  # fmt: skip
        wire = rng.choice(("http", "grpc"))
        if family == "read":
            what = rng.choice(tuple(PATHS))
            built = _read(what, wire, _target(world, what, project, rng),
                          ("admin",) if what in ("keys", "key") else PEOPLE)  # fmt: skip
        elif family == "write":
            what = rng.choice(("approve", "deny", "create", "rotate", "revoke"))
            pool = world.voted if what in ("approve", "deny") else world.spare
            built = _write(what, wire, None if what == "create" else pool[project].pop())
        elif family == "otlp":
            built = _export(wire, trace_id(project, rng.randrange(TRACES_EACH) + 1))
        else:
            what = rng.choice(("read", "write", "replay", "poll"))
            target = {"read": f"r{number}", "write": f"w{number}",
                      "replay": rng.choice(world.calls[project]),
                      "poll": rng.choice(world.approvals[project])}[what]  # fmt: skip
            built = _call(what, target)
        kind, name, by, act, own = built
        over_control = family in ("read", "write")
        made.append(kind(name=name, project=project, by=by, act=act, own=own,
                         over_control=over_control))  # fmt: skip
    return made


def _target(world, what, project, rng):
    if what in LISTS:
        return None
    if what in ("trace", "steps"):
        return trace_id(project, rng.randrange(TRACES_EACH) + 1)
    if what == "approval":
        return rng.choice(world.approvals[project])
    if what == "key":
        return world.rows[rng.choice(("agent", "reader")), project].key_id
    if what == "call":
        return rng.choice(world.call_ids[project])
    _, _, first = rng.choice(world.calls[project])
    return first.headers["Gateway-Receipt"]
