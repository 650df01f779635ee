"""A real sidecar with three projects that have something to steal, and credentials good and bad."""

import asyncio
import json
import random
import time
from contextlib import asynccontextmanager

import aiohttp
import grpc
from aiohttp import web
from google.protobuf.json_format import MessageToDict
from msgspec import Struct
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from sidecar_process import SidecarProcess

from sidecar import clock
from sidecar.app import minting, opening
from sidecar.app.loading import load_config
from sidecar.identity.keys import KeyTerms, mint_key

PROJECTS = ("a", "b", "c")
ORGANISATION = ("a", "b")  # of which "ab" is; c is nobody's
KINDS = ("agent", "approver", "reader", "admin")
EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
TRACES_EACH = 6
CONFIG = """\
seal: {{key_file: seal-key}}
store: {{url: "sqlite:///data"}}
projects: [{{name: a}}, {{name: b}}, {{name: c}}]
approvals: {{fatigue: {{approvals_max: 1000000, requests_max: 1000000}}}}
organisations: [{{name: ab, projects: [a, b]}}]
receive: {{grpc: "127.0.0.1:0", http: "127.0.0.1:0"}}
assemble: {{idle: 500ms}}
gateway:
  listen: "127.0.0.1:0"
  accept_ephemeral_ledger: true
  upstreams: [{{name: shop, url: "http://127.0.0.1:{port}", allow_cidrs: ["127.0.0.0/8"]}}]
  tools:
    - {{name: get_order, upstream: shop, class: read,
        match: {{method: GET, path: "/orders/{{order_id}}"}}}}
    - {{name: add_note, upstream: shop, class: write,
        match: {{method: POST, path: "/orders/{{order_id}}/notes"}}}}
    - {{name: issue_refund, upstream: shop, class: irreversible,
        match: {{method: POST, path: "/orders/{{order_id}}/refunds"}},
        cost: {{amount: "arguments.amount", currency: "arguments.currency"}}}}
policy: {{deadline: 10s}}
control: {{listen: "127.0.0.1:0", grpc: "127.0.0.1:0"}}
metrics: {{listen: "127.0.0.1:0"}}
"""


class Answer(Struct):
    """``status``: HTTP's number, or gRPC's word; ``body`` as JSON where it is JSON."""

    status: object
    body: object = None
    headers: object = None

    @property
    def good(self):
        return self.status in (200, 201, "OK")

    @property
    def refused(self):
        return self.status in (401, 403, 404, "UNAUTHENTICATED", "PERMISSION_DENIED", "NOT_FOUND")


def trace_id(project, number):
    return f"{ord(project):02x}{number:030x}"


def spans(trace, name, span_number):
    """An OTLP request of one span, which also says that it is somebody else's."""
    request = ExportTraceServiceRequest()
    resource = request.resource_spans.add()
    resource.resource.attributes.add(key="service.name").value.string_value = "tenancy"
    for key in ("tenant", "project", "agenttwin.project"):
        resource.resource.attributes.add(key=key).value.string_value = chr(int(trace[:2], 16))
    now = time.time_ns()
    resource.scope_spans.add().spans.add(
        trace_id=bytes.fromhex(trace), span_id=span_number.to_bytes(8), name=name,
        start_time_unix_nano=now, end_time_unix_nano=now + 1000,
    )  # fmt: skip
    return request.SerializeToString()


