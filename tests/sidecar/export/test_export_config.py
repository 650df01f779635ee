"""The configuration of exporters: what is taken, what is refused, and no way back to ourselves."""

import pytest

from sidecar.config import load
from sidecar.errors import SidecarError
from sidecar.export.config import Exporter, Otlp


def loaded(tmp_path, text):
    file = tmp_path / "sidecar.yaml"
    file.write_text(text)
    return load(str(file), environ={}).config


def refused(tmp_path, text):
    with pytest.raises(SidecarError) as caught:
        loaded(tmp_path, text)
    return str(caught.value)


def test_the_documented_form_is_taken(tmp_path):
    config = loaded(
        tmp_path,
        """
export:
  - otlp: {endpoint: "http://collector:4317", allow_cidrs: ["10.0.0.0/8"]}
  - name: vendor
    otlp:
      endpoint: https://otlp.example.com/v2
      protocol: http
      headers: {x-team: refunds}
      credential: {header: Authorization, file: /run/secrets/vendor}
      signals: [traces]
      queue: {bytes_max: 2097152}
""",
    )
    assert [exporter.title for exporter in config.export] == ["collector:4317", "vendor"]


@pytest.mark.parametrize(
    ("otlp", "said"),
    [
        ('{endpoint: "collector:4317"}', "0.otlp.endpoint"),
        ('{endpoint: "http://10.1.2.3:4317"}', "not named in allow_cidrs"),
        ('{endpoint: "http://169.254.169.254", allow_cidrs: ["0.0.0.0/0"]}', "metadata"),
        ('{endpoint: "http://c:4317/v1"}', "no use for"),
        ('{endpoint: "http://c", timeout: soon}', "otlp.timeout"),
        ('{endpoint: "http://c", retry: {max: x}}', "otlp.retry.max"),
        ('{endpoint: "http://c", queue: {bytes_max: 5}}', "otlp.queue.bytes_max"),
        ('{endpoint: "http://c", signals: []}', "names none"),
        ('{endpoint: "http://c", protocol: kafka}', "protocol"),
        ('{endpoint: "http://c", headers: {"a b": c}}', "no header"),
        ('{endpoint: "http://c", headers: {Content-Type: c}}', "no header"),
        ('{endpoint: "http://c", headers: {a: "b\\nc"}}', "no header can carry"),
        ('{endpoint: "http://c", ca_file: x}', "https"),
        ('{endpoint: "http://c", unknown: 1}', "unknown"),
        ('{endpoint: "http://c", headers: {X: a}, credential: {header: x, file: f}}', "too"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_its_place(tmp_path, otlp, said):
    assert said in refused(tmp_path, f"export:\n  - otlp: {otlp}\n")


def test_two_exporters_of_one_name_are_refused(tmp_path):
    text = 'export:\n  - otlp: {endpoint: "http://c"}\n  - otlp: {endpoint: "http://c"}\n'
    assert "give each its own name" in refused(tmp_path, text)


@pytest.mark.parametrize(
    ("listen", "endpoint", "key"),
    [
        ("127.0.0.1:4317", "http://127.0.0.1:4317", "receive.grpc"),
        ("127.0.0.1:4317", "http://localhost:4317", "receive.grpc"),
        ("0.0.0.0:4317", "http://127.0.0.1:4317", "receive.grpc"),
        ("[::1]:4317", "http://[::1]:4317", "receive.grpc"),
        ("sidecar.example:4317", "http://Sidecar.example:4317", "receive.grpc"),
        ("127.0.0.1:4317", "http://127.0.0.1:4318", "receive.http"),
        ("127.0.0.1:4317", "http://127.0.0.1:4319", "gateway.listen"),
    ],
)
def test_an_exporter_that_leads_back_is_refused_at_start(tmp_path, listen, endpoint, key):
    text = (
        f'receive: {{grpc: "{listen}"}}\n'
        f'export:\n  - otlp: {{endpoint: "{endpoint}", allow_cidrs: ["127.0.0.0/8", "::1/128"]}}\n'
    )
    said = refused(tmp_path, text)
    assert "leads back to the sidecar itself" in said and key in said and ":3:" in said


@pytest.mark.parametrize("endpoint", ["http://127.0.0.1:14317", "http://collector:4317"])
def test_another_port_or_machine_is_no_loop(tmp_path, endpoint):
    text = f'export:\n  - otlp: {{endpoint: "{endpoint}", allow_cidrs: ["127.0.0.0/8"]}}\n'
    assert loaded(tmp_path, text).export


def test_an_exporter_without_a_name_goes_by_its_endpoint():
    assert Exporter(otlp=Otlp(endpoint="https://o.example/v2/")).title == "o.example/v2"
