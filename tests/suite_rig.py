"""The smallest suite: one scenario on one twin, and an agent that is good or bad at it."""

TWIN = """\
twin: shop
entities:
  orders: {key: id, rows: [{id: A-1, open: true}]}
tools:
  - name: get_order
    match: {method: GET, path: "/orders/{order_id}"}
    class: read
    response: {body: 'row("orders", arguments.order_id)'}
"""
SUITE = """\
suite: orders
twins: [twin.yaml]
deterministic: true
deadline: 30s
scenarios:
  - id: reads
    severity: critical
    input: A-1
    expect: [{type: toolCalled, tool: get_order}, {type: outputContains, text: open}]
"""
AGENT = """\
import json, os, sys, urllib.request
order = json.loads(sys.stdin.readline())["input"]
if sys.argv[1] == "good":
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    asked = urllib.request.Request(
        os.environ["SIDECAR_GATEWAY_URL"] + "/shop/orders/" + order,
        headers={"Authorization": "Bearer " + os.environ["SIDECAR_AGENT_KEY"]},
    )
    opener.open(asked).read()
print(json.dumps({"output": "It is open."}))
"""
