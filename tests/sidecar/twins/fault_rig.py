"""A twin of a shop of two tenants, and what tests of faults ask of it."""

from sidecar.expression.document import convert, read, report
from sidecar.twins.declaration import Declaration
from sidecar.twins.episode import Call, Episode, Setting
from sidecar.twins.rules import Fault, When
from sidecar.twins.twin import Twin
from sidecar.twins.world import World

TEXT = """\
twin: shop
clock: {start: "2026-01-05T09:00:00Z", step: 1s}
entities:
  orders:
    key: id
    tenant: owner
    rows:
      - {id: o1, owner: ada, total: 49, refunded: 0, memo: kettle}
      - {id: o2, owner: bob, total: 10, refunded: 0, memo: secret of bob}
  refunds: {key: id}
tools:
  - name: get_order
    match: {method: GET, path: "/orders/{order_id}"}
    class: read
    let: {order: 'row("orders", arguments.order_id)'}
    preconditions: [{require: 'order != null', status: 404}]
    response: {body: order}
  - name: list_orders
    match: {method: GET, path: "/orders"}
    class: read
    response: {body: {orders: 'rows("orders", {"owner": arguments.owner})'}}
  - name: refund
    match: {method: POST, path: "/orders/{order_id}/refunds"}
    permission: refunds.write
    timeout: 30s
    effect_key: arguments.order_id
    let: {refund_id: 'next_id("RF")'}
    preconditions:
      - {require: 'row("orders", arguments.order_id) != null', status: 404}
    effects:
      - {op: insert, entity: refunds, values: {id: refund_id, order: arguments.order_id}}
      - op: increment
        entity: orders
        key: arguments.order_id
        field: refunded
        by: arguments.amount
    response: {status: 201, body: {refund_id: refund_id, state: '"accepted"'}}
"""


def declared(text=TEXT):
    """The twin of a text; raises SidecarError that lists what is wrong with it."""
    document = read(text, name="twin.yaml")
    declaration = convert(document, Declaration)
    report(document, declaration.problems())
    twin = Twin(declaration)
    report(document, twin.problems)
    return twin


SHOP = declared()


def rule(kind, tool="refund", when=None, **more):
    return Fault(
        fault=kind, tool=tool, when=When(**({"call_number": 1} if when is None else when)), **more
    )


def episode(*faults, twin=SHOP, seed=1, permissions=("*",), world=None):
    setting = Setting(
        agent="a", faults=tuple(faults), seed=seed, permissions=frozenset(permissions)
    )
    return Episode(twin, world or World(twin.declaration), setting)


def refund(run, *, order="o1", amount=20, key="k1"):
    arguments = {"order_id": order, "amount": amount}
    return run.call(Call(tool="refund", arguments=arguments, key=key, call_id=key))


def order(run, name="o1"):
    return run.call(Call(tool="get_order", arguments={"order_id": name}))


def kinds(run):
    return [event.kind for event in run.events]


def fired(run):
    return [(event.fault, event.rule) for event in run.events if event.kind == "fault_fired"]
