"""A store with a run's gateway calls and its telemetry, on each backend: what tapes are made of."""

import asyncio
from contextlib import closing

from gateway_rig import MASTER, keyring, rig
from ledger_rig import ledgers

from processors.model.step import Agent, Message, Model, Part, Source, Step, Tool
from processors.model.trace import AgentTrace, Service
from sidecar import clock
from sidecar.store.location import read_location
from sidecar.store.postgres.backend import PostgresBackend
from sidecar.store.sqlite.backend import SqliteBackend
from sidecar.store.traces import (
    Bounds,
    CursorMove,
    Digests,
    Due,
    Intake,
    Publication,
    content_digest,
)
from sidecar.store.traces import (
    Part as TracePart,
)

TRACE = "ab" * 16
SECRET = "sk-live-4eC39HqLyjWDarjtT1zdp7dc"
READ, PLAIN, APPROVED, LOST = ("1" * 16, "2" * 16, "3" * 16, "4" * 16)


def parent(span, trace=TRACE):
    return {"traceparent": f"00-{trace}-{span}-01"}


async def calls(each):
    """A run's calls, and others'; when the spans of ``READ`` and ``APPROVED`` began and ended."""
    times = [clock.now_ns()]
    await each.ask("GET", f"/payments/orders/17?token={SECRET}", **parent(READ))
    times.append(clock.now_ns())
    await each.refund("17", key="a", **parent(PLAIN))
    await each.refund("17", key="a", **parent(PLAIN))  # given again
    times.append(clock.now_ns())
    asked = await each.refund("18", key="b", amount=500, **parent(APPROVED))
    approval = asked.json["approval"]["id"]
    assert await each.approve(approval, voter="key:a-person") is None
    token = (await each.ask("GET", f"/v1/approvals/{approval}")).json["token"]
    await each.refund("18", key="b", amount=500, approval_token=token, **parent(APPROVED))
    times.append(clock.now_ns())
    await each.refund("drop1", key="c", **parent(LOST))
    await each.refund("17", key=None, **parent(LOST))
    refused = await each.refund("19", key="d", amount=900, **parent(LOST))
    assert await each.approve(refused.json["approval"]["id"], "deny") is None
    await each.ask("POST", "/payments/nothing", **parent(LOST))  # no tool
    await each.ask("GET", "/payments/orders/17")  # of no trace
    other = each.credential("agent", project="other")
    await each.ask("GET", "/payments/orders/others", credential=other, **parent(READ))
    return times


def told(times):
    """What telemetry says of the run: two of its calls have a span."""
    agent = Agent(name="refunds")

    def step(span, kind, start, end, **more):
        ids = {"step_id": f"{TRACE}:{span}", "name": more.pop("name", kind)}
        source = Source(kind="span", trace_id=TRACE, span_id=span)
        return Step(**ids, kind=kind, start_ns=start, end_ns=end, sources=(source,), **more)

    root = f"{TRACE}:{'0' * 16}"
    said = (Message(role="user", parts=(Part(type="text", content="a refund, please"),)),)
    read = Tool(name="get_order", arguments={"order_id": "17"}, result={"order": "17", "open": 1})
    return AgentTrace(
        trace_id=TRACE,
        trace_ids=(TRACE,),
        service=Service(name="refund-agent", version="1.3.0"),
        final_output="Refunded.",
        steps=(
            step("0" * 16, "agent", times[0] - 9, times[3] + 9, agent=agent, status="ok"),
            step(
                "5" * 16, "model_call", times[0] - 8, times[0] - 1, agent=agent, status="ok",
                parent_step_id=root, messages_in=said, model=Model(request_model="m-1"),
            ),
            step(
                READ, "tool_call", times[0], times[1], agent=agent, status="ok", name="get_order",
                parent_step_id=root, tool=read,
            ),
            step(
                APPROVED, "tool_call", times[2], times[3], agent=agent, status="error",
                name="issue_refund", parent_step_id=root, tool=Tool(name="issue_refund"),
            ),
        ),
    )  # fmt: skip


def publish(backend, trace, keys):
    """As the pipeline does."""

    async def main(opened):
        part = TracePart(
            project=trace.project, key=trace.trace_id, kind="telemetry", payload=b"",
            expires_ns=1 << 60,
        )  # fmt: skip
        move = CursorMove(name="j", before=0, after=1)
        await opened.take_in(Intake(move=move, parts=(part,), now_ns=1))
        (due,) = opened.due(Due(now_ns=9, idle_ns=1, open_max_ns=1, limit=1))
        digest = content_digest(trace)
        publication = Publication(
            open_id=due.open_id, version=due.version, traces=(trace,),
            digests=(Digests(digest, digest),), now_ns=1,
        )  # fmt: skip
        await opened.publish([publication])

    with closing(backend.open_traces(keyring(keys), Bounds(), "test")) as opened:
        asyncio.run(main(opened))


class Store:
    """What was written: ``url`` names it, ``times`` are those of its spans."""

    def __init__(self, folder, stack, backend="sqlite"):
        self.folder = folder / "data"
        self.folder.mkdir()
        (folder / "data.seal-key").write_text(MASTER.hex())
        place = None
        if backend == "postgres":
            place = stack.enter_context(ledgers("postgres", self.folder))
        self.url = f"sqlite:///{self.folder}" if place is None else place.url
        self.backend = (
            SqliteBackend(self.folder)
            if place is None
            else PostgresBackend(read_location(place.url), folder=self.folder)
        )
        stack.callback(self.backend.close)
        self.times = asyncio.run(self._write(place))
        self.backend.migrate_traces()

    async def _write(self, place):
        async with rig(self.folder, ledgers=place, gateways=1) as each:
            return await calls(each)

    def publish(self):
        """Tell what telemetry says of the run."""
        with closing(self.backend.keys()) as keys:
            publish(self.backend, told(self.times), keys)
