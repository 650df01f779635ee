"""A staging agent: a long-running HTTP service of its own process, asked by ``url:``."""

import contextlib
import subprocess
import sys

AGENT = '''\
"""Answers POST /<mode>; its tools are wherever the request's headers say that the gateway is."""
import json, sys, time, urllib.error, urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def call(headers, method, path, body=None, **more):
    kept = {name: headers[name] for name in ("traceparent", "baggage") if headers[name]}
    asked = urllib.request.Request(
        headers["sidecar-gateway-url"] + path,
        data=None if body is None else json.dumps(body).encode(),
        method=method,
        headers={
            **kept, **more, "Content-Type": "application/json",
            # Its own key of staging, which a replay's gateway does not know: baggage decides.
            "Authorization": "Bearer sk_agent_of_staging",
        },
    )
    try:
        with opener.open(asked) as answer:
            return answer.status, json.loads(answer.read() or b"null")
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read() or b"null")


def refund(headers, order):
    status, seen = call(headers, "GET", "/shop/orders/" + order)
    path, body = f"/shop/orders/{order}/refunds", {"amount": seen["total"]}
    key = {"Idempotency-Key": "refund-" + order}
    status, answer = call(headers, "POST", path, body, **key)
    if status == 403 and answer.get("code") == "approval_required":
        _, approval = call(headers, "GET", "/v1/approvals/" + answer["approval"]["id"])
        key["Approval-Token"] = approval["token"]
        status, _ = call(headers, "POST", path, body, **key)
    return f"I have issued the refund for order {order}." if status == 201 else f"No: {status}"


class Staging(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *words):
        pass

    def do_POST(self):
        raw = self.rfile.read(int(self.headers["Content-Length"]))
        request, mode = json.loads(raw), self.path.strip("/")
        if mode == "good":
            self.say(200, {"output": refund(self.headers, request["input"]["order"])})
        elif mode == "reads":
            status, seen = call(self.headers, "GET", "/shop/orders/" + request["input"])
            self.say(200, {"output": f"It is {'open' if seen['open'] else 'closed'}."})
        elif mode == "lies":
            self.say(200, {"output": "I have issued the refund for order A-1."})
        elif mode == "honest":
            self.say(200, {"output": "I cannot do that."})
        elif mode == "error":
            self.say(500, {"detail": "a worker was lost"})
        elif mode == "redirect":
            self.say(307, "", Location="http://169.254.169.254/latest/meta-data/")
        elif mode == "large":
            self.say(200, {"output": "x" * 5_000_000})
        elif mode == "slow":
            time.sleep(30)
        elif mode == "gone":
            self.close_connection = True
        elif mode == "echo":
            shown = {name.lower(): value for name, value in self.headers.items()}
            self.say(200, {"output": {"request": request, "headers": shown}})
        else:
            self.say(404, {})

    def say(self, status, value, kind="application/json", **headers):
        body = (value if isinstance(value, str) else json.dumps(value)).encode()
        self.send_response(status)
        for name, text in {"Content-Type": kind, "Content-Length": len(body), **headers}.items():
            self.send_header(name, str(text))
        self.end_headers()
        self.wfile.write(body)


server = ThreadingHTTPServer(("127.0.0.1", 0), Staging)
print(server.server_port, flush=True)
server.serve_forever()
'''


@contextlib.contextmanager
def staging_agent(folder):
    """Its base URL, while it runs."""
    path = folder / "staging.py"
    path.write_text(AGENT)
    process = subprocess.Popen([sys.executable, path], stdout=subprocess.PIPE, text=True)
    try:
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
