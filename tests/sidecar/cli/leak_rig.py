"""Around a real sidecar: a shop that answers with secrets, a downstream, calls, what was left."""

import gzip
import http.client
import json
import re
import sqlite3
import subprocess
import sys
import threading
import urllib.parse
from collections import Counter
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import zstandard
from serving import clean_environment

CONFIG = """
projects:
  - name: default
    content: {capture: "%(capture)s"%(terms)s}
receive: {grpc: "127.0.0.1:0", http: "127.0.0.1:0"}
assemble: {idle: 200ms}
gateway:
  listen: "127.0.0.1:0"
  upstreams:
    - {name: shop, url: "%(shop)s", allow_cidrs: ["127.0.0.1/32"]}
    - {name: gone, url: "http://127.0.0.1:9", allow_cidrs: ["127.0.0.1/32"]}
  tools:
    - name: get_order
      upstream: shop
      match: {method: GET, path: "/orders/{order_id}"}
      class: read
    - name: refund
      upstream: shop
      match: {method: POST, path: "/orders/{order_id}/refunds"}
      class: irreversible
      arguments: {schema: refund.json}
    - {name: mail, upstream: shop, match: {method: POST, path: "/mails"}, class: write}
    - {name: lost, upstream: gone, match: {method: POST, path: "/lost"}, class: irreversible}
probes:
  - name: refunded
    when: 'step.tool.name == "mail"'
    http: {upstream: shop, get: "/orders/{arguments.to}"}
    expect: 'response.json.refunded == arguments.to'
    deadline: 2s
export:
  - otlp: {endpoint: "%(downstream)s", protocol: http, allow_cidrs: ["127.0.0.1/32"]}
policy: {deadline: 5s}
control: {listen: "127.0.0.1:0", grpc: "127.0.0.1:0"}
metrics: {listen: "127.0.0.1:0"}
"""
SCHEMA = {
    "type": "object",
    "properties": {"order_id": {"type": "string"}, "amount": {"type": "integer"}},
    "required": ["amount"],
}


