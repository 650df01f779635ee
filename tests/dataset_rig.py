"""Runs as a store keeps them, and the command line in a folder that has some."""

import asyncio
import os
from contextlib import contextmanager

import yaml
from click.testing import CliRunner

from processors.model.evidence import Evidence, Outcome
from processors.model.step import Message, Part, Step, StepDecision, Tool
from processors.model.trace import AgentTrace, Service
from sidecar.cli.root import root
from sidecar.cli.tape_import import write
from sidecar.replay.import_otlp import taped
from sidecar.replay.import_tape import redactor_of
from sidecar.store import traces as kept
from sidecar.store.envelope import Sealer
from sidecar.store.sqlite.traces import SqliteOpenTraces

START = 1_780_000_000 * 10**9
TWIN = """\
twin: shop
entities:
  orders: {key: id, rows: [{id: A-1, total: 60, refunded: 0}]}
tools:
  - name: get_order
    match: {method: GET, path: "/orders/{order_id}"}
    class: read
    response: {body: 'row("orders", arguments.order_id)'}
    observe: [{entity: orders, rows: "[response]"}]
  - name: issue_refund
    match: {method: POST, path: "/orders/{order_id}/refunds"}
    class: irreversible
    arguments: {schema: {type: object, properties: {amount: {type: number}}, required: [amount]}}
    effects:
      - {op: increment, entity: orders, key: arguments.order_id, field: refunded,
         by: arguments.amount}
    response: {status: 201, body: '{"ok": true}'}
"""


def said(role, text):
    return Message(role=role, parts=(Part(type="text", content=text),))


def receipt(step_id, tool, data):
    return Evidence(
        evidence_id=f"e-{step_id}",
        source="receipt",
        name="gateway",
        held=True,
        subject=tool,
        step_id=step_id,
        data={"phase": "executed", **data},
    )


def run(number=1, asked="Refund A-7", project="default", content=True, outcome="verified_success"):
    """A run that read an order and refunded it, its refund confirmed by a receipt."""
    shown = (said("system", "You refund."), said("user", asked)) if content else None
    states = {} if content else {"arguments": "absent", "result": "absent"}
    arguments = {"order_id": "A-7", "amount": 20} if content else None
    return AgentTrace(
        trace_id=f"{number:032x}",
        trace_ids=(f"{number:032x}",),
        project=project,
        service=Service(name="refunder", version="1.2.4"),
        steps=(
            Step(step_id="m", kind="model_call", start_ns=START + number, messages_in=shown),
            Step(
                step_id="r",
                kind="tool_call",
                status="ok",
                content_state=states,
                tool=Tool(
                    name="get_order",
                    arguments={"order_id": "A-7"} if content else None,
                    result={"id": "A-7", "total": 20, "refunded": 0} if content else None,
                ),
            ),
            Step(
                step_id="w",
                kind="tool_call",
                status="ok",
                content_state=states,
                tool=Tool(name="issue_refund", arguments=arguments),
                decision=StepDecision(effect="require_approval"),
            ),
        ),
        evidence=(
            receipt("r", "get_order", {"status": 200, "class": "read"}),
            receipt("w", "issue_refund", {"status": 201, "class": "irreversible"}),
        ),
        final_output="Refunded." if content else None,
        outcome=Outcome(status=outcome),
    )


def tape_of(path, trace, capture="redacted"):
    """The tape of a run, as ``sidecar tape import`` writes it."""
    made = taped(trace, capture)
    return write(made, path, "packed", redactor_of(capture), content=capture != "off")


def publish(folder, *traces):
    """Publish runs into the store of a folder, as the pipeline does."""

    async def scenario():
        path = folder / "sidecar-data" / "traces.db"
        opened = SqliteOpenTraces(path, sealers=lambda _: Sealer(b"k" * 32, os.urandom))
        for number, trace in enumerate(traces):
            part = kept.Part(
                project=trace.project,
                key=trace.trace_id,
                kind="telemetry",
                payload=b"x",
                expires_ns=2**60,
            )
            place = opened.cursor("j")
            move = kept.CursorMove(name="j", before=place, after=place + 1)
            await opened.take_in(kept.Intake(move=move, parts=(part,), now_ns=1))
            (due,) = opened.due(kept.Due(now_ns=2, idle_ns=1, open_max_ns=10, limit=1))
            made = kept.Publication(
                open_id=due.open_id,
                version=due.version,
                traces=(trace,),
                digests=(kept.Digests(kept.content_digest(trace), f"f{number}"),),
                now_ns=2,
            )
            await opened.publish([made])
        opened.close()

    asyncio.run(scenario())


class Datasets:
    """``sidecar dataset`` in a folder with a configuration and a twin."""

    def __init__(self, folder, capture="redacted", **more):
        self.folder = folder
        (folder / "twin.yaml").write_text(TWIN)
        projects = [
            {"name": "default", "content": {"capture": capture, **more}},
            {"name": "other", "content": {"capture": "redacted"}},
        ]
        (folder / "sidecar.yaml").write_text(yaml.safe_dump({"projects": projects}))

    def __call__(self, *words, given=None, at=("dataset",)):
        with self.here():
            arguments = [*at, *map(str, words)]
            return CliRunner().invoke(root, arguments, standalone_mode=False, input=given)

    @contextmanager
    def here(self):
        """Inside of the folder."""
        before = os.getcwd()
        os.chdir(self.folder)
        try:
            yield
        finally:
            os.chdir(before)
