"""``sidecar doctor``: each thing that would keep a sidecar from working is found, with a remedy."""

import json
import os
import socket

import pytest
from click.testing import CliRunner

from sidecar.cli.root import root
from tests.tls_rig import Authority, write

GOOD = """\
seal: {{key_file: seal}}
store: {{url: "sqlite:///data"}}
receive: {{grpc: "127.0.0.1:0", http: "127.0.0.1:0"}}
gateway:
  listen: "127.0.0.1:{gateway}"
  upstreams: [{{name: shop, url: "{shop}", allow_cidrs: ["127.0.0.1/32"]}}]
  tools: [{{name: refund, upstream: shop, match: {{method: POST, path: /refunds}}}}]
control: {{listen: "127.0.0.1:0", grpc: "127.0.0.1:0"}}
metrics: {{listen: "127.0.0.1:0"}}
"""


@pytest.fixture
def shop():
    """Something that listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


@pytest.fixture
def place(tmp_path, monkeypatch, shop):
    """A folder with a configuration that is right; ``write`` changes it."""

    class Place:
        folder = tmp_path

        def write(self, **changed):
            given = {"gateway": 0, "shop": f"http://127.0.0.1:{shop}", **changed}
            (tmp_path / "sidecar.yaml").write_text(GOOD.format(**given))

    (tmp_path / "seal").write_text(os.urandom(32).hex())
    (tmp_path / "seal").chmod(0o400)
    monkeypatch.chdir(tmp_path)
    made = Place()
    made.write()
    return made


def examined():
    """Exit code and the checks by name; of one name, the worst."""
    done = CliRunner().invoke(root, ["doctor", "--output", "json"])
    checks = json.loads(done.stdout)
    order = ["good", "warning", "wrong"]
    worst = {}
    for check in checks:
        before = worst.get(check["name"], check)
        worst[check["name"]] = max(before, check, key=lambda each: order.index(each["state"]))
    return done.exit_code, worst


def test_where_nothing_is_wrong_it_exits_0_and_says_what_it_saw(place):
    code, checks = examined()
    assert code == 0
    assert {check["state"] for check in checks.values()} == {"good"}
    assert {"configuration", "clock", "seal key", "data folder", "store", "policy"} <= set(checks)
    assert "answers at 127.0.0.1" in checks["upstream shop"]["what"]
    assert not (place.folder / "data").exists(), "it changed something"


def test_a_wrong_configuration_is_told_with_file_and_line(place):
    place.write(gateway="99999")
    code, checks = examined()
    assert code == 3 and "sidecar.yaml:5" in checks["configuration"]["what"]


def test_a_busy_port_is_named_with_its_key(place):
    with socket.create_server(("127.0.0.1", 0)) as other:
        place.write(gateway=other.getsockname()[1])
        code, checks = examined()
    assert code == 3
    assert checks["gateway.listen"]["state"] == "wrong"
    assert "in use" in checks["gateway.listen"]["what"] and checks["gateway.listen"]["do"]


def test_a_missing_seal_key_and_one_that_all_can_read(place):
    (place.folder / "seal").chmod(0o444)
    code, checks = examined()
    assert (code, checks["seal key"]["state"]) == (0, "warning")
    (place.folder / "seal").unlink()
    code, checks = examined()
    assert code == 3 and "openssl rand" in checks["seal key"]["do"]


def test_a_store_that_another_key_sealed(place):
    made = CliRunner().invoke(root, ["key", "rotate-data", "--project", "default"])
    assert made.exit_code == 0, made.output
    (place.folder / "seal").chmod(0o600)
    (place.folder / "seal").write_text(os.urandom(32).hex())
    code, checks = examined()
    assert code == 3 and "not the one that sealed" in checks["store"]["what"]


def test_missing_keys_are_told_by_kind_and_made_ones_are_not(place):
    made = CliRunner().invoke(root, ["key", "create", "--kind", "agent", "--project", "default"])
    assert made.exit_code == 0
    code, checks = examined()
    assert code == 0 and "approver" in checks["keys"]["what"]
    assert checks["keys"]["do"] == "sidecar key create --kind approver --project default"
    CliRunner().invoke(root, ["key", "create", "--kind", "approver", "--project", "default"])
    _, checks = examined()
    assert "keys" not in checks


def test_an_upstream_that_is_away_warns_and_one_that_is_refused_is_wrong(place):
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    place.write(shop=f"http://127.0.0.1:{port}")
    code, checks = examined()
    assert (code, checks["upstream shop"]["state"]) == (0, "warning")
    place.write(shop="http://169.254.169.254")
    code, checks = examined()
    assert code == 3


def test_an_upstream_that_leads_back_is_wrong(place, shop):
    place.write(gateway=shop)
    _, checks = examined()
    assert "configuration" in checks
    told = json.dumps(checks)
    assert "leads back" in told


def test_text_marks_what_is_wrong_and_what_to_do(place, shop):
    (place.folder / "seal").chmod(0o444)
    done = CliRunner().invoke(root, ["doctor"])
    assert done.exit_code == 0
    assert "warn   seal key" in done.stdout and "do: chmod 0400" in done.stdout


def test_a_bundle_that_does_not_load_is_told(place):
    bundle = place.folder / "bundle"
    bundle.mkdir()
    (bundle / "a.rego").write_text("package agenttwin.v1\n\ndecide := http.send({})\n")
    with (place.folder / "sidecar.yaml").open("a") as file:
        file.write("policy: {bundle: bundle}\n")
    code, checks = examined()
    assert code == 3 and "http.send" in checks["policy"]["what"]


@pytest.mark.requirement("OPS-01")
@pytest.mark.parametrize(
    ("days", "state", "said"),
    [
        ((-1, 30), "good", "good until"),
        ((-1, 3), "warning", "ends"),
        ((-9, -1), "wrong", "expired"),
    ],
)
def test_a_listeners_certificate_is_looked_at(place, days, state, said):
    write(place.folder, Authority().issue("dns:localhost", days=days))
    tls = "tls: {cert_file: server.pem, key_file: server.key}"
    changed = (
        (place.folder / "sidecar.yaml").read_text().replace("metrics: {", f"metrics: {{{tls}, ")
    )
    (place.folder / "sidecar.yaml").write_text(changed)
    check = examined()[1]["metrics.tls"]
    assert check["state"] == state and said in check["what"]
