"""The Compose profile ``opa``: its own commands, run as processes, while OPA comes and goes."""

import json
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest
from deployed import DEPLOY, ROOT, compose, configurations
from opa_rig import free_port, opa_server
from test_commands import COMPOSE_BUILD, Box, Helper, Served, demo_service

pytestmark = pytest.mark.full  # real processes and servers


def refund(served, box, order, amount):
    """Status and answer of a refund through the gateway."""
    request = urllib.request.Request(
        f"http://{served.address['gateway.listen']}/commerce/orders/{order}/refunds",
        data=json.dumps({"amount": amount, "currency": "EUR", "reason": "late"}).encode(),
        headers={
            "Authorization": f"Bearer {(box.secrets / 'agent-key').read_text().strip()}",
            "Content-Type": "application/json",
            "Idempotency-Key": f"{order}-{amount}",
        },
    )
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def test_opa_runs_what_the_compose_file_says():
    opa, bundle = (compose()["services"][name] for name in ("opa", "bundle"))
    assert opa["command"][:2] == ["run", "--server"]
    assert opa["command"][-2:] == ["--bundle", "/bundle/bundle.tar.gz"]
    assert opa["volumes"] == ["policy-bundle:/bundle:ro"]
    assert bundle["volumes"] == ["policy-bundle:/var/lib/sidecar/data"]
    assert COMPOSE_BUILD[-1] == "/var/lib/sidecar/data/bundle.tar.gz"


@pytest.mark.requirement("GW-03")
@pytest.mark.requirement("GW-04")
def test_an_opa_server_decides_calls_and_while_it_is_gone_none_is_made(tmp_path):
    pytest.importorskip("opa_client", reason="needs the extra opa (opa-python-client)")
    box, port = Box(tmp_path), free_port()
    (tmp_path / "opa").mkdir()
    command = [part.replace("/var/lib/sidecar/data/", f"{tmp_path}/") for part in COMPOSE_BUILD]
    subprocess.run([sys.executable, "-m", *command], cwd=ROOT, check=True, capture_output=True)
    archive = (tmp_path / "bundle.tar.gz").read_bytes()
    orders = DEPLOY / "compose" / "config" / "orders.json"
    here = {"host": "127.0.0.1", "port": 0, "database": tmp_path / "shop.db", "orders": orders}
    commerce = Helper(demo_service("commerce", **here))
    names = (
        ("commerce:9200", commerce.url.removeprefix("http://")),
        ("opa:8181", f"127.0.0.1:{port}"),
    )
    config = box.configure(configurations()["compose opa"], names=names)
    served = None
    try:
        with opa_server(archive, tmp_path / "opa", port):
            served = Served(("sidecar", "serve", "--config", str(config)), tmp_path)
            assert refund(served, box, "ORD-1004", "60.00")[0] == 201
            status, told = refund(served, box, "ORD-1004", "250.00")
            assert (status, told["code"]) == (403, "approval_required")
        status, told = refund(served, box, "ORD-1005", "10.00")
        assert (status, told["code"]) == (503, "policy_error")
        with opa_server(archive, tmp_path / "opa", port):
            ends = time.monotonic() + 20
            while (told := refund(served, box, "ORD-1005", "10.00"))[0] != 201:
                assert time.monotonic() < ends, told
                time.sleep(0.2)
    finally:
        commerce.end()
        ended = served.end() if served is not None else None
    assert ended == 0, "".join(served.said)
