"""``sidecar twin serve`` and ``sidecar twin episode`` as processes: what they print, how they end,
and what is left when one is killed.
"""

import http.client
import json
import os
import signal
import stat
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from click.testing import CliRunner
from twin_server_rig import SHOP

from sidecar.cli.twin import command
from sidecar.errors import SidecarError

pytestmark = pytest.mark.requirement("TWN-01")
ROOT = Path(__file__).parents[3]
WORLD = """\
permissions: [refunds.write]
state: {orders: [{id: B-1, paid: "7.00"}]}
faults: [{fault: http_429, tool: get_order, when: {callNumber: 2}}]
"""


class Served:
    """The command, running."""

    def __init__(self, folder, *options):
        (folder / "shop.yaml").write_text(SHOP)
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-m", "sidecar", "twin", "serve", "shop.yaml"),
                *("--listen", "127.0.0.1:0", "--output", "json", *options),
            ],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        line = self.process.stdout.readline()
        assert line, self.process.stderr.read()
        self.told = json.loads(line)
        self.url = self.told["address"]

    def get(self, path, token):
        """Status and JSON."""
        asked = urllib.request.Request(
            self.url + path, headers={"Authorization": f"Bearer {token}"}
        )
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(asked, timeout=20) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)

    def end(self, number=signal.SIGTERM):
        """The exit code, and what was said on stderr."""
        self.process.send_signal(number)
        _, said = self.process.communicate(timeout=60)
        return self.process.returncode, said


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    folder = tmp_path_factory.mktemp("served")
    running = Served(folder, "--key-file", "twin.key")
    running.folder = folder
    yield running
    if running.process.poll() is None:
        running.end(signal.SIGKILL)


def episode(served, *words):
    """The exit code and the output of one operator's command."""
    given = ["episode", *words, "--url", served.url, "--key-file", str(served.folder / "twin.key")]
    ended = CliRunner().invoke(command, given, standalone_mode=False)
    if isinstance(ended.exception, SidecarError):
        raise ended.exception
    code = ended.exception.exit_code if ended.exception is not None else ended.return_value or 0
    return code, ended.stdout


def test_an_episode_is_opened_led_and_closed_from_the_command_line(served):
    world = served.folder / "world.yaml"
    world.write_text(WORLD)
    token = episode(served, "open", "--name", "cli", "--from", str(world), "--agent", "bot")[1]
    token = token.strip()
    assert served.get("/shop/orders/B-1", token) == (200, {"id": "B-1", "paid": "7.00"})
    assert served.get("/shop/orders/B-1", token)[0] == 429
    listed = episode(served, "list")[1]
    assert listed == "cli  bot  2026-01-05T09:00:02.000Z  3 events\n"
    assert episode(served, "forward", "cli", "1m")[1].startswith("cli  bot  2026-01-05T09:01:02")
    assert episode(served, "pause", "cli")[1].endswith("paused\n")
    assert not episode(served, "resume", "cli")[1].endswith("paused\n")
    assert episode(served, "step", "cli")[0] == 0
    assert episode(served, "rewind", "cli", "1")[1].endswith("  1 events\n")
    assert episode(served, "events", "cli")[1] == "0  answered  get_order  200\n"
    assert '{"id": "B-1", "paid": "7.00"}' in episode(served, "rows", "cli", "orders")[1]
    shown = json.loads(episode(served, "show", "cli", "--output", "json")[1])
    assert (shown["changes"], shown["void"]) == ([], None)
    assert episode(served, "close", "cli")[0] == 0
    assert served.get("/shop/orders/B-1", token)[0] == 401


SUITE = """\
suite: support
agent: support-bot
twins: [shop.yaml]
scenarios:
  - id: limited
    input: A-9
    now: "2026-02-01T00:00:00Z"
    seed: 11
    permissions: []
    flags: {closed: true}
    clear: [orders]
    state: {orders: [{id: A-9, paid: "1.00"}]}
    faults:
      - {fault: http_429, tool: get_order, retry_after: 4, when: {callNumber: 2}}
      - {fault: slow, tool: "*", delay: {median: 1s, sigma: 0.1}, when: {while: 'flags.closed'}}
    expect: [{type: toolCalled, tool: get_order}]
"""


