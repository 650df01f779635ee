"""``sidecar store`` beside a running sidecar: what a backup brings back is the same, everywhere."""

import contextlib
import hashlib
import io
import json
import os
import shutil
import sys
import time
import urllib.request
from pathlib import Path
from unittest import mock

import postgres_rig
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from sidecar.__main__ import main

sys.path.insert(0, str(Path(__file__).parent))
from sidecar_process import CONFIG, SidecarProcess

pytestmark = pytest.mark.full  # minutes on two cores: real processes and servers

SECONDS = 120
SECRET = "the words of customer 4711"


class Kept:
    """A sidecar over one backend, and the means to wipe and to restore its store."""

    def __init__(self, folder, backend):
        self.folder, self.backend = folder, backend
        self.context = postgres_rig.database(migrated=False) if backend == "postgres" else None
        self.url = self.context.__enter__() if self.context else "sqlite:///data"
        retention = 'projects: [{name: default, retention: {traces: "3650d", content: "3650d"}}]\n'
        self.sidecar = SidecarProcess(
            folder, CONFIG.replace("sqlite:///data", self.url) + retention
        )

    def run(self, *arguments, path=None):
        """A command, in this process: exit code, standard output, standard error."""
        out, err = io.StringIO(), io.StringIO()
        environ = {"PATH": path or f"{self.tools}:{os.environ['PATH']}"}
        with (
            contextlib.chdir(self.folder),
            mock.patch.dict(os.environ, environ),
            mock.patch.object(sys, "argv", ["sidecar", *map(str, arguments)]),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            pytest.raises(SystemExit) as ended,
        ):
            main()
        return int(ended.value.code), out.getvalue(), err.getvalue()

    @property
    def tools(self):
        return postgres_rig.shared().bin if self.context else ""

    def wipe(self):
        if self.backend == "sqlite":
            shutil.rmtree(self.folder / "data")
            return
        name = self.url.rpartition("/")[2]
        for schema in ("ledger", "traces"):
            postgres_rig.shared().execute(f"DROP SCHEMA {schema} CASCADE", name)

    def restore(self, backup):
        if self.backend == "sqlite":
            data = self.folder / "data"
            data.mkdir()
            for file in backup.glob("*.db"):
                shutil.copy(file, data)
            return
        done = postgres_rig.shared().tool(
            "pg_restore", "--exit-on-error", f"--dbname={self.url}", backup / "store.dump"
        )
        assert done.returncode == 0, done.stderr

    def close(self):
        self.sidecar.stop()
        if self.context:
            self.context.__exit__(None, None, None)


def send(address, key, number):
    """One span of a trace, acknowledged."""
    request = ExportTraceServiceRequest()
    group = request.resource_spans.add()
    group.resource.attributes.add(key="service.name").value.string_value = "kept"
    span = group.scope_spans.add().spans.add(name="chat")
    span.trace_id, span.span_id = number.to_bytes(16, "big"), number.to_bytes(8, "big")
    span.start_time_unix_nano = span.end_time_unix_nano = time.time_ns()
    for name, text in (
        ("gen_ai.operation.name", "chat"),
        ("gen_ai.input.messages", json.dumps([{"role": "user", "content": SECRET}])),
    ):
        span.attributes.add(key=name).value.string_value = text
    headers = {"authorization": f"Bearer {key}", "content-type": "application/x-protobuf"}
    body = request.SerializeToString()
    with urllib.request.urlopen(
        urllib.request.Request(f"http://{address}/v1/traces", data=body, headers=headers),
        timeout=SECONDS,
    ) as answer:
        assert answer.status == 200


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def kept(request, tmp_path_factory):
    made = Kept(tmp_path_factory.mktemp("upkeep"), request.param)
    yield made
    made.close()


@pytest.mark.requirement("OPS-01")
@pytest.mark.requirement("REC-02")
def test_a_backup_taken_under_a_running_sidecar_brings_everything_back(kept):
    code, out, err = kept.run("store", "migrate", "--dry-run", "--output", "json")
    assert code == 0, err
    states = json.loads(out)
    assert code == 0 and all(each["schema"] == 0 and each["pending"] for each in states)
    code, out, _ = kept.run("store", "migrate", "--output", "json")
    assert code == 0 and all(each["schema"] == each["newest"] for each in json.loads(out))

    key = kept.sidecar.key()
    kept.sidecar.start()
    for number in (1, 2):
        send(kept.sidecar.addresses["receive.http"], key, number)
    deadline = time.monotonic() + SECONDS
    while len(listed := json.loads(kept.run("trace", "list", "--output", "json")[1])) < 2:
        assert time.monotonic() < deadline, kept.sidecar.errors()[-2000:]
        time.sleep(0.2)  # the pipeline has the lowest priority: who asks all the time starves it

    backup = kept.folder / "backup"
    code, out, err = kept.run("store", "backup", backup, "--output", "json")
    assert code == 0, err
    manifest = json.loads((backup / "manifest.json").read_text())
    assert json.loads(out) == manifest and manifest["kind"] == kept.backend
    for file in manifest["files"]:
        content = (backup / file["name"]).read_bytes()
        assert hashlib.sha256(content).hexdigest() == file["sha256"]
        assert SECRET.encode() not in content and b"11" * 32 not in content
    code, _, err = kept.run("store", "backup", backup)
    assert code == 3 and "already" in err and "Traceback" not in err

    assert kept.sidecar.process.poll() is None
    kept.sidecar.process.terminate()
    assert kept.sidecar.process.wait(SECONDS) == 0
    shown = kept.run("trace", "show", listed[0]["trace_id"], "--output", "json")
    audited = kept.run("audit", "verify", "--output", "json")
    assert shown[0] == audited[0] == 0 and json.loads(audited[1])["entries"] > 0
    kept.wipe()
    assert kept.run("trace", "show", listed[0]["trace_id"])[0] == 3
    kept.restore(backup)
    assert kept.run("trace", "show", listed[0]["trace_id"], "--output", "json") == shown
    assert kept.run("audit", "verify", "--output", "json") == audited
    code, out, _ = kept.run("key", "list", "--output", "json")
    assert code == 0 and len(json.loads(out)) == 1


@pytest.mark.requirement("OPS-01")
def test_what_is_kept_no_longer_is_pruned_at_once(kept):
    code, out, err = kept.run("store", "prune", "--output", "json")
    assert code == 0 and json.loads(out) == {"revisions": 0, "telemetry": 0}, err
    config = kept.folder / "sidecar.yaml"
    config.write_text(config.read_text().replace('traces: "3650d"', 'traces: "1ms"'))
    code, out, err = kept.run("store", "prune", "--output", "json")
    assert code == 0 and json.loads(out)["revisions"] == 2, err
    assert json.loads(kept.run("trace", "list", "--output", "json")[1]) == []


def test_a_tool_that_is_missing_and_a_store_that_is_not_there_are_said_so(kept):
    if kept.backend == "postgres":
        code, _, err = kept.run("store", "backup", kept.folder / "other", path="/nowhere")
        assert code == 3 and "pg_dump is not on the PATH" in err and "Traceback" not in err
        missing = kept.url.rpartition("/")[0] + "/nothing_here"
    else:
        missing = "sqlite:///nothing-here"
    for command in (("backup", kept.folder / "other"), ("prune",)):
        code, _, err = kept.run("store", *command, "--store", missing)
        assert code == 3 and "Traceback" not in err, err
    assert not (kept.folder / "other").exists() and not (kept.folder / "nothing-here").exists()
