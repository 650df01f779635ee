"""The control API on both wires beside a real gateway, over the stores that a sidecar has.

``control(...)`` starts all of it: ``each.http_ask`` asks over HTTP, ``each.channel`` is gRPC's.
"""

import hashlib
import json
from contextlib import asynccontextmanager

import grpc
from gateway_rig import AllowAll, keyring, rig
from msgspec import Struct
from msgspec.structs import replace

from processors.model.call import ApprovalTerms, Reason
from processors.model.evidence import Claim, Evidence, Outcome
from processors.model.step import Agent, Message, Model, Part, Source, Step, Tool, Usage
from processors.model.trace import AgentTrace, Service
from processors.model.verdict import Failure, Finding, Verdict
from sidecar import clock
from sidecar.control import documents
from sidecar.control.changes import Bench
from sidecar.control.grpc import ControlGrpc
from sidecar.control.http import ControlServer
from sidecar.control.reads import House, Views, tool_document
from sidecar.control.worker import Desk
from sidecar.gateway.config import Approvals
from sidecar.gateway.policy.result import PolicyAnswer
from sidecar.identity.keys import KeyTerms, mint_key
from sidecar.store.envelope import Sealer
from sidecar.store.sqlite.ledger_reader import SqliteLedgerReader
from sidecar.store.sqlite.published import SqlitePublished
from sidecar.store.sqlite.traces import SqliteOpenTraces, SqliteTraces
from sidecar.store.sqlite.verdicts import SqliteVerdicts
from sidecar.store.traces import CursorMove, Digests, Due, Intake, Publication, content_digest
from sidecar.store.traces import Part as StoredPart

START = 1_790_000_000_000_000_000
BEYOND = 2**70


class Told(Struct):
    """An answer over HTTP."""

    status: int
    headers: dict
    body: bytes

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def code(self):
        return self.json["code"]


def trace_id(number):
    return f"{number:032x}"


def trace(number=1, *, project="default", service="refund-agent", start_ns=None, **fields):
    """A trace with a step of each sort, and values that are hard to say."""
    name = trace_id(number)
    start_ns = START + number * 1000 if start_ns is None else start_ns
    source = Source(kind="span", trace_id=name, span_id="1" * 16)
    arguments = {"amount": 5, "beyond": BEYOND, "deep": [None, {"é": 1.5}], "nan": float("nan")}
    steps = (
        Step(step_id=f"{name}:1", kind="agent", name="run", agent=Agent(name=service),
             start_ns=start_ns, end_ns=start_ns + 9, sources=(source,)),
        Step(step_id=f"{name}:2", kind="model_call", name="chat", model=Model(provider="openai"),
             start_ns=start_ns + 1, end_ns=start_ns + 4, usage=Usage(input=3, output=4),
             messages_in=(Message(role="user", parts=(Part(type="text", content="hi"),)),)),
        Step(step_id=f"{name}:3", kind="tool_call", name="issue_refund", start_ns=start_ns + 5,
             end_ns=start_ns + 8, tool=Tool(name="issue_refund", arguments=arguments),
             content_state={"arguments": "captured"}, attributes={"x": "y"}),
    )  # fmt: skip
    return AgentTrace(
        trace_id=name,
        trace_ids=(name,),
        project=project,
        service=Service(name=service, version="1"),
        steps=steps,
        claims=(Claim(claim_id="c", subject="issue_refund", status="success",
                      source="final_answer", rule="r", text="done"),),
        evidence=(Evidence(evidence_id="e", source="receipt", name="n", held=True,
                           data={"status": 201}),),
        outcome=Outcome(status="verified_success"),
        **fields,
    )  # fmt: skip


def verdict(number, project="default"):
    return Verdict(
        verdict_id=f"verdict{number:04d}", project=project, suite="refunds", baseline="a",
        candidate="b", status="BLOCK", exit_code=1, counts={"cases": 1}, digest="sha256:0",
        findings=(Finding(rule="r", severity="block", detail="d", operands={"n": [1, None]}),),
        failures=(Failure(case="c", case_class="regressed", expectation="e", detail="d"),),
        created_at_ns=START + number // 2, evidence={"folder": "x"},
    )  # fmt: skip


class AskAbove100(AllowAll):
    """A policy port that asks for approval of dear calls: these tests are not about policy."""

    revision = "sha256:" + "5" * 64

    async def decide(self, document):
        dear = document["arguments"].get("amount", 0) > 100
        return PolicyAnswer(
            effect="require_approval" if dear else "allow",
            reasons=(Reason(code="dear" if dear else "cheap"),),
            approval=ApprovalTerms() if dear else None,
            revision=self.revision,
        )


