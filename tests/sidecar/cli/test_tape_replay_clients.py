"""An unchanged agent with real clients under every mode: what reaches its servers is what the mode
lets go live."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from agent_rig import AgentFolder

from sidecar.tape.files import read_tape

pytestmark = [pytest.mark.full, pytest.mark.requirement("REP-01")]

AGENT = """
import sys, httpx, openai
BASE = "http://127.0.0.1:%d"
what = "orders/1"
try:
    order = httpx.get(f"{BASE}/{what}").json()
except httpx.HTTPError as error:
    order = {"failed": type(error).__name__, "said": str(error)}
client = openai.OpenAI(base_url=f"{BASE}/v1", api_key="k")
asked = [{"role": "user", "content": f"refund {order}?"}]
answer = client.chat.completions.create(model="m", messages=asked)
print(order, answer.choices[0].message.content)
"""


class World(AgentFolder):
    """An agent, its tool server and its model; ``reached`` is what they saw since last asked."""

    def __init__(self, folder):
        super().__init__(folder)
        self._reached = []
        world = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                world._reached.append(f"GET {self.path}")
                self.answer({"total": 49})

            def do_POST(self):
                asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
                world._reached.append("model")
                said = {"role": "assistant", "content": asked["messages"][0]["content"].upper()}
                choice = {"index": 0, "finish_reason": "stop", "message": said}
                self.answer(
                    {
                        "id": "x",
                        "object": "chat.completion",
                        "created": 1,
                        "model": asked["model"],
                        "choices": [choice],
                    }
                )

            def answer(self, value):
                body = json.dumps(value).encode()
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()
        self.write(AGENT % self._server.server_port)

    def reached(self):
        seen, self._reached = self._reached, []
        return seen

    def close(self):
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def under(self, *words):
        ran = self.replay(options=[*words, "--output", "json"])
        return ran.code, ran.json, self.reached()

    def patch(self, *patches, **more):
        (self.folder / "patch.json").write_text(json.dumps({"patches": patches, **more}))
        return ("--patch", "patch.json")


@pytest.fixture
def world(tmp_path):
    found = World(tmp_path)
    try:
        ran = found.record()
        assert ran.code == 0, ran.err
        assert found.reached() == ["GET /orders/1", "model"]
        yield found
    finally:
        found.close()


def seqs(world):
    tape = read_tape(world.folder / "run.tape")
    return {event.kind: event.seq for event in tape.events}


@pytest.mark.row("R3")
def test_each_mode_reaches_what_it_says(world):
    assert world.under()[::2] == (0, [])
    assert world.under("--mode", "tools")[::2] == (0, ["model"])
    code, told, reached = world.under("--fork", str(seqs(world)["llm_call"]))
    assert (code, reached, told["done"]["live"]) == (0, ["model"], {"provider": 1})
    assert told["diff"]["outcome"] == "identical"
    assert world.under("--fork", "1")[::2] == (0, ["GET /orders/1", "model"])


def test_in_shadow_another_call_is_answered_as_not_reached_and_nothing_is_called(world):
    world.change("orders/1", "orders/2")
    code, told, reached = world.under("--mode", "shadow", "-o", "new.tape")
    assert (code, reached) == (0, ["model"])
    assert sum(told["done"]["stubbed"].values()) == 1
    tape = read_tape(world.folder / "new.tape")
    (result,) = (event for event in tape.events if event.kind == "tool_result")
    assert result.st == "requested_only"
    # In the mode tools the same is a drift, and still nothing is called.
    code, told, reached = world.under("--mode", "tools")
    assert (code, told["drift"]["kind"], reached) == (2, "EXTRA_CALL", [])


@pytest.mark.requirement("REP-03")
def test_another_result_or_a_fault_leads_elsewhere_and_the_model_answers_where_it_may(world):
    other = {"what": "result", "seq": seqs(world)["tool_result"]}
    change = [{"op": "replace", "path": "/body/total", "value": 94}]
    code, told, reached = world.under(*world.patch({**other, "patch": change}))
    # The request is another, and no model is live: there the run ends.
    assert (code, told["outcome"], reached) == (0, "shown", [])
    assert "no answer" in told["done"]["stopped"]
    live = world.patch({**other, "patch": change}, live=["provider"])
    code, told, reached = world.under(*live, "--controls", "0", "-o", "new.tape")
    assert (code, told["done"]["stopped"], reached) == (0, None, ["model"])
    tape = read_tape(world.folder / "new.tape")
    (asked,) = (event for event in tape.events if event.kind == "llm_call")
    assert "94" in str(tape.payload(asked, "in")) and not tape.header.taint
    fault = {**other, "what": "fault", "error": "httpx.ConnectTimeout", "message": "too slow"}
    code, told, reached = world.under(*world.patch(fault, live=["provider"]), "--controls", "0")
    assert (code, reached) == (0, ["model"])
    assert told["diff"]["first_divergence"]["drift"] == ["ERROR_KIND", "RESULT"]


@pytest.mark.requirement("REP-03")
def test_an_agents_own_prompt_may_be_declared(world):
    world.change("refund {", "please refund {")
    code, told, reached = world.under(
        *world.patch({"what": "prompt"}, live=["provider"]), "--controls", "0"
    )
    assert (code, told["done"]["parted"], reached) == (0, seqs(world)["llm_call"], ["model"])
    # What was not declared is no prefix of the tape.
    code, told, reached = world.under(*world.patch({"what": "model"}, live=["provider"]))
    assert (code, told["outcome"], reached) == (2, "incomparable", [])
