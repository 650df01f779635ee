"""What no sidecar could run with is refused when it is read: durations, names, places to dial."""

import pytest
from click.testing import CliRunner

from processors.value import DURATION_MAX_NS, duration_ns
from sidecar.cli.root import root
from sidecar.config import load
from sidecar.errors import SidecarError
from sidecar.identity.projects import project_name

UPSTREAM = "gateway:\n  upstreams:\n    - {{name: shop, url: '{}', allow_cidrs: [127.0.0.0/8]}}\n"
TOOL = (
    "gateway:\n  upstreams: [{name: shop, url: https://shop.example}]\n  tools:\n"
    "    - name: pay\n      upstream: shop\n      match: {method: POST, path: /pay}\n      "
)
LONG = "9" * 30 + "s"
# text, line, path, what is said
WRONG = [
    (f"assemble:\n  idle: {LONG}", 2, "assemble.idle", "longer than 3650d"),
    (f"{TOOL}timeout: 99999999999999h", 7, "gateway.tools.0.timeout", "longer than 3650d"),
    (f"{TOOL}timeout: 0s", 7, "gateway.tools.0.timeout", "shorter than 1ms"),
    (f"{TOOL}idempotency: {{retention: 0s}}", 7, "gateway.tools.0.idempotency.retention", "1ms"),
    (f"approvals: {{expires: {LONG}}}", 1, "approvals.expires", "longer than 3650d"),
    ("approvals:\n  expires: 0s", 2, "approvals.expires", "shorter than 1ms"),
    ("policy:\n  deadline: 0ms", 2, "policy.deadline", "shorter than 1ms"),
    (
        "projects:\n- name: a\n  retention: {traces: 4000d}",
        3,
        "projects.0.retention.traces",
        "3650d",
    ),
    ('projects:\n- name: ""', 2, "projects.0.name", "cannot be a project's name"),
    ('projects:\n- name: "../../x"', 2, "projects.0.name", "cannot be a project's name"),
    ("projects:\n- name: a\n- name: a", 3, "projects.1.name", "named twice"),
    ("projects: []", 1, "projects", "names none"),
    (UPSTREAM.format("http://2130706433"), 3, "gateway.upstreams.0.url", "address in disguise"),
    (UPSTREAM.format("http://127.1:80"), 3, "gateway.upstreams.0.url", "address in disguise"),
    (UPSTREAM.format("http://127.0x1"), 3, "gateway.upstreams.0.url", "address in disguise"),
    (UPSTREAM.format("http://127.0.0.1:70000"), 3, "gateway.upstreams.0.url", "no port 70000"),
    (UPSTREAM.format("http://10.0.0.1"), 3, "gateway.upstreams.0.url", "not named in allow_cidrs"),
    (UPSTREAM.format("http://169.254.169.254"), 3, "gateway.upstreams.0.url", "metadata"),
    (UPSTREAM.format("ftp://shop.example"), 3, "gateway.upstreams.0.url", "http(s)://"),
    (UPSTREAM.format("http://127.0.0.1:4319"), 3, "gateway.upstreams.0.url", "(gateway.listen)"),
    (UPSTREAM.format("http://localhost:4318"), 3, "gateway.upstreams.0.url", "(receive.http)"),
]


@pytest.mark.parametrize(("text", "line", "path", "said"), WRONG)
def test_a_value_nothing_could_run_with_is_refused_with_its_line(tmp_path, text, line, path, said):
    file = tmp_path / "sidecar.yaml"
    file.write_text(text)
    with pytest.raises(SidecarError) as error:
        load(str(file), environ={})
    told = str(error.value)
    assert f"{file}:{line}: {path} " in told and said in told, told


def test_a_number_in_a_variable_is_bounded_too():
    with pytest.raises(SidecarError, match="must be a whole number"):
        load(environ={"SIDECAR_RECEIVE_JOURNAL_BYTES_MAX": "1" * 6000})


@pytest.mark.parametrize("text", [LONG, "9" * 400 + "d", "3650d1s", "87601h"])
def test_no_duration_is_longer_than_ten_years(text):
    with pytest.raises(ValueError, match="longer than 3650d"):
        duration_ns(text)


def test_the_longest_and_the_shortest_are_taken():
    assert duration_ns("3650d") == DURATION_MAX_NS
    assert duration_ns("0s") == 0 and duration_ns("1ms", least_ns=1_000_000) == 1_000_000
    with pytest.raises(ValueError, match="shorter than 1ms"):
        duration_ns("999us", least_ns=1_000_000)


@pytest.mark.parametrize("name", ["default", "a", "Team-1_x.y", "x" * 64])
def test_a_project_name_is_kept(name):
    assert project_name(name, where="here") == name


@pytest.mark.parametrize("name", ["", "..", ".x", "../../x", "a b", "a/b", "a\0", "a\n", "é"])
@pytest.mark.parametrize(
    "command",
    [
        ("key", "create", "--kind", "agent"),
        ("key", "rotate-data"),
        ("key", "rotate-redaction"),
        ("key", "digest", "--kind", "email"),
    ],
)
def test_no_command_makes_anything_for_another_name(tmp_path, command, name):
    store = ["--store", f"sqlite:///{tmp_path}/data"]
    result = CliRunner().invoke(root, [*command, "--project", name, *store])
    assert isinstance(result.exception, SidecarError)
    assert "cannot be a project's name" in str(result.exception)
    assert not (tmp_path / "data").exists()
