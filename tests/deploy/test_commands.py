"""Every command that a container of ours runs, run as a process: it serves, is well, and ends well.

There is no engine here: paths of the image become paths of a folder, names of a network become
ports of this machine, and nothing else of the shipped configuration is changed.
"""

import json
import os
import re
import shlex
import shutil
import socket
import sqlite3
import subprocess
import sys
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext

import pytest
import suite_rig
import yaml
from deployed import (
    COMPOSE,
    DEPLOY,
    ROOT,
    compose,
    configurations,
    containers_of,
    manifests,
    pods,
    rendered,
)
from opa_rig import opa_server
from postgres_rig import database

pytestmark = pytest.mark.full  # minutes on two cores: real processes and servers

SECONDS = 60
PATH = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
COMPOSE_BUILD = ("sidecar", *compose()["services"]["bundle"]["command"])
IMAGES = ("agenttwin-sidecar", "agenttwin-sidecar-demo")


def commands():
    """Every distinct command line of our image, with where it stands."""
    found = {}
    text = (ROOT / "Dockerfile").read_text()
    entrypoint, command = (
        json.loads(re.findall(rf"^{word} (\[.*\])$", text, re.M)[-1])
        for word in ("ENTRYPOINT", "CMD")
    )
    found[(*entrypoint, *command)] = "Dockerfile"
    for name, service in compose()["services"].items():
        if service["image"].split(":")[0] == "agenttwin-sidecar":
            found[(*entrypoint, *service["command"])] = f"compose {name}"
    for path, each in manifests():
        for template in pods([each]):
            for container in containers_of(template, path.parent.name):
                if container.image.split(":")[0] in IMAGES:
                    found[(*entrypoint, *container.command)] = container.where
    for template in pods(rendered()):
        for container in containers_of(template, "helm"):
            found[(*entrypoint, *container.command)] = container.where
    return found


def chart_configuration():
    (config,) = (each for each in rendered() if each["kind"] == "ConfigMap")
    return config["data"]["sidecar.yaml"]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Box:
    """A folder as the container's file system, with the secrets that ``secrets.sh`` makes."""

    def __init__(self, folder):
        self.folder = folder
        shutil.copy(COMPOSE.parent / "secrets.sh", folder)
        subprocess.run(["sh", str(folder / "secrets.sh")], check=True, capture_output=True)
        self.secrets = folder / "secrets"
        (self.secrets / "seal-key").write_text((self.secrets / "sidecar-key").read_text())
        shutil.copy(COMPOSE.parent / "config" / "issue_refund.json", folder)

    def configure(self, text, *, store=None, names=()):
        """The configuration of an image made one of this folder; where it lies."""
        text = text.replace("/run/secrets/sidecar/", f"{self.secrets}/")
        text = text.replace("/run/secrets/", f"{self.secrets}/")
        text = text.replace("/var/lib/sidecar/data", str(self.folder / "data"))
        text = re.sub(r"(0\.0\.0\.0|127\.0\.0\.1):(\d+)", "127.0.0.1:0", text)
        for name, here in names:
            text = text.replace(name, here)
        text = re.sub(r'allow_cidrs: \["[0-9./]+"\]', 'allow_cidrs: ["127.0.0.1/32"]', text)
        document = yaml.safe_load(text)
        if store is not None:
            document["store"]["url"] = store
        (self.folder / "sidecar.yaml").write_text(yaml.safe_dump(document))
        return self.folder / "sidecar.yaml"


class Served:
    """``sidecar serve`` as a container runs it: told by what it says on stderr."""

    def __init__(self, command, folder, environment=None):
        self.said = []
        self._process = subprocess.Popen(
            [sys.executable, "-m", *command],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": PATH, **(environment or {})},
            stderr=subprocess.PIPE,
            text=True,
        )
        for line in self._process.stderr:
            self.said.append(line)
            if line.strip() == "ready":
                break
        else:
            raise AssertionError("".join(self.said))
        told = dict(re.findall(r"^(\S+)\s+(127\.0\.0\.1:\d+)$", "".join(self.said), re.M))
        self.address = told

    def get(self, path, listener="metrics.listen"):
        """Status and text."""
        with urllib.request.urlopen(f"http://{self.address[listener]}{path}", timeout=5) as answer:
            return answer.status, answer.read().decode()

    def end(self):
        """SIGTERM, as an engine ends a container; the exit code."""
        self._process.terminate()
        _, rest = self._process.communicate(timeout=SECONDS)
        self.said.append(rest)
        return self._process.returncode


