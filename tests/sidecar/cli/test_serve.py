"""``sidecar serve`` as its users meet it: start, keys, telemetry, bad input, end."""

import contextlib
import gzip
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import urllib.parse

import pytest
import requests
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from serving import EPHEMERAL, clean_environment, serving, wait_for


def sidecar(folder, *arguments):
    return subprocess.run(
        [sys.executable, "-m", "sidecar", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        env=clean_environment(),
        timeout=60,
    )


def listed(folder):
    done = sidecar(folder, "trace", "list", "--output", "json")
    assert done.returncode == 0, done.stderr
    return {row["service"] for row in json.loads(done.stdout)}


def export(exporter, service):
    provider = TracerProvider(resource=Resource({"service.name": service}))
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    with provider.get_tracer("test").start_as_current_span("invoke_agent a"):
        pass
    provider.shutdown()


def post_json(url, key):
    span = {"traceId": "0a" * 16, "spanId": "0b" * 8, "name": "hand", "startTimeUnixNano": "5"}
    attribute = {"key": "service.name", "value": {"stringValue": "by-hand"}}
    body = {
        "resourceSpans": [
            {"resource": {"attributes": [attribute]}, "scopeSpans": [{"spans": [span]}]}
        ]
    }
    headers = {"content-type": "application/json", "content-encoding": "gzip"}
    if key:
        headers["authorization"] = f"Bearer {key}"
    return status("POST", url, gzip.compress(json.dumps(body).encode()), headers)


def status(method, url, body=None, headers=None):
    """The answer's status, whatever it is; its connection is closed."""
    target = urllib.parse.urlsplit(url)
    with contextlib.closing(http.client.HTTPConnection(target.netloc, timeout=10)) as connection:
        connection.request(method, target.path, body, headers or {})
        with contextlib.closing(connection.getresponse()) as answer:
            return answer.status


@pytest.mark.requirement("REC-01")
@pytest.mark.requirement("REC-05")
def test_real_exporters_reach_the_store_with_a_key_and_not_without(tmp_path):
    with serving(tmp_path) as (_, told):
        key = told["keys"]["agent"]
        addresses = told["addresses"]
        url = f"http://{addresses['receive.http']}/v1/traces"
        assert post_json(url, None) == 401
        assert post_json(url, told["keys"]["approver"]) == 403
        headers = {"authorization": f"Bearer {key}"}
        export(
            GrpcExporter(endpoint=addresses["receive.grpc"], insecure=True, headers=headers),
            "over-grpc",
        )
        with requests.Session() as session:  # the exporter's shutdown leaves its own open
            export(HttpExporter(endpoint=url, headers=headers, session=session), "over-http")
        assert post_json(url, key) == 200

        def all_three():
            return listed(tmp_path) == {"over-grpc", "over-http", "by-hand"}

        wait_for(all_three)


@pytest.mark.row("CVE-2026-78573", "CVE-2025-64443")
def test_the_listeners_ask_for_keys_and_health_does_not(tmp_path):
    with serving(tmp_path) as (_, told):
        for name in ("gateway.listen", "control.listen"):
            url = f"http://{told['addresses'][name]}/v1/approvals/x"
            assert status("GET", url) == 401, name
        metrics = f"http://{told['addresses']['metrics.listen']}"
        for path in ("/healthz", "/readyz", "/metrics"):
            assert status("GET", metrics + path) == 200


@pytest.mark.full  # six starts
def test_dev_keys_stay_the_same_over_restarts_and_end_with_dev(tmp_path):
    with serving(tmp_path) as (_, told):
        first = told["keys"]
    with serving(tmp_path) as (_, told):
        assert told["keys"] == first
        url = f"http://{told['addresses']['receive.http']}/v1/traces"
        assert post_json(url, first["agent"]) == 200
    config = EPHEMERAL + "seal: {key_file: sidecar-data.seal-key}\n"
    with serving(tmp_path, config, dev=False) as (_, told):
        assert told["keys"] == {}
        url = f"http://{told['addresses']['receive.http']}/v1/traces"
        assert post_json(url, first["agent"]) == 401
    with serving(tmp_path) as (_, told):
        assert set(told["keys"]) == set(first)
        assert not set(told["keys"].values()) & set(first.values())
    entries = map(json.loads, sidecar(tmp_path, "audit", "export").stdout.splitlines())
    changed = [each["body"]["parts"] for each in entries if each.get("kind") == "config_changed"]
    assert len(changed) == 3  # the second start had the configuration of the first
    assert {name for name in changed[0] if changed[0][name] != changed[1][name]} == {"seal"}


@pytest.mark.full  # four starts
def test_a_start_without_dev_that_fails_leaves_the_keys_of_dev_as_they_were(tmp_path):
    with serving(tmp_path) as (_, told):
        first = told["keys"]
    with socket.create_server(("127.0.0.1", 0)) as taken:
        config = EPHEMERAL.replace(
            "metrics: ", "seal: {key_file: sidecar-data.seal-key}\nmetrics: "
        )
        port = taken.getsockname()[1]
        config = config.replace(
            'metrics: {listen: "127.0.0.1:0"}', f'metrics: {{listen: "127.0.0.1:{port}"}}'
        )
        (tmp_path / "sidecar.yaml").write_text(config)
        failed = sidecar(tmp_path, "serve")
        assert failed.returncode == 3 and "cannot listen" in failed.stderr
    with serving(tmp_path) as (_, told):
        assert told["keys"] == first
        url = f"http://{told['addresses']['receive.http']}/v1/traces"
        assert post_json(url, first["agent"]) == 200


def test_sigterm_ends_the_whole_tree(tmp_path):
    with serving(tmp_path) as (process, told):
        pipeline = told["pids"]["pipeline"]
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=20) == 0
        gone = subprocess.run(["ps", "-p", str(pipeline)], capture_output=True, check=False)
        assert gone.returncode == 1
    # Nothing is left in a write-ahead log: neither what was deleted nor what was written last.
    assert {each.name for each in (tmp_path / "sidecar-data").glob("*-wal")} == set()