def test_an_episode_begins_as_a_scenario_of_a_suite_does(served):
    suite = served.folder / "suite.yaml"
    suite.write_text(SUITE)
    asked = ["open", "--name", "scene", "--scenario", str(suite), "limited", "--output", "json"]
    opened = json.loads(episode(served, *asked)[1])
    assert (opened["agent"], opened["now"]) == ("support-bot", "2026-02-01T00:00:00.000Z")
    token = opened["token"]
    assert served.get("/shop/orders/A-9", token) == (200, {"id": "A-9", "paid": "1.00"})
    assert served.get("/shop/orders/A-1", token)[0] == 429
    assert served.get("/shop/orders/A-1", token)[0] == 404
    fired = [one for one in episode(served, "events", "scene")[1].splitlines() if "slow" in one]
    assert fired
    episode(served, "close", "scene")
    with pytest.raises(SidecarError, match="there is no scenario 'other'; known: limited"):
        episode(served, "open", "--scenario", str(suite), "other")


def test_closing_a_void_episode_cannot_decide(served):
    token = episode(served, "open", "--name", "void")[1].strip()
    assert served.get("/shop/nothing", token)[0] == 501
    code, said = episode(served, "close", "void", "--at-once")
    assert code == 2
    assert "void: twin_gap: shop: no twin declares GET /shop/nothing" in said


def test_what_an_operator_gets_wrong_is_said_in_the_servers_words(served, tmp_path):
    with pytest.raises(SidecarError, match="no such open episode"):
        episode(served, "show", "gone")
    (tmp_path / "other.key").write_text("tw_another-key-of-some-length\n")
    given = ["episode", "list", "--url", served.url, "--key-file", str(tmp_path / "other.key")]
    ended = CliRunner().invoke(command, given, standalone_mode=False)
    assert "unauthenticated" in str(ended.exception)
    bad = tmp_path / "bad.yaml"
    bad.write_text("sead: 7\n")
    with pytest.raises(SidecarError, match="sead is unknown"):
        episode(served, "open", "--from", str(bad))


def test_the_key_is_its_owners_alone(served):
    path = served.folder / "twin.key"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert served.told["control_key"] == ""


@pytest.mark.full
def test_a_key_is_not_made_again_and_a_stop_takes_open_episodes_back(served):
    path = served.folder / "twin.key"
    before = path.read_text()
    (served.folder / "second").mkdir(exist_ok=True)
    again = Served(served.folder / "second", "--key-file", str(path), "--listen", "0.0.0.0:0")
    try:
        assert path.read_text() == before
        token = json.loads(
            CliRunner()
            .invoke(
                command,
                ["episode", "open", "--url", again.url, "--key-file", str(path),
                 "--output", "json"],
                standalone_mode=False,
            )
            .stdout
        )["token"]  # fmt: skip
        assert served.get("/shop/orders/A-1", token)[0] == 401, "another server's token"
    finally:
        assert again.end() == (0, again_said(again, "1 open episode was taken back"))


def again_said(running, last):
    """All that a server said until its end."""
    address = running.told["address"]
    return (
        "it listens beyond this machine, in clear: whoever reads a token can use it\n"
        f"shop         {address}/shop\nepisodes     {address}/v1/episodes\nready\n{last}\n"
    )  # fmt: skip


@pytest.mark.full
def test_a_killed_server_leaves_nothing_and_its_tokens_open_nothing_after(tmp_path):
    first = Served(tmp_path, "--key-file", "k")
    first.folder = tmp_path
    served_key = ["--key-file", str(tmp_path / "k")]
    opened = CliRunner().invoke(
        command, ["episode", "open", "--url", first.url, *served_key], standalone_mode=False
    )
    token = opened.stdout.strip()
    held = http.client.HTTPConnection(first.url.removeprefix("http://"), timeout=20)
    body = json.dumps({"amount": "9.00"})
    sent = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    held.request("POST", "/shop/orders/A-1/refunds", body=body, headers=sent)
    assert held.getresponse().status == 201
    held.close()
    assert first.end(signal.SIGKILL)[0] == -signal.SIGKILL
    second = Served(tmp_path, "--key-file", "k")
    try:
        status, said = second.get("/shop/orders/A-1", token)
        assert (status, said["code"]) == (401, "unauthenticated")
        asked = ["episode", "list", "--url", second.url, *served_key]
        listed = CliRunner().invoke(command, asked, standalone_mode=False)
        assert listed.stdout == "no open episodes\n"
    finally:
        assert second.end(signal.SIGINT)[0] == 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--listen", "nowhere"], "is not host:port"),
        (["--silence", "soon"], "is not a duration"),
        (["--state", "gone"], "has no state of these twins"),
        (["--key-file", "/proc/none/key"], "the control key cannot be made"),
    ],
)
def test_a_server_that_cannot_start_says_why(tmp_path, monkeypatch, options, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop.yaml").write_text(SHOP)
    ended = CliRunner().invoke(command, ["serve", "shop.yaml", *options], standalone_mode=False)
    assert said in str(ended.exception)
    assert isinstance(ended.exception, SidecarError)