def until(condition, what):
    ends = time.monotonic() + SECONDS
    while not (found := condition()):
        assert time.monotonic() < ends, what
        time.sleep(0.1)
    return found


def test_the_commands_of_all_containers_are_known():
    assert set(commands()) == {
        ("sidecar", "serve"),
        ("sidecar", "serve", "--config", "/etc/sidecar/sidecar.yaml"),
        ("sidecar", "policy", "build", "--to", "/var/lib/sidecar/data/bundle.tar.gz"),
        (
            *("sidecar", "replay", "suite.yaml"),
            *("--baseline=py:agents.stable:answer", "--candidate=py:agents.next:answer"),
            *("--shards=16", "--parts=/parts"),
        ),
    }


@pytest.mark.requirement("DEP-01")
def test_the_images_own_command_serves_on_nothing_but_a_seal_key(tmp_path):
    ports = {
        f"SIDECAR_{name}": "127.0.0.1:0"
        for name in (
            "RECEIVE_GRPC",
            "RECEIVE_HTTP",
            "GATEWAY_LISTEN",
            "CONTROL_LISTEN",
            "METRICS_LISTEN",
        )
    }
    (tmp_path / "seal").write_text(os.urandom(32).hex())
    served = Served(("sidecar", "serve"), tmp_path, {**ports, "SIDECAR_SEAL_KEY_FILE": "seal"})
    try:
        check = re.search(r"HEALTHCHECK .*?CMD (\[.*\])", (ROOT / "Dockerfile").read_text())
        argv = json.loads(check[1].replace("127.0.0.1:4322", served.address["metrics.listen"]))
        assert subprocess.run([sys.executable, *argv[1:]], timeout=10).returncode == 0
    finally:
        assert served.end() == 0
    argv = json.loads(check[1].replace("4322", str(free_port())))
    gone = subprocess.run([sys.executable, *argv[1:]], capture_output=True, timeout=10)
    assert gone.returncode != 0, "a check that cannot fail"


@contextmanager
def deciding_server(folder):
    """A real OPA on the bundle that the Compose file has packed; its port."""
    pytest.importorskip("opa_client", reason="needs the extra opa (opa-python-client)")
    command = [part.replace("/var/lib/sidecar/data/", f"{folder}/") for part in COMPOSE_BUILD]
    subprocess.run([sys.executable, "-m", *command], cwd=ROOT, check=True, capture_output=True)
    (folder / "opa").mkdir()
    with opa_server((folder / "bundle.tar.gz").read_bytes(), folder / "opa") as (port, _):
        yield port


@pytest.mark.requirement("DEP-01")
@pytest.mark.parametrize("where", [*configurations(), "helm"])
def test_each_shipped_configuration_serves_and_is_well_and_ends(where, tmp_path):
    text = chart_configuration() if where == "helm" else configurations()[where]
    box = Box(tmp_path)
    names = (
        ("payments.tools.svc.cluster.local:8080", f"127.0.0.1:{free_port()}"),
        ("commerce:9200", f"127.0.0.1:{free_port()}"),
        ("collector:24317", f"127.0.0.1:{free_port()}"),
    )
    on_postgres = "postgresql://" in text
    deciding = deciding_server(tmp_path) if "engine: opa" in text else nullcontext()
    with database() if on_postgres else nullcontext() as url, deciding as opa:
        names += (("opa:8181", f"127.0.0.1:{opa}"),)
        config = box.configure(text, store=url, names=names)
        served = Served(("sidecar", "serve", "--config", str(config)), tmp_path)
        try:
            # startupProbe, readinessProbe and livenessProbe of every manifest ask for these two
            assert served.get("/readyz")[0] == 200
            assert served.get("/healthz")[0] == 200
        finally:
            assert served.end() == 0, "".join(served.said)


def demo_service(name, **changed):
    """The command of a Compose service of the demo, with these options changed."""
    service = compose()["services"][name]
    argv = [*service["entrypoint"], *service["command"]]
    for option, value in changed.items():
        argv[argv.index(f"--{option}") + 1] = str(value)
    return [sys.executable, *argv[1:]]


