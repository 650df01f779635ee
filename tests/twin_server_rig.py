"""A twin server in a thread of its own, and plain HTTP before it: what an agent and an operator
send, byte for byte.
"""

import asyncio
import http.client
import json
import socket
import threading
from contextlib import contextmanager

from sidecar import clock
from sidecar.twins.files import load_twins
from sidecar.twins.serving.driver import Hall, Limits
from sidecar.twins.serving.http import TwinServer

KEY = "tw_control-of-the-test-server"
SHOP = """\
twin: shop
clock: {start: "2026-01-05T09:00:00Z", step: 1s}
flags: {closed: false}
entities:
  orders:
    key: id
    schema:
      type: object
      required: [id, paid]
      properties: {id: {type: string}, paid: {type: string}, mailed: {type: boolean}}
    rows: [{id: A-1, paid: "49.00"}, {id: A-2, paid: "5.00"}]
  refunds: {key: id, schema: {type: object, required: [id]}}
queues:
  mail:
    delay: 10s
    handle: {effects: [{op: set, entity: orders, key: message.id, values: {mailed: true}}]}
tools:
  - name: get_order
    match: {method: GET, path: "/orders/{order_id}"}
    class: read
    let: {found: 'row("orders", arguments.order_id)'}
    preconditions: [{require: 'found != null', status: 404, body: {error: '"no such order"'}}]
    response: {body: found}
  - name: refund
    match: {method: POST, path: "/orders/{order_id}/refunds"}
    class: irreversible
    permission: refunds.write
    arguments:
      schema:
        type: object
        required: [order_id, amount]
        properties: {order_id: {type: string}, amount: {type: string, pattern: '^[0-9]+[.][0-9]{2}$'}}
    let: {refund_id: 'next_id("RF")'}
    preconditions: [{require: '!flags.closed', status: 409, body: {error: '"closed"'}}]
    effects:
      - {op: insert, entity: refunds, values: {id: refund_id, order_id: arguments.order_id}}
      - {op: enqueue, queue: mail, message: {id: arguments.order_id}}
    response: {status: 201, body: {refund_id: refund_id, at: now}}
"""  # noqa: E501


class Running:
    """A server that listens; ``ask`` is one request on a connection of its own."""

    def __init__(self, server, loop, hall):
        self.server, self.loop, self.hall = server, loop, hall
        self.port = server.port
        self.url = f"http://127.0.0.1:{self.port}"

    def ask(self, method, path, body=None, *, token="", headers=None, timeout=10):
        """Status, headers and body; a body that is no bytes is sent as JSON."""
        sent = {"Authorization": f"Bearer {token}"} if token else {}
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
            sent["Content-Type"] = "application/json"
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            connection.request(method, path, body=body, headers={**sent, **(headers or {})})
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()
        finally:
            connection.close()

    def call(self, token, method, path, body=None, **more):
        """Status and JSON of a tool call."""
        status, _, said = self.ask(method, path, body, token=token, **more)
        return status, json.loads(said) if said else None

    def lead(self, method, path, body=None, *, key=KEY):
        """Status and JSON of an operator's request."""
        status, _, said = self.ask(method, f"/v1/episodes{path}", body, token=key)
        return status, json.loads(said)

    def open(self, **wanted):
        """A new episode's token."""
        status, opened = self.lead("POST", "", wanted)
        assert status == 201, opened
        return opened["token"]

    def raw(self, data, *, timeout=10):
        """What comes back for these bytes until the connection ends."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=timeout) as held:
            held.sendall(data)
            received = bytearray()
            while chunk := held.recv(65536):
                received += chunk
        return bytes(received)


@contextmanager
def serving(folder, text=SHOP, *, silence_seconds=30.0, limits=None, mcp=True, **more):
    """A running server of one twin."""
    path = folder / "twin.yaml"
    path.write_text(text)
    hall = Hall(load_twins([path]).group, b"k" * 32, new_id=clock.new_id, limits=limits or Limits())
    loop = asyncio.new_event_loop()
    started, running = threading.Event(), []

    def run():
        asyncio.set_event_loop(loop)
        server = TwinServer(hall, KEY, silence_seconds=silence_seconds, mcp=mcp, **more)
        loop.run_until_complete(server.start())
        running.append(server)
        started.set()
        loop.run_forever()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert started.wait(30)
    try:
        yield Running(running[0], loop, hall)
    finally:
        asyncio.run_coroutine_threadsafe(running[0].stop(), loop).result(30)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(30)
        loop.close()