class TraceShelf:
    """Publishes traces as the pipeline does."""

    def __init__(self, folder):
        def sealers(project):
            return Sealer(hashlib.sha256(project.encode()).digest(), clock.random_bytes)

        self._store = SqliteOpenTraces(folder / "traces.db", sealers=sealers)
        self._count = 0

    async def publish(self, *traces):
        for each in traces:
            self._count += 1
            part = StoredPart(
                project=each.project, key=each.trace_id, kind="telemetry",
                payload=str(self._count).encode(), expires_ns=1 << 62,
            )  # fmt: skip
            before = self._store.cursor("j")
            move = CursorMove(name="j", before=before, after=before + 1)
            await self._store.take_in(Intake(move=move, parts=(part,), now_ns=self._count))
            now_ns = 10**6 + self._count
            due = Due(now_ns=now_ns, idle_ns=0, open_max_ns=0, limit=100)
            opened = next(o for o in self._store.due(due) if o.key == each.trace_id)
            digest = content_digest(each)
            await self._store.publish(
                [
                    Publication(
                        open_id=opened.open_id, version=opened.version, traces=(each,),
                        digests=(Digests(content=digest, facts=digest),), now_ns=now_ns,
                    )
                ]
            )  # fmt: skip

    def close(self):
        self._store.close()


def house(policy, registry):
    return House(
        version=documents.Version(name="agenttwin-sidecar", version="0", api="1"),
        policy=documents.PolicyDocument(
            engine="embedded", revision=policy.revision, mode="enforce", approvers=1,
            approvals_expire="10m", approvals_execute_within="10m",
            distinct_from=("requester", "owner"),
        ),
        tools=tuple(tool_document(each, "enforce") for each in registry.tools.values()),
        projects={},
        project=documents.ProjectDocument(
            name="", role="", capture="off", traces_retention="30d", content_retention="7d"
        ),
    )  # fmt: skip


def grown(each, authenticate=None, approvals=None):
    """Adds the control API to a gateway's rig: what to start, and what to close."""
    folder = each.folder
    each.shelf = TraceShelf(folder)
    each.verdicts = SqliteVerdicts(folder / "traces.db")
    ledger = SqliteLedgerReader(folder / "ledger.db", keyring(each.keys))
    traces = SqliteTraces(folder / "traces.db")
    published = SqlitePublished(folder / "traces.db")
    views = Views(
        ledger=ledger, traces=traces, published=published, verdicts=each.verdicts,
        keys=each.keys, house=house(each.policy, each.gateway.registry),
    )  # fmt: skip
    each.views = views
    each.desk = Desk(
        views, Bench(keys=each.keys, random=clock.random_bytes), each.ledger,
        authenticate or each.authenticate, each.gateway, approvals=approvals or Approvals(),
    )  # fmt: skip
    each.web = ControlServer(each.desk, listen="127.0.0.1:0")
    each.rpc = ControlGrpc(each.desk, listen="127.0.0.1:0")
    return (ledger, traces, published, each.verdicts, each.shelf)


@asynccontextmanager
async def control(folder, *, tool_changes=None, **more):
    """A gateway's Rig with the control API and a credential of each role."""
    # The API's stores are files here; each is tested on Postgres by its contract.
    files = folder / "ledger.db"
    async with rig(
        folder, policy=AskAbove100(), tool_changes=tool_changes, ledger_path=files
    ) as each:
        stores = grown(each, **more)
        await each.web.start()
        await each.rpc.start()
        each.channel = grpc.aio.insecure_channel(f"127.0.0.1:{each.rpc.port}")
        each.approver = each.credential("approver", name="Ann")
        each.reader = each.credential("reader")
        each.admin = each.credential("admin", name="Ada")

        def member(role, kind, project="default", **terms):
            text, row = mint_key(
                KeyTerms(kind=kind, role=role, project=project, **terms),
                id_bytes=clock.random_bytes(8), secret_bytes=clock.random_bytes(32),
                now_ns=clock.now_ns(),
            )  # fmt: skip
            each.keys.add_key(row)
            return text

        async def http_ask(method, path, *, by=None, json=None, data=None, headers=None):
            sent = {**({"Authorization": f"Bearer {by}"} if by else {}), **(headers or {})}
            url = f"http://127.0.0.1:{each.web.port}{path}"
            async with each.http.request(
                method, url, json=json, data=data, headers=sent, allow_redirects=False
            ) as response:
                found = {name.lower(): value for name, value in response.headers.items()}
                if "Set-Cookie" in response.headers:
                    found["set-cookie"] = "\n".join(response.headers.getall("Set-Cookie"))
                return Told(response.status, found, await response.read())

        each.member, each.http_ask = member, http_ask
        try:
            yield each
        finally:
            await each.channel.close()
            await each.web.stop()
            await each.rpc.stop()
            await each.desk.stop()
            for store in stores:
                store.close()


async def pending(each, key="a"):
    """The id of a request for approval that a refund made."""
    reply = await each.refund("17", key=key, amount=500)
    return reply.json["approval"]["id"]


def changed(shown, **fields):
    """The same trace with other content."""
    return replace(shown, **fields)
