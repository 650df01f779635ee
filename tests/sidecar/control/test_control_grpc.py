"""The control API over real gRPC: the same operations, principals and refusals as over HTTP."""

import asyncio

import grpc
import pytest
from control_rig import BEYOND, control, pending, trace, trace_id, verdict
from google.protobuf.json_format import MessageToDict
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from sidecar._pb.v1 import (
    approval_pb2,
    approval_pb2_grpc,
    audit_pb2,
    audit_pb2_grpc,
    call_pb2,
    call_pb2_grpc,
    key_pb2,
    key_pb2_grpc,
    sidecar_pb2,
    sidecar_pb2_grpc,
    trace_pb2,
    trace_pb2_grpc,
    verdict_pb2,
    verdict_pb2_grpc,
)
from sidecar.control.grpc import SERVICES, ControlGrpc
from sidecar.control.operations import OPERATIONS
from sidecar.errors import SidecarError

SECONDS = 10


class Stubs:
    """Every service's generated stub over one channel."""

    def __init__(self, channel):
        self.traces = trace_pb2_grpc.TraceServiceStub(channel)
        self.calls = call_pb2_grpc.CallServiceStub(channel)
        self.approvals = approval_pb2_grpc.ApprovalServiceStub(channel)
        self.verdicts = verdict_pb2_grpc.VerdictServiceStub(channel)
        self.audit = audit_pb2_grpc.AuditServiceStub(channel)
        self.keys = key_pb2_grpc.KeyServiceStub(channel)
        self.sidecar = sidecar_pb2_grpc.SidecarServiceStub(channel)


def run(folder, scenario):
    async def main():
        async with control(folder) as each:
            return await scenario(each, Stubs(each.channel))

    return asyncio.run(main())


def by(key):
    return {"metadata": (("authorization", f"Bearer {key}"),), "timeout": SECONDS}


