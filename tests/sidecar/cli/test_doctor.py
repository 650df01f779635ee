"""``sidecar doctor``: each thing that would keep a sidecar from working is found, with a remedy."""

import json
import os
import socket
import sqlite3
import threading
from contextlib import closing

import pytest
from click.testing import CliRunner
from joserfc.jwk import OKPKey
from postgres_rig import database, shared

from sidecar import clock
from sidecar.cli.root import root
from sidecar.gateway.policy.files import default_bundle_path, read_files
from sidecar.gateway.policy.release import make, read_key
from tests.tls_rig import Authority, write

SCHEMAS = "SELECT nspname FROM pg_namespace WHERE nspname IN ('ledger', 'traces')"
GOOD = """\
seal: {{key_file: seal}}
store: {{url: "{store}"}}
receive: {{grpc: "127.0.0.1:0", http: "127.0.0.1:0"}}
gateway:
  listen: "127.0.0.1:{gateway}"
  upstreams: [{{name: shop, url: "{shop}", allow_cidrs: ["127.0.0.1/32"]}}]
  tools: [{{name: refund, upstream: shop, match: {{method: POST, path: /refunds}}}}]
control: {{listen: "127.0.0.1:0", grpc: "127.0.0.1:0"}}
metrics: {{listen: "127.0.0.1:{metrics}"}}
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
            given = {
                "gateway": 0,
                "metrics": 0,
                "store": "sqlite:///data",
                "shop": f"http://127.0.0.1:{shop}",
                **changed,
            }
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


@pytest.mark.parametrize(
    "said",
    [b"SSH-2.0-OpenSSH_9\r\n\r\n", b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 300 + b"\r\n"],
    ids=["no HTTP", "HTTP without measure"],
)
def test_what_holds_the_metrics_port_may_speak_as_it_likes(place, said):
    with socket.create_server(("127.0.0.1", 0)) as other:

        def speak():
            with other.accept()[0] as caller:
                caller.recv(4096)
                caller.sendall(said)

        speaking = threading.Thread(target=speak)
        speaking.start()
        place.write(metrics=other.getsockname()[1])
        code, checks = examined()
        speaking.join()
    assert code == 3
    assert checks["metrics.listen"]["state"] == "wrong"


def test_an_empty_database_is_left_empty(place):
    with database(migrated=False) as url:
        place.write(store=url)
        code, checks = examined()
        found = shared().execute(SCHEMAS, url.rsplit("/", 1)[1])
    assert (code, checks["store"]["state"]) == (0, "good")
    assert found == [], "it changed something"


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


@pytest.mark.parametrize(
    ("key", "old", "new"),
    [
        ("seal key", "key_file: seal", "key_file: {long}"),
        ("store", "sqlite:///data", "sqlite:///{long}/data"),
        ("policy", "control:", "policy: {{bundle: {long}}}\ncontrol:"),
    ],
)
def test_a_path_that_cannot_even_be_looked_at_is_told(place, key, old, new):
    written = place.folder / "sidecar.yaml"
    text = written.read_text()
    assert old in text
    written.write_text(text.replace(old, new.format(long="x" * 300)))
    code, checks = examined()
    assert (code, checks[key]["state"]) == (3, "wrong")


def test_a_database_password_that_is_no_text_is_told(place):
    (place.folder / "password").write_bytes(b"\xff\xfe")
    place.write(store='postgresql://u@127.0.0.1:1/x", password_file: "password')
    code, checks = examined()
    assert code == 3 and "UTF-8" in checks["store"]["what"]


def test_a_project_that_has_no_key_yet_is_given_none(place):
    made = CliRunner().invoke(root, ["key", "create", "--kind", "agent", "--project", "default"])
    assert made.exit_code == 0, made.output
    (place.folder / "seal").chmod(0o600)
    right = (place.folder / "seal").read_text()
    (place.folder / "seal").write_text(os.urandom(32).hex())
    examined()
    (place.folder / "seal").write_text(right)
    rotated = CliRunner().invoke(root, ["key", "rotate-data", "--project", "default"])
    assert rotated.exit_code == 0, rotated.output


def test_a_glass_that_nobody_has_reviewed_is_told_until_somebody_has(place):
    for kind in ("agent", "approver"):
        CliRunner().invoke(root, ["key", "create", "--kind", kind, "--project", "default"])
    with closing(sqlite3.connect(place.folder / "data" / "ledger.db")) as ledger, ledger:
        ledger.execute(
            "INSERT INTO approval (approval_id, project, requester, requester_name, tool,"
            " action_hash, key_hash, policy_revision, tool_digest, status, summary, shown_digest,"
            " roles, requested_at_ns, expires_at_ns, approvers_min, decision_id) VALUES ('ap',"
            " 'default', 'a', '', 't', 'h', 'k', 'r', 'd', 'approved', '', 's', '', 1, 2, 1, '')"
        )
        for name, broken, reviewed in (("a", 1, 2), ("b", None, None), ("c", 10**18, None)):
            ledger.execute(
                "INSERT INTO glass (glass_id, project, approval_id, document, digest, kid,"
                " signature, opened_at_ns, expires_at_ns, broken_at_ns, reviewed_at_ns)"
                " VALUES (?, 'default', 'ap', '{}', 'd', 'k', '', ?, 2, ?, ?)",
                (name, broken or 1, broken, reviewed),
            )
    code, checks = examined()
    found = checks["break-glass"]
    assert (code, found["state"]) == (0, "warning")
    assert "1 reviews are open, since 2001-09-09" in found["what"] and "review-glass" in found["do"]
    with closing(sqlite3.connect(place.folder / "data" / "ledger.db")) as ledger, ledger:
        ledger.execute("UPDATE glass SET reviewed_at_ns = 3")
    assert "break-glass" not in examined()[1]


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


PROBED = """\
databases:
  - name: books
    url: "postgresql://reader@127.0.0.1:{port}/books"
    password_file: {secret}
    allow_cidrs: ["127.0.0.1/32"]
    tls: "off"
