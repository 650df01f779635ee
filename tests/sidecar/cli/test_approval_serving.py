"""A real ``sidecar serve``: a call waits, a webhook says so, a person approves on the page that it
names, the agent's stream tells, the call is made once."""

import http.client
import http.server
import json
import re
import threading
import urllib.parse
from contextlib import closing, contextmanager

import pytest
from serving import serving, wait_for

pytestmark = pytest.mark.full  # a real process and its children

CONFIG = """
store: {{url: "sqlite:///data"}}
receive: {{grpc: "", http: ""}}
gateway:
  listen: "127.0.0.1:0"
  accept_ephemeral_ledger: true
  upstreams: [{{name: payments, url: "{shop}", allow_cidrs: ["127.0.0.1/32"]}}]
  tools:
    - name: issue_refund
      upstream: payments
      match: {{method: POST, path: "/orders/{{order_id}}/refunds"}}
      class: irreversible
      cost: {{amount: "arguments.amount", currency: "arguments.currency"}}
policy: {{deadline: 5s}}
approvals:
  pages: "http://people.example"
  webhooks:
    - {{name: ops, url: "{hook}", secret_file: webhook-secret, allow_cidrs: ["127.0.0.1/32"]}}
control: {{listen: "127.0.0.1:0", grpc: ""}}
metrics: {{listen: "127.0.0.1:0"}}
"""


class Peer(http.server.BaseHTTPRequestHandler):
    """The shop and the webhook's receiver: it keeps what came."""

    def log_message(self, *_):
        pass

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.came.append((self.headers, json.loads(body)))
        answer = b'{"refunded": true}'
        self.send_response(201)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)


@contextmanager
def peer():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Peer) as server:
        server.came = []
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def ask(address, method, path, body=None, **headers):
    """Status, headers and text of an answer."""
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    with closing(http.client.HTTPConnection(address, timeout=30)) as connection:
        connection.request(method, path, body, sent)
        answer = connection.getresponse()
        found = {name.lower(): value for name, value in answer.getheaders()}
        return answer.status, found, answer.read().decode()


def status_told(events):
    """The status in the next event of a stream."""
    data = next(line for line in iter(events.readline, b"") if line.startswith(b"data: "))
    return json.loads(data[6:])["status"]


@pytest.mark.requirement("APR-01")
def test_a_call_is_approved_on_the_page_that_a_webhook_names(tmp_path):
    (tmp_path / "webhook-secret").write_text("whsec_" + "c2VjcmV0" * 4)
    with peer() as shop, peer() as hook:
        config = CONFIG.format(
            shop=f"http://127.0.0.1:{shop.server_port}",
            hook=f"http://127.0.0.1:{hook.server_port}/in",
        )
        with serving(tmp_path, config) as (_, told):
            scenario(told, shop, hook)


def scenario(told, shop, hook):
    gateway, control = (told["addresses"][key] for key in ("gateway.listen", "control.listen"))
    agent = {"Authorization": f"Bearer {told['keys']['agent']}"}
    refund = json.dumps({"amount": 500, "currency": "EUR"})
    call = ("POST", "/payments/orders/17/refunds", refund)
    more = {**agent, "Idempotency_Key": "a", "Content_Type": "application/json"}
    status, _, text = ask(gateway, *call, **more)
    assert status == 403, text
    approval_id = json.loads(text)["approval"]["id"]

    (headers, message) = wait_for(lambda: hook.came and hook.came[0])
    assert headers["webhook-signature"].startswith("v1,")
    assert (message["type"], message["data"]["approval_id"]) == ("approval.requested", approval_id)
    page = urllib.parse.urlsplit(message["data"]["page"])
    assert page.netloc == "people.example"
    path = f"{page.path}?{page.query}"

    stream = http.client.HTTPConnection(gateway, timeout=30)
    stream.request("GET", f"/v1/approvals/{approval_id}/events", headers=agent)
    events = stream.getresponse()
    assert status_told(events) == "pending"

    form = {"Content_Type": "application/x-www-form-urlencoded"}
    signing = urllib.parse.urlencode({"to": path, "key": told["keys"]["approver"]})
    status, headers, _ = ask(control, "POST", "/approvals/sign-in", signing, **form)
    assert (status, headers["location"]) == (303, path)
    cookie = {"Cookie": headers["set-cookie"].partition(";")[0]}
    _, _, shown = ask(control, "GET", path, **cookie)
    assert "amount = 500" in shown
    vote = dict(re.findall(r'name="(form_token|project|shown_digest)" value="([^"]*)"', shown))
    vote = urllib.parse.urlencode({**vote, "reason": "checked", "decision": "approve"})
    status, _, _ = ask(control, "POST", f"{page.path}/vote", vote, **form, **cookie)
    assert status == 303

    assert status_told(events) == "approved"
    status, _, text = ask(gateway, "GET", f"/v1/approvals/{approval_id}", **agent)
    document = json.loads(text)
    assert document["page"] == message["data"]["page"]
    status, _, text = ask(gateway, *call, **more, Approval_Token=document["token"])
    assert status == 201 and len(shop.came) == 1, text
    assert status_told(events) == "consumed"
    stream.close()
    resolved = wait_for(lambda: len(hook.came) > 1 and hook.came[1])
    assert resolved[1]["data"]["status"] == "approved"
    metrics = ask(told["addresses"]["metrics.listen"], "GET", "/metrics")[2]
    assert 'sidecar_webhook_attempts_total{result="delivered",webhook="ops"} 2.0' in metrics