def tree(parent):
    """Every process below one."""
    asked = subprocess.run(["pgrep", "-P", str(parent)], capture_output=True, text=True)
    below = [int(line) for line in asked.stdout.split()]
    return {*below, *(one for each in below for one in tree(each))}


def test_an_end_that_reaches_every_process_is_the_first_ones_to_carry_out(tmp_path):
    with serving(tmp_path) as (process, told):
        url, key = f"http://{told['addresses']['receive.http']}/v1/traces", told["keys"]["agent"]
        assert post_json(url, key) == 200  # what serves the first request is there by now
        wait_for(lambda: "by-hand" in listed(tmp_path))
        before = tree(process.pid)
        assert told["pids"]["pipeline"] in before
        for number in (signal.SIGTERM, signal.SIGINT):
            for each in before:
                os.kill(each, number)
        assert post_json(url, key) == 200
        listed(tmp_path)  # takes a while in which one that ended would be gone
        assert tree(process.pid) == before
        for each in (*before, process.pid):
            os.kill(each, signal.SIGTERM)
        assert process.wait(timeout=20) == 0
        assert "died" not in (tmp_path / "stderr.txt").read_text()


def fails(folder, config, *arguments):
    (folder / "sidecar.yaml").write_text(config)
    done = sidecar(folder, "serve", *arguments)
    assert done.returncode == 3, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    return done.stderr


@pytest.mark.parametrize(
    ("key", "line"),
    [
        ("receive.grpc", 'grpc: "127.0.0.1:0"'),
        *(
            pytest.param(*one, marks=pytest.mark.full)
            for one in (
                ("receive.http", 'http: "127.0.0.1:0"'),
                ("gateway.listen", '  listen: "127.0.0.1:0"'),
                ("control.listen", 'control: {listen: "127.0.0.1:0"'),
                ("metrics.listen", 'metrics: {listen: "127.0.0.1:0"'),
            )
        ),
    ],
)
def test_a_busy_port_is_named_with_its_key(tmp_path, key, line):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert line in EPHEMERAL
        text = fails(tmp_path, EPHEMERAL.replace(line, line.replace(":0", f":{port}")), "--dev")
        assert f"127.0.0.1:{port}" in text and key in text


def test_a_second_sidecar_on_the_same_folder_is_refused_while_the_first_runs(tmp_path):
    with serving(tmp_path):
        done = sidecar(tmp_path, "serve", "--dev")
        assert done.returncode == 3
        assert "another sidecar serves this data folder" in done.stderr
        assert "Traceback" not in done.stderr
    with serving(tmp_path) as (_, told):
        assert told["addresses"]


def test_dev_refuses_an_address_that_is_not_loopback(tmp_path):
    text = fails(tmp_path, EPHEMERAL.replace('grpc: "127.0.0.1:0"', 'grpc: "0.0.0.0:0"'), "--dev")
    assert "receive.grpc" in text and "not loopback" in text


@pytest.mark.row("CVE-2026-78573")
def test_without_dev_a_seal_key_must_be_there(tmp_path):
    text = fails(tmp_path, EPHEMERAL)
    assert "seal key" in text and "openssl rand -hex 32" in text


def test_another_seal_key_stops_the_start(tmp_path):
    with serving(tmp_path):
        pass
    (tmp_path / "sidecar-data.seal-key").write_text("ab" * 32)
    assert "not the one that sealed" in fails(tmp_path, EPHEMERAL)


def test_a_missing_or_broken_policy_bundle_stops_the_start(tmp_path):
    text = fails(tmp_path, EPHEMERAL + "policy: {bundle: nowhere}\n", "--dev")
    assert "nowhere" in text
    (tmp_path / "bundle").mkdir()
    (tmp_path / "bundle" / "a.rego").write_text("package agenttwin.v1\nthis is no rego")
    text = fails(tmp_path, EPHEMERAL + "policy: {bundle: bundle}\n", "--dev")
    assert "a.rego" in text


def test_everything_wrong_with_a_configuration_is_told_at_once_with_its_line(tmp_path):
    tool = "match: {method: GET, path: /x}, upstream: shop"
    text = fails(
        tmp_path,
        "assemble: {idle: soon}\n"
        "gateway:\n"
        "  upstreams: [{name: shop, url: 'http://shop:9'}]\n"
        "  tools:\n"
        f"    - {{name: a, {tool}, arguments: {{schema: missing.json}}}}\n"
        f"    - {{name: b, {tool.replace('/x', '/y')}, cost: {{amount: 'arguments.('}}}}\n"
        "probes:\n"
        "  - {name: p, when: 'step.(', http: {upstream: shop, get: '/{x'}, expect: '('}\n",
        "--dev",
    )
    assert "6 problems" in text
    places = [(1, "idle"), (5, "missing.json"), (6, "cost")]
    for line, part in (
        *places,
        *((8, f"probes.0.{key}") for key in ("when", "http.get", "expect")),
    ):
        assert any(f"sidecar.yaml:{line}:" in each and part in each for each in text.splitlines())


def test_a_seal_key_inside_the_data_folder_is_refused(tmp_path):
    text = fails(tmp_path, EPHEMERAL + "seal: {key_file: sidecar-data/key}\n", "--dev")
    assert "inside the data folder" in text