class _Quiet(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def _body(self):
        return self.rfile.read(int(self.headers.get("content-length") or 0))

    def _say(self, status, body, content_type):
        self.send_response(status)
        self.send_header("content-type", content_type)
        for name, value in getattr(self.server, "said", {}).items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class _Shop(_Quiet):
    def _answer(self):
        given = self._body()
        text = self.server.planter.text("note")
        if "fail" in self.path or b"fail" in given:
            self._say(500, f"no: {text}".encode(), "text/plain")
        elif "broken" in self.path:
            self._say(200, f'{{"cut": "{text}'.encode(), "application/json")
        else:
            body = json.dumps({"refunded": text, "echo": given.decode("utf-8", "replace")})
            self._say(200, body.encode(), "application/json")

    do_GET = do_POST = _answer


class _Downstream(_Quiet):
    def do_POST(self):
        given = self._body()
        zipped = self.headers.get("content-encoding") == "gzip"
        self.server.got.append(gzip.decompress(given) if zipped else given)
        self.server.got.append(str(self.headers).encode())
        self._say(200, b"", "application/x-protobuf")


@contextmanager
def listening(handler, **state):
    """An HTTP server on a free port, with this state for its handler."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    vars(server).update(state)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield server, f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def shop(planter):
    """An upstream whose answers, headers and errors hold secrets."""
    said = {"x-note": planter.text("n").replace("\n", " "), "set-cookie": "sid=" + "a" * 9}
    return listening(_Shop, planter=planter, said=said)


def downstream():
    """Takes all telemetry; ``server.got`` has its bytes."""
    return listening(_Downstream, got=[])


def ask(method, url, body=None, headers=None):
    """(status, body) of one request, whatever the answer is."""
    target = urllib.parse.urlsplit(url)
    path = url.removeprefix(f"{target.scheme}://{target.netloc}") or "/"
    with closing(http.client.HTTPConnection(target.netloc, timeout=20)) as connection:
        connection.request(method, path, body, headers or {})
        with closing(connection.getresponse()) as answer:
            return answer.status, answer.read()


class Told:
    """A started sidecar's doors and keys."""

    def __init__(self, told):
        self.http = f"http://{told['addresses']['receive.http']}"
        self.gateway = f"http://{told['addresses']['gateway.listen']}"
        self.control = f"http://{told['addresses']['control.listen']}"
        self.metrics = f"http://{told['addresses']['metrics.listen']}/metrics"
        self.agent, self.approver = told["keys"]["agent"], told["keys"]["approver"]

    def send(self, signal, payload, content_type="application/x-protobuf", key=None):
        """One OTLP request over HTTP; the answer's status."""
        headers = {"content-type": content_type, "authorization": f"Bearer {key or self.agent}"}
        return ask("POST", f"{self.http}/v1/{signal}", payload, headers)[0]

    def call(self, method, path, body=None, **headers):
        """One tool call; status and parsed problem."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        named.setdefault("authorization", f"Bearer {self.agent}")
        if body is not None:
            named.setdefault("content-type", "application/json")
        return ask(method, f"{self.gateway}{path}", body, named)


def bad_telemetry(told, planter):
    """Requests that are refused, with secrets in what is wrong with them."""
    text = planter.text
    statuses = [
        told.send("traces", text("no protobuf").encode()),
        told.send("traces", b'{"resourceSpans": "%s"}' % text().encode(), "application/json"),
        told.send("traces", f'{{"{text("k")}": [{text()}'.encode(), "application/json"),
        told.send("logs", json.dumps({"resourceLogs": [text()]}).encode(), "application/json"),
        told.send("traces", b"", f"text/{text('t').split()[0]}".replace("\n", "")),
        told.send("traces", b"", key=text("k").replace("\n", "")),
        ask("POST", f"{told.http}/v1/{urllib.parse.quote(text('v'))}", b"")[0],
        ask("GET", f"{told.control}/v1/traces/{urllib.parse.quote(text('t'))}")[0],
    ]
    assert all(status == 200 or 400 <= status < 500 for status in statuses), statuses


def calls(told, planter):
    """Calls whose paths, queries, headers, bodies, answers and refusals hold secrets."""

    def clean(name):
        return planter.text(name).replace("\n", " ").replace("\t", " ")

    quoted = lambda name: urllib.parse.quote(planter.text(name), safe="")  # noqa: E731
    trace = f"00-{'ab' * 16}-{'cd' * 8}-01"
    with_all = {"traceparent": trace, "baggage": f"user={quoted('b')}", "x_note": clean("h")}
    done = [
        told.call("GET", f"/shop/orders/17?q={quoted('q')}", **with_all),
        told.call("GET", f"/shop/orders/{quoted('o').replace('%2F', '')}", **with_all),
        told.call("GET", "/shop/orders/fail", **with_all),
        told.call("GET", "/shop/orders/broken", **with_all),
        told.call("GET", f"/shop/unlisted/{quoted('u').replace('%2F', '')}", **with_all),
        told.call("GET", f"/{quoted('v')}/orders/1", **with_all),
        told.call("POST", "/shop/mails", f'{{"to": "{planter.text()}', **with_all),
        told.call("POST", "/shop/mails", planter.text(), content_type=clean("text/x")),
        told.call("GET", "/shop/orders/1", authorization=clean("Bearer")),
        told.call("GET", "/shop/orders/1", traceparent=clean("00"), baggage=clean("agenttwin-e=")),
    ]
    with_effects = []
    for number in range(4):
        key = re.sub(r"[^!#-~]", "", f"{planter.text('k')}-{number}")
        headers = {**with_all, "idempotency_key": key}
        mail = json.dumps({"to": planter.text("a"), "text": planter.text("fail" if number else "")})
        refund = json.dumps({"amount": 20, "note": planter.text("n")})
        lost = json.dumps({"amount": 20, planter.text("key"): planter.text("n")})
        with_effects += [
            ("POST", "/shop/mails", mail, headers),
            ("POST", "/shop/orders/17/refunds", refund, headers),
            ("POST", "/shop/orders/18/refunds", json.dumps({"amount": planter.text()}), headers),
            ("POST", "/gone/lost", lost, headers),
        ]
    asked = [(each, told.call(*each[:3], **each[3])) for each in with_effects]
    vote(told, planter)
    for (method, path, body, headers), (status, answer) in asked:
        if status == 403:
            approval = json.loads(answer)["approval"]["id"]
            token = json.loads(told.call("GET", f"/v1/approvals/{approval}")[1]).get("token")
            given = {"approval_token": token} if token else {}
            done.append(told.call(method, path, body, **headers, **given))
    statuses = Counter(status for status, _ in [*done, *(reply for _, reply in asked)])
    assert {200, 400, 401, 403, 404, 415, 500} <= set(statuses), statuses
    assert {409, 502} & set(statuses), statuses  # what was approved and could not be sent


def vote(told, planter):
    """Every request for approval is looked at and decided, with reasons that hold secrets."""
    headers = {"authorization": f"Bearer {told.approver}", "content-type": "application/json"}
    status, listed = ask("GET", f"{told.control}/v1/approvals", headers=headers)
    waiting = json.loads(listed)["approvals"]
    assert status == 200 and len(waiting) > 3, listed
    for number, approval in enumerate(waiting):
        url = f"{told.control}/v1/approvals/{approval['approval_id']}"
        shown = json.loads(ask("GET", url, headers=headers)[1])
        word = "approve" if number % 3 else "deny"
        given = {"reason": planter.text("because"), "shown_digest": shown["shown_digest"]}
        assert ask("POST", f"{url}/{word}", json.dumps(given), headers)[0] == 200


def settled(folder):
    """Whether every record was taken in, every trace published and nothing waits for export."""
    with closing(sqlite3.connect(f"file:{folder}/sidecar-data/traces.db?mode=ro", uri=True)) as c:
        (waiting,) = c.execute(
            "SELECT count(*) FROM open_trace WHERE version > published_version"
        ).fetchone()
        positions = dict(c.execute("SELECT name, position FROM cursor"))
    with closing(sqlite3.connect(f"file:{folder}/sidecar-data/journal.db?mode=ro", uri=True)) as c:
        (last,) = c.execute("SELECT coalesce(max(seq), 0) FROM record").fetchone()
    taken = max((at for name, at in positions.items() if name.startswith("journal")), default=0)
    return waiting == 0 and taken >= last and positions


def told_by_commands(folder):
    """What people can ask a sidecar: (name, bytes). An approver is shown the call in question, so
    requests for approval are not among them."""
    yield "trace list", run(folder, "trace", "list", "--limit", "10000", "--output", "json")
    yield "calls list", run(folder, "calls", "list", "--output", "json")
    yield "audit export", run(folder, "audit", "export", "--output", "jsonl")
    with closing(sqlite3.connect(f"file:{folder}/sidecar-data/traces.db?mode=ro", uri=True)) as c:
        query = "SELECT trace_id FROM trace ORDER BY steps DESC LIMIT 1"
        ((trace_id,),) = c.execute(query).fetchall()
    yield "trace show", run(folder, "trace", "show", trace_id, "--output", "json")


def run(folder, *arguments):
    """A command's output and talk."""
    done = subprocess.run(
        [sys.executable, "-m", "sidecar", *arguments],
        cwd=folder,
        capture_output=True,
        env=clean_environment(),
        timeout=60,
        check=False,
    )
    return done.stdout + done.stderr


def kept_bytes(folder):
    """Every file of the data folder as it lies there, and what its compressed columns hold."""
    for path in sorted((folder / "sidecar-data").rglob("*")):
        if path.is_file():
            yield path.name, path.read_bytes()
    with closing(sqlite3.connect(f"file:{folder}/sidecar-data/traces.db?mode=ro", uri=True)) as c:
        unzip = zstandard.ZstdDecompressor()
        for (content,) in c.execute("SELECT content FROM trace"):
            yield "trace content", unzip.decompress(content)
