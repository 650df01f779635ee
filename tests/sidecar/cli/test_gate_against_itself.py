"""An agent that is dice, replayed against itself by the whole command: how often it is blocked."""

import contextlib
import io
import json
import os
import random
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from suite_rig import TWIN

from sidecar.cli import replay

TRIALS = int(os.environ.get("AGAINST_ITSELF_TRIALS", "200"))
ALLOW_ALL = Path(__file__).parents[3] / "policies" / "examples" / "allow_all"
RATES = (0.5, 0.8, 0.9, 1.0, 0.2, 0.5, 0.8, 1.0, 0.9, 0.5)
"""How often each case passes; the first four are critical."""


class Dice(BaseHTTPRequestHandler):
    """The agent: right as often as its case says, by dice that go on from run to run."""

    protocol_version = "HTTP/1.1"
    dice = random.Random()
    lock = threading.Lock()

    def do_POST(self):
        """Answer one episode."""
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.lock:
            right = self.dice.random() < float(request["input"])
        body = json.dumps({"output": "It is open." if right else "I do not know."}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """Nothing: the test's output is the command's."""


def suite():
    text = "suite: dice\ntwins: [twin.yaml]\nscenarios:\n"
    for number, rate in enumerate(RATES):
        severity = "critical" if number < 4 else "major"
        expect = "[{type: outputContains, text: open}]"
        text += f"  - {{id: c{number}, severity: {severity}, input: '{rate}', expect: {expect}}}\n"
    return text


@pytest.fixture
def agent(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "twin.yaml").write_text(TWIN)
    (tmp_path / "suite.yaml").write_text(suite())
    (tmp_path / "sidecar.yaml").write_text(
        f"policy: {{bundle: '{ALLOW_ALL}'}}\nreplay: {{agents: {{allow_cidrs: [127.0.0.0/8]}}}}\n"
    )
    server = ThreadingHTTPServer(("127.0.0.1", 0), Dice)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"url:http://127.0.0.1:{server.server_port}/run"
    server.shutdown()
    thread.join()
    server.server_close()


def verdict(agent, trial):
    Dice.dice.seed(f"itself|{trial}")
    out = io.StringIO()
    words = ("suite.yaml", "--baseline", agent, "--candidate", agent, "--jobs", "1")
    with contextlib.redirect_stdout(out):
        code = replay.command.main(
            [*words, "--store", f"sqlite:///{trial}", "--output", "json"],
            prog_name="replay",
            standalone_mode=False,
        )
    return code, json.loads(out.getvalue())


@pytest.mark.full
@pytest.mark.requirement("GAT-02")
def test_a_version_is_blocked_against_itself_in_at_most_one_of_twenty_whole_replays(agent):
    """The command with its rounds of more runs, evidence and all; one agent, a seed a trial."""
    told, rounds = Counter(), 0
    for trial in range(TRIALS):
        code, found = verdict(agent, trial)
        assert code == found["exit_code"]
        assert not {"void", "incomplete"} & {one["rule"] for one in found["findings"]}, found
        told[found["status"] or "UNDECIDED"] += 1
        rounds += found["evidence"]["runs"] > 2 * len(RATES)
    assert told["BLOCK"] <= TRIALS // 20, told
    assert told["PASS"] == 0, told  # ten noisy cases show no equality either
    assert told["WARN"] >= TRIALS * 0.8, told  # and mostly there is a verdict
    assert rounds >= TRIALS // 2, "suspicious cases were not run again"