probes:
  - name: by url
    when: "true"
    expect: "response.status == 200"
    http: {{url: "http://127.0.0.1:{port}/x", allow_cidrs: ["127.0.0.1/32"]}}
  - name: by mcp
    when: "true"
    expect: "true"
    mcp:
      url: "http://127.0.0.1:{port}/mcp"
      resource: "a:b"
      allow_cidrs: ["127.0.0.1/32"]
      credential: {{header: authorization, file: {secret}}}
claims:
  llm:
    url: "http://127.0.0.1:{port}/v1"
    model: small
    allow_cidrs: ["127.0.0.1/32"]
    credential_file: {secret}
"""
ASKED = {"database books", "probe by url", "probe by mcp", "claims.llm"}
WITH_SECRET = ASKED - {"probe by url"}


@pytest.mark.requirement("OPS-01")
def test_what_is_asked_for_evidence_is_dialled(place, shop):
    (place.folder / "secret").write_text("hunter2")
    (place.folder / "secret").chmod(0o400)
    with (place.folder / "sidecar.yaml").open("a") as file:
        file.write(PROBED.format(port=shop, secret="secret"))
    code, checks = examined()
    assert code == 0 and {checks[name]["state"] for name in ASKED} == {"good"}
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    place.write()
    with (place.folder / "sidecar.yaml").open("a") as file:
        file.write(PROBED.format(port=port, secret="secret"))
    code, checks = examined()
    assert code == 0 and {checks[name]["state"] for name in ASKED} == {"warning"}
    assert "502" not in json.dumps([checks[name] for name in ASKED])


@pytest.mark.requirement("OPS-01")
@pytest.mark.parametrize(
    ("content", "mode", "state", "said"),
    [
        (None, 0, "wrong", "cannot be read"),
        (b" \n", 0o400, "wrong", "is empty"),
        (b"\xff\xfe", 0o400, "wrong", "is not text"),
        (b"hunter2", 0o444, "warning", "can read its secret"),
    ],
)
def test_files_with_secrets_are_looked_at_and_nothing_of_them_is_told(
    place, shop, content, mode, state, said
):
    if content is not None:
        (place.folder / "secret").write_bytes(content)
        (place.folder / "secret").chmod(mode)
    with (place.folder / "sidecar.yaml").open("a") as file:
        file.write(PROBED.format(port=shop, secret="secret"))
    code, checks = examined()
    assert code == (3 if state == "wrong" else 0)
    for name in WITH_SECRET:
        assert checks[name]["state"] == state and said in checks[name]["what"]
    assert "hunter2" not in json.dumps(checks)


@pytest.mark.requirement("OPS-01")
def test_a_declared_key_that_is_missing_is_told_once(place):
    with (place.folder / "sidecar.yaml").open("a") as file:
        file.write("identity: {keys: [{name: ci, file: key, kind: agent, project: default}]}\n")
    code, checks = examined()
    told = [name for name, check in checks.items() if check["state"] == "wrong"]
    assert (code, told) == (3, ["identity.keys.0"])


@pytest.mark.requirement("OPS-01")
def test_a_declared_key_that_is_no_key_is_told(place):
    (place.folder / "key").write_text("not a key")
    with (place.folder / "sidecar.yaml").open("a") as file:
        file.write("identity: {keys: [{name: ci, file: key, kind: agent, project: default}]}\n")
    code, checks = examined()
    assert code == 3 and checks["identity.keys"]["state"] == "wrong"
    assert "identity.keys.0.file" in checks["identity.keys"]["what"]


def test_a_bundle_that_runs_out_soon_is_told_of(place):
    key = OKPKey.generate_key("Ed25519")
    (place.folder / "public.pem").write_bytes(key.as_pem(private=False))
    signer = read_key("ci", key.as_pem(private=True))
    files = read_files(default_bundle_path())
    with (place.folder / "sidecar.yaml").open("a") as file:
        file.write("policy: {bundle: b.tar.gz, signing: {keys: [{id: ci, file: public.pem}]}}\n")
    for days, state in ((3, "warning"), (30, "good")):
        ends = clock.now_ns() // 10**9 + days * 86_400
        archive = make(files, sequence=1, signer=signer, expires_s=ends)
        (place.folder / "b.tar.gz").write_bytes(archive)
        _, checks = examined()
        assert checks["policy"]["state"] == state, checks["policy"]
    assert "good until" not in checks["policy"]["what"]