class Helper:
    """A service of the demo, up once it listens."""

    def __init__(self, command):
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}
        )
        self.url = self.process.stdout.readline().split()[1]

    def end(self):
        self.process.terminate()
        self.process.communicate(timeout=SECONDS)


@pytest.mark.requirement("DEP-01")
def test_the_stack_of_the_compose_file_makes_one_verified_refund(tmp_path):
    box = Box(tmp_path)
    orders = DEPLOY / "compose" / "config" / "orders.json"
    shop = tmp_path / "shop.db"
    here = {"host": "127.0.0.1", "port": 0}
    model = Helper(demo_service("model", **here))
    commerce = Helper(demo_service("commerce", **here, database=shop, orders=orders))
    names = (("commerce:9200", commerce.url.removeprefix("http://")),)
    config = box.configure(configurations()["compose embedded"], names=names)
    served = Served(("sidecar", "serve", "--config", str(config)), tmp_path)
    try:
        agent = compose()["services"]["agent"]
        script = agent["command"][0].replace("$$", "$").replace("/run/secrets", str(box.secrets))
        script = script.replace("http://model:9100", model.url)
        script = script.replace("exec python", f"exec {shlex.quote(sys.executable)}")
        told = agent["environment"]
        assert (told["SIDECAR_GATEWAY_URL"], told["OTEL_EXPORTER_OTLP_ENDPOINT"]) == (
            "http://sidecar:4319",
            "http://sidecar:4318",
        )
        done = subprocess.run(
            [*agent["entrypoint"], script],
            env={
                **os.environ,
                "PYTHONPATH": str(ROOT),
                "SIDECAR_GATEWAY_URL": f"http://{served.address['gateway.listen']}",
                "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://{served.address['receive.http']}",
            },
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
        assert done.returncode == 0, done.stderr
        assert "60.00" in json.loads(done.stdout.splitlines()[-1])["output"]
        with sqlite3.connect(shop) as sql:
            assert sql.execute("SELECT amount FROM refunds").fetchall() == [("60.00",)]

        def outcomes():
            listed = subprocess.run(
                [
                    *(sys.executable, "-m", "sidecar", "trace", "list"),
                    *("--config", str(config), "--output", "json"),
                ],
                cwd=ROOT,
                capture_output=True,
                text=True,
                check=True,
                timeout=SECONDS,
            )
            return [each["outcome"] for each in json.loads(listed.stdout)]

        published = until(outcomes, "no trace was published")
        assert published == ["verified_success"]
    finally:
        for each in (model, commerce):
            each.end()
        assert served.end() == 0


STABLE = """\
def answer(request, call):
    order = call("get_order", {"order_id": request["input"]}).value
    return {"output": "It is open." if order["open"] else "It is closed."}
"""


@pytest.mark.requirement("CRV-01")
def test_the_pods_of_the_job_replay_a_part_each_and_the_same_command_merges_them(tmp_path):
    (job,) = (each for _, each in manifests() if each["kind"] == "Job")
    (replay,) = containers_of(job["spec"]["template"], "replay")
    (tmp_path / "agents").mkdir()
    for name in ("stable", "next"):
        (tmp_path / "agents" / f"{name}.py").write_text(STABLE)
    (tmp_path / "twin.yaml").write_text(suite_rig.TWIN)
    (tmp_path / "suite.yaml").write_text(suite_rig.SUITE)
    parts = tmp_path / "parts"
    parts.mkdir()
    argv = [each.replace("=/parts", f"={parts}") for each in replay.command]

    def pod(*command, **environment):
        done = subprocess.run(
            [sys.executable, "-m", "sidecar", *command],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": PATH, **environment},
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
        return done.returncode, done.stdout + done.stderr

    with ThreadPoolExecutor(2) as nodes:
        indices = map(str, range(job["spec"]["completions"]))
        ended = list(nodes.map(lambda index: pod(*argv, JOB_COMPLETION_INDEX=index), indices))
    assert {code for code, _ in ended} == {0}, ended
    alone = [each for each in argv if not each.startswith("--shards")]
    code, said = pod(*alone, "--output", "json")
    assert code == 0 and '"PASS"' in said, said