async def refused(call):
    """Status, detail and code of a call that is refused."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    error = caught.value
    return error.code().name, error.details(), dict(error.trailing_metadata()).get("problem-code")


@pytest.mark.requirement("APR-01")
def test_an_approver_decides_over_grpc_and_the_agent_gets_its_token(tmp_path):
    async def scenario(each, stubs):
        approval_id = await pending(each)
        listed = await stubs.approvals.ListApprovals(
            approval_pb2.ListApprovalsRequest(status="pending"), **by(each.reader)
        )
        assert [one.approval_id for one in listed.approvals] == [approval_id]
        vote = approval_pb2.ApproveRequest(approval_id=approval_id, reason="order checked")
        told = await refused(stubs.approvals.Approve(vote, **by(each.approver)))
        assert told[:2] == ("INVALID_ARGUMENT", "shown_digest is missing")
        vote.shown_digest = listed.approvals[0].shown_digest
        told = await refused(stubs.approvals.Approve(vote, **by(each.reader)))
        assert (told[0], told[2]) == ("PERMISSION_DENIED", "forbidden")
        decided = await stubs.approvals.Approve(vote, **by(each.approver))
        assert (decided.status, decided.votes[0].reason) == ("approved", "order checked")
        token = (await each.ask("GET", f"/v1/approvals/{approval_id}")).json["token"]
        done = await each.refund("17", key="a", amount=500, Approval_Token=token)
        assert done.status == 201
        against = approval_pb2.DenyRequest(approval_id=approval_id, reason="too late")
        told = await refused(stubs.approvals.Deny(against, **by(each.approver)))
        assert (told[0], told[2]) == ("FAILED_PRECONDITION", "approval_consumed")

    run(tmp_path, scenario)


def test_a_trace_is_told_with_its_values_exactly(tmp_path):
    async def scenario(each, stubs):
        await each.shelf.publish(trace(1))
        asked = trace_pb2.GetTraceRequest(trace_id=trace_id(1))
        told = await stubs.traces.GetTrace(asked, **by(each.reader))
        web = (await each.http_ask("GET", f"/v1/traces/{trace_id(1)}", by=each.reader)).json
        plain = MessageToDict(told, preserving_proto_field_name=True)
        assert [one["step_id"] for one in plain["steps"]] == [
            one["step_id"] for one in web["steps"]
        ]
        step = told.steps[2]
        assert step.start_ns == web["steps"][2]["start_ns"]  # beyond what a double can say
        arguments = plain["steps"][2]["tool"]["arguments"]
        assert arguments == {
            "amount": 5.0, "beyond": str(BEYOND), "deep": [None, {"é": 1.5}], "nan": None,
        }  # fmt: skip
        assert dict(step.content_state) == {"arguments": "captured"}
        assert plain["claims"][0]["text"] == "done" and plain["evidence"][0]["held"] is True
        assert not told.steps[0].HasField("tool") and step.HasField("tool")
        told = await refused(
            stubs.traces.GetTrace(trace_pb2.GetTraceRequest(trace_id="x"), **by(each.reader))
        )
        assert told == ("NOT_FOUND", "there is no such trace in this project", "no_such_trace")

    run(tmp_path, scenario)


def test_lists_go_on_where_their_page_ends(tmp_path):
    async def scenario(each, stubs):
        await each.shelf.publish(*(trace(number) for number in (1, 2, 3)))
        found, cursor = [], None
        for _ in range(3):
            page = await stubs.traces.ListTraces(
                trace_pb2.ListTracesRequest(limit=1, cursor=cursor), **by(each.reader)
            )
            found += [one.trace_id for one in page.traces]
            cursor = page.next_cursor
        assert found == [trace_id(3), trace_id(2), trace_id(1)] and not cursor
        each.verdicts.add_verdict(verdict(1))
        told = await stubs.verdicts.GetVerdict(
            verdict_pb2.GetVerdictRequest(verdict_id="verdict0001"), **by(each.reader)
        )
        assert MessageToDict(told.findings[0].operands) == {"n": [1.0, None]}

    run(tmp_path, scenario)


def test_a_tail_follows_what_is_published_and_ends_with_its_key_or_the_server(tmp_path):
    async def scenario(each, stubs):
        await each.shelf.publish(trace(1))
        leaver = each.credential("reader")
        asked = trace_pb2.TailTracesRequest(after=0)
        tail = stubs.traces.TailTraces(asked, metadata=by(each.reader)["metadata"])
        leaving = stubs.traces.TailTraces(asked, metadata=by(leaver)["metadata"])
        for following in (tail, leaving):
            first = await asyncio.wait_for(following.read(), SECONDS)
            assert (first.trace_id, first.revision) == (trace_id(1), 1)
        each.keys.revoke_key(leaver.split("_")[2], 1)
        await each.shelf.publish(trace(1, final_output="more"), trace(2, project="other"))
        second = await asyncio.wait_for(tail.read(), SECONDS)
        assert (second.trace_id, second.revision) == (trace_id(1), 2)
        assert (await refused(leaving.read()))[0] == "UNAUTHENTICATED"
        each.desk.release()
        assert await asyncio.wait_for(tail.read(), SECONDS) == grpc.aio.EOF

    run(tmp_path, scenario)


def test_a_watch_tells_requests_as_they_come_and_as_they_change(tmp_path):
    async def scenario(each, stubs):
        first = await pending(each)
        watch = stubs.approvals.WatchApprovals(
            approval_pb2.WatchApprovalsRequest(), metadata=by(each.approver)["metadata"]
        )

        async def told():
            each_ = await asyncio.wait_for(watch.read(), SECONDS)
            return each_.approval_id, each_.status

        assert await told() == (first, "pending")
        second = await pending(each, key="b")
        assert await told() == (second, "pending")
        vote = approval_pb2.DenyRequest(approval_id=first, reason="no")
        await stubs.approvals.Deny(vote, **by(each.approver))
        assert await told() == (first, "denied")
        watch.cancel()

    run(tmp_path, scenario)


def test_calls_receipts_and_the_chain(tmp_path):
    async def scenario(each, stubs):
        reply = await each.refund("17", key="b")
        receipt = await stubs.calls.GetReceipt(
            call_pb2.GetReceiptRequest(receipt_id=reply.headers["gateway-receipt"]),
            **by(each.reader),
        )
        call = await stubs.calls.GetCall(
            call_pb2.GetCallRequest(call_id=receipt.call_id), **by(each.reader)
        )
        assert [one.phase for one in call.receipts] == ["authorised", "executed"]
        head = await stubs.audit.GetAuditHead(audit_pb2.GetAuditHeadRequest(), **by(each.reader))
        verified = await stubs.audit.VerifyAudit(audit_pb2.VerifyAuditRequest(), **by(each.reader))
        assert verified.good and verified.entries == head.seq and not verified.HasField("what")
        export = stubs.audit.ExportAudit(audit_pb2.ExportAuditRequest(), **by(each.reader))
        lines = [line async for line in export]
        assert [one.seq for one in lines] == [*range(1, head.seq + 1), head.seq]
        assert lines[-1].head.signature == head.signature

    run(tmp_path, scenario)


def test_keys_and_the_sidecar_itself(tmp_path):
    async def scenario(each, stubs):
        made = await stubs.keys.CreateKey(
            key_pb2.CreateKeyRequest(role="agent", tools=["get_order"]), **by(each.admin)
        )
        assert list(made.tools) == ["get_order"]
        me = await stubs.sidecar.WhoAmI(sidecar_pb2.WhoAmIRequest(), **by(made.key))
        assert (me.kind, list(me.permissions)) == ("agent", ["telemetry.write", "tools.call"])
        await stubs.keys.RevokeKey(key_pb2.KeyRequest(key_id=made.key_id), **by(each.admin))
        told = await refused(stubs.sidecar.WhoAmI(sidecar_pb2.WhoAmIRequest(), **by(made.key)))
        assert told[0] == "UNAUTHENTICATED"
        tools = await stubs.sidecar.ListTools(sidecar_pb2.ListToolsRequest(), **by(each.reader))
        assert {one.name for one in tools.tools} == {"get_order", "issue_refund", "add_note"}

    run(tmp_path, scenario)


def test_what_is_asked_wrongly_is_an_invalid_argument_and_repeats_nothing(tmp_path):
    async def scenario(each, stubs):
        for request in (
            trace_pb2.ListTracesRequest(limit=0),
            trace_pb2.ListTracesRequest(limit=1001),
            trace_pb2.ListTracesRequest(cursor="secret"),
            trace_pb2.ListTracesRequest(outcome="secret"),
            trace_pb2.ListTracesRequest(service="\x00"),
        ):
            told = await refused(stubs.traces.ListTraces(request, **by(each.reader)))
            assert (told[0], told[2]) == ("INVALID_ARGUMENT", "argument_malformed"), request
            assert "secret" not in told[1]
        told = await refused(
            stubs.approvals.Deny(approval_pb2.DenyRequest(approval_id="x"), **by(each.approver))
        )
        assert told[:2] == ("INVALID_ARGUMENT", "reason is missing")
        raw = each.channel.unary_unary("/sidecar.v1.TraceService/GetTrace")
        told = await refused(raw(b"\xff\xff", **by(each.reader)))
        assert (told[0], told[2]) == ("INVALID_ARGUMENT", "message_unreadable")
        large = approval_pb2.ApproveRequest(approval_id="x", reason="x" * 70_000)
        told = await refused(stubs.approvals.Approve(large, **by(each.approver)))
        assert told[0] == "RESOURCE_EXHAUSTED"
        told = await refused(
            stubs.traces.ListTraces(trace_pb2.ListTracesRequest(project="other"), **by(each.reader))
        )
        assert told[0] == "PERMISSION_DENIED"

    run(tmp_path, scenario)


def test_every_method_is_closed_to_strangers_and_to_agents(tmp_path):
    async def scenario(each, _):
        for operation in OPERATIONS:
            path = f"/sidecar.v1.{operation.service}/{operation.rpc}"
            for key, status in ((None, "UNAUTHENTICATED"), (each.agent, "PERMISSION_DENIED")):
                if key and operation.permission is None:
                    continue
                assert await asked(each, operation, path, key) == status, path

    async def asked(each, operation, path, key):
        more = by(key) if key else {"timeout": SECONDS}
        if operation.stream:
            return (await refused(each.channel.unary_stream(path)(b"", **more).read()))[0]
        return (await refused(each.channel.unary_unary(path)(b"", **more)))[0]

    run(tmp_path, scenario)


def test_two_credentials_are_none(tmp_path):
    async def scenario(each, stubs):
        twice = (("authorization", f"Bearer {each.reader}"),) * 2
        call = stubs.traces.ListTraces(
            trace_pb2.ListTracesRequest(), metadata=twice, timeout=SECONDS
        )
        assert (await refused(call))[0] == "UNAUTHENTICATED"

    run(tmp_path, scenario)


def test_health_needs_no_key_and_reflection_does(tmp_path):
    async def scenario(each, _):
        health = health_pb2_grpc.HealthStub(each.channel)
        for service in ("", *SERVICES):
            told = await health.Check(
                health_pb2.HealthCheckRequest(service=service), timeout=SECONDS
            )
            assert told.status == health_pb2.HealthCheckResponse.SERVING
        stub = reflection_pb2_grpc.ServerReflectionStub(each.channel)
        listing = reflection_pb2.ServerReflectionRequest(list_services="")
        call = stub.ServerReflectionInfo(iter([listing]), **by(each.reader))
        names = {one.name for one in (await call.read()).list_services_response.service}
        assert names >= set(SERVICES)
        asked = reflection_pb2.ServerReflectionRequest(
            file_containing_symbol="sidecar.v1.TraceService"
        )
        call = stub.ServerReflectionInfo(iter([asked]), **by(each.reader))
        files = (await call.read()).file_descriptor_response.file_descriptor_proto
        assert any(b"sidecar/v1/trace.proto" in one for one in files)
        for key, status in ((None, "UNAUTHENTICATED"), (each.agent, "PERMISSION_DENIED")):
            more = by(key) if key else {"timeout": SECONDS}
            call = stub.ServerReflectionInfo(iter([listing]), **more)
            assert (await refused(call.read()))[0] == status

    run(tmp_path, scenario)


def test_a_taken_port_is_an_error_with_its_key(tmp_path):
    async def scenario(each, _):
        second = ControlGrpc(each.desk, listen=f"127.0.0.1:{each.rpc.port}")
        with pytest.raises(SidecarError) as caught:
            await second.start()
        assert "control.grpc" in str(caught.value) and str(each.rpc.port) in str(caught.value)
        await second.stop()

    run(tmp_path, scenario)