class World:
    """Clients of every listener, what is in each project, and the keys."""

    def __init__(self, folder):
        self.folder = folder
        self.good = {}  # (kind, project) -> key
        self.bad = {}  # (kind, project) -> keys that were good once, or nearly are
        self.rows = {}
        self.noted = []  # order ids that got a note, as the shop saw them
        self.calls = {each: [] for each in PROJECTS}  # order, idempotency key, answer
        self.approvals = {each: [] for each in PROJECTS}
        self.span_number = 0

    async def shop(self, request):
        await request.read()
        if request.method == "POST":
            self.noted.append(request.path.split("/")[2])
        return web.json_response({"order": request.path.split("/")[2], "nth": len(self.noted)})

    async def http(self, listener, method, path, key=None, *, json_=None, data=None, **headers):
        if key is not None:
            headers["Authorization"] = f"Bearer {key}"
        url = f"http://{self.addresses[listener]}{path}"
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        async with self.session.request(
            method, url, json=json_, data=data, headers=headers
        ) as answer:
            body = await answer.read()
            if answer.content_type.endswith("json"):
                body = json.loads(body)
            return Answer(answer.status, body, answer.headers)

    async def rpc(self, listener, method, request, key=None, reply=None):
        metadata = () if key is None else (("authorization", f"Bearer {key}"),)
        raw = request if isinstance(request, bytes) else request.SerializeToString()
        call = self.channels[listener].unary_unary(method)
        try:
            answer = await call(raw, metadata=metadata, timeout=30)
        except grpc.aio.AioRpcError as error:
            return Answer(error.code().name, error.details())
        if reply is None:
            return Answer("OK")
        message = MessageToDict(reply.FromString(answer), preserving_proto_field_name=True)
        return Answer("OK", message)

    def next_span(self):
        self.span_number += 1
        return self.span_number

    def make_keys(self, rng):
        """All keys, written beside the running sidecar as the command line does."""
        loaded = load_config(str(self.folder / "sidecar.yaml"), None)
        now = clock.now_ns()
        with opening.open_keys(loaded) as keys:
            for project in PROJECTS:
                for kind in KINDS:
                    terms = KeyTerms(kind=kind, project=project, name=f"{kind}-{project}")
                    self.good[kind, project], self.rows[kind, project] = minting.create_key(
                        keys, terms
                    )
                    revoked, row = minting.create_key(keys, terms)
                    minting.revoke_key(keys, row.key_id)
                    expired, _ = minting.create_key(
                        keys, KeyTerms(kind=kind, project=project, expires_at_ns=now - 1)
                    )
                    replaced, row = minting.create_key(keys, terms)
                    minting.rotate_key(keys, row.key_id, 0)
                    unknown, _ = mint_key(terms, id_bytes=rng.randbytes(8),
                                          secret_bytes=rng.randbytes(32), now_ns=now)  # fmt: skip
                    mixed = self.good[kind, project][:-43] + unknown[-43:]
                    self.bad[kind, project] = [revoked, expired, replaced, unknown, mixed]
            self.good["organisation", "ab"], _ = minting.create_key(
                keys, KeyTerms(kind="admin", organisation="ab", name="admin-ab")
            )

    def spare_keys(self, project, count):
        """Ids of keys that are there to be rotated or revoked."""
        loaded = load_config(str(self.folder / "sidecar.yaml"), None)
        with opening.open_keys(loaded) as keys:
            terms = KeyTerms(kind="agent", project=project, name="spare")
            return [minting.create_key(keys, terms)[1].key_id for _ in range(count)]

    async def refund(self, project, key):
        """A call that waits for approval; the request's id."""
        asked = await self.http(
            "gateway.listen", "POST", "/shop/orders/1/refunds", self.good["agent", project],
            json_={"amount": 500, "currency": "EUR"}, Idempotency_Key=key,
        )  # fmt: skip
        assert asked.body["code"] == "approval_required", asked
        return asked.body["approval"]["id"]

    async def note(self, order, key, credential):
        path = f"/shop/orders/{order}/notes"
        return await self.http("gateway.listen", "POST", path, credential,
                               json_={"text": "x"}, Idempotency_Key=key)  # fmt: skip

    async def fill(self):
        """Something of each kind in every project, and wait until it can be read."""
        for project in PROJECTS:
            for number in range(TRACES_EACH):
                data = spans(trace_id(project, number + 1), f"work-{project}", self.next_span())
                sent = await self.http(
                    "receive.http", "POST", "/v1/traces", self.good["agent", project],
                    data=data, Content_Type="application/x-protobuf",
                )  # fmt: skip
                assert sent.status == 200
            for number in range(4):
                order, key = f"{project}{number}", f"first-{project}{number}"
                done = await self.note(order, key, self.good["agent", project])
                assert done.status == 200, done
                self.calls[project].append((order, key, done))
        for project in PROJECTS:
            await self.published(project)

    async def published(self, project):
        async with asyncio.timeout(60):
            while True:
                found = await self.http(
                    "control.listen", "GET", "/v1/traces?limit=1000", self.good["reader", project]
                )
                if len(found.body["traces"]) >= TRACES_EACH:
                    return
                await asyncio.sleep(0.05)


@asynccontextmanager
async def world(folder):
    """A World that is served and filled."""
    made = World(folder)
    runner = web.ServerRunner(web.Server(made.shop))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    process = SidecarProcess(folder, CONFIG.format(port=runner.addresses[0][1]))
    try:
        await asyncio.to_thread(process.start)
        made.addresses = process.addresses
        made.channels = {
            name: grpc.aio.insecure_channel(made.addresses[name])
            for name in ("receive.grpc", "control.grpc")
        }
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(connector=connector) as made.session:
            made.make_keys(random.Random(1))
            await made.fill()
            yield made
        for channel in made.channels.values():
            await channel.close()
    finally:
        await asyncio.to_thread(process.stop)
        await runner.cleanup()
