"""Configuration: sources, order, and every problem at once with its line."""

import pytest

from sidecar.config import environment_names, is_loopback, load
from sidecar.errors import SidecarError
from sidecar.listen.address import split_address


def write(tmp_path, text):
    path = tmp_path / "sidecar.yaml"
    path.write_text(text)
    return str(path)


def refused(tmp_path, text, environ=None):
    with pytest.raises(SidecarError) as caught:
        load(write(tmp_path, text), environ=environ or {})
    return str(caught.value)


def test_defaults_need_no_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    loaded = load(environ={})
    assert loaded.file is None
    assert loaded.config.receive.grpc == "127.0.0.1:4317"
    assert loaded.config.project("default").content.capture == "off"


def test_later_sources_win(tmp_path):
    file = write(tmp_path, "gateway: {listen: '127.0.0.1:1'}\nassemble: {idle: 5s}\n")
    loaded = load(
        file,
        environ={
            "SIDECAR_GATEWAY_LISTEN": "127.0.0.1:2",
            "SIDECAR_RECEIVE_JOURNAL_BYTES_MAX": "2000000",
        },
        overrides={"gateway.listen": "127.0.0.1:3", "store.url": None},
    )
    assert loaded.config.gateway.listen == "127.0.0.1:3"
    assert loaded.config.receive.journal.bytes_max == 2_000_000
    assert loaded.config.assemble.idle_ns == 5_000_000_000


def test_every_problem_is_reported_with_its_line(tmp_path):
    text = refused(
        tmp_path,
        "stroe: {url: x}\n"
        "assemble: {idle: soon}\n"
        "gateway:\n"
        "  listn: a\n"
        "  tools:\n"
        "    - {name: t, upstream: u, match: {method: GET, path: /x}, class: harmless}\n"
        "metrics: {listen: 7}\n",
    )
    for part in (
        "sidecar.yaml:1: stroe is unknown",
        "sidecar.yaml:4: gateway.listn is unknown",
        "sidecar.yaml:6: gateway.tools.0.class must be one of",
        "sidecar.yaml:7: metrics.listen must be text",
        "sidecar.yaml:2: assemble.idle",
        "5 problems",
    ):
        assert part in text


def test_values_are_checked_once_the_shape_holds(tmp_path):
    text = refused(
        tmp_path,
        "assemble: {idle: soon}\n"
        "gateway:\n"
        "  upstreams:\n"
        "    - {name: v1, url: 'ftp://x', allow_cidrs: [nonsense]}\n"
        "  tools:\n"
        "    - {name: t, upstream: nowhere, match: {method: GET, path: x}}\n"
        "control: {listen: here}\n",
    )
    for part in (
        "assemble.idle",
        "upstreams.0.name",
        "upstreams.0.url",
        "allow_cidrs.0",
        "tools.0.upstream",
        "tools.0.match.path",
        "control.listen",
    ):
        assert part in text


def test_a_misspelt_key_hides_no_other_problem(tmp_path):
    text = refused(
        tmp_path,
        "stroe: {url: x}\n"
        "assemble: {idle: banana}\n"
        "gateway:\n"
        "  tools:\n"
        "    - {name: t, upstream: nowhere, match: {method: GET, path: /x}}\n",
    )
    assert "3 problems" in text
    lines = [int(line.split(":")[1]) for line in text.splitlines() if "sidecar.yaml:" in line]
    assert lines == [1, 2, 5]


def test_what_only_follows_from_a_broken_part_is_not_told(tmp_path):
    text = refused(
        tmp_path,
        "gateway: {listn: x, upstreams: [{name: shop, url: 'http://shop'}]}\n"
        "probes: [{name: p, when: 'true', http: {upstream: shop, get: /x}, expect: 'true'}]\n",
    )
    assert "a problem" in text and "gateway.listn" in text


def test_off_is_text_in_yaml(tmp_path):
    file = write(tmp_path, "projects: [{name: p, content: {capture: off}}]\n")
    assert load(file, environ={}).config.project("p").content.capture == "off"


def test_a_key_that_stands_twice_is_refused(tmp_path):
    assert "sidecar.yaml:2" in refused(
        tmp_path, "store: {url: 'sqlite:///a'}\nstore: {url: 'sqlite:///b'}\n"
    )


def test_broken_yaml_says_where(tmp_path):
    assert "sidecar.yaml:3" in refused(tmp_path, "store:\n  url: [a\n")


def test_unknown_environment_is_refused_and_agent_variables_are_not(tmp_path):
    assert "SIDECAR_GATEWAY_LISTN" in refused(tmp_path, "", {"SIDECAR_GATEWAY_LISTN": "x"})
    load(write(tmp_path, ""), environ={"SIDECAR_AGENT_KEY": "k", "SIDECAR_GATEWAY_URL": "u"})


def test_every_scalar_key_has_one_variable():
    names = environment_names()
    assert names["SIDECAR_SEAL_KEY_FILE"][0] == "seal.key_file"
    assert names["SIDECAR_CLIENT_KEY"][0] == "client.key"
    assert len({path for path, _ in names.values()}) == len(names)


def test_a_named_file_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(SidecarError, match="no configuration file"):
        load(str(tmp_path / "none.yaml"), environ={})


def test_addresses():
    assert split_address("[::1]:4317") == ("::1", 4317)
    assert is_loopback("localhost:1") and is_loopback("127.0.0.2:1")
    assert not is_loopback("0.0.0.0:1") and not is_loopback("sidecar:1")
    for bad in ("4317", "a:b", "a:99999", "::1:80"):
        with pytest.raises(ValueError, match="host:port"):
            split_address(bad)


def test_a_store_on_postgres_keeps_its_journal_in_a_folder_beside_the_file(tmp_path):
    text = "store: {url: 'postgresql://app@db/agents', local: data, password_file: secret}\n"
    loaded = load(write(tmp_path, text), environ={})
    assert loaded.config.store.on_postgres
    assert loaded.store_folder == str(tmp_path / "data")
    named = load(write(tmp_path, text), environ={"SIDECAR_STORE_LOCAL": "elsewhere"})
    assert named.store_folder == "elsewhere"  # from the working directory, as the URL is
    url = load(write(tmp_path, "store: {local: data}\n"), environ={}).store_folder
    assert url == str(tmp_path / "sidecar-data")  # a store in files is where its URL says


@pytest.mark.parametrize(
    ("store", "why"),
    [
        ("{url: 'postgresql://app:hush@db/agents'}", "store.url holds a password"),
        ("{url: 'postgresql://app@db/agents?password=hush'}", "store.url holds a password"),
        ("{url: 'postgresql://app@db'}", "store.url names no database"),
        ("{url: 'mysql://hush@db/agents'}", "store.url must be sqlite:///<folder> or postgresql"),
        ("{url: 'postgresql://app@db/agents', local: ''}", "store.local names no folder"),
        ("{url: 'sqlite:///'}", "store.url names no folder"),
        ("{url: 'sqlite:///:memory:'}", "store.url names no folder"),
        ('{url: "sqlite:///hush\\0x"}', "store.url must be UTF-8 without NUL"),
    ],
)
def test_a_store_that_cannot_be_is_told_without_quoting_its_url(tmp_path, store, why):
    text = refused(tmp_path, f"store: {store}\n")
    assert why in text and "hush" not in text


def test_a_text_that_is_not_utf8_is_refused_from_wherever_it_comes(tmp_path):
    bad = "sqlite:///hush\udcff"
    for sources in ({"environ": {"SIDECAR_STORE_URL": bad}}, {"overrides": {"store.url": bad}}):
        with pytest.raises(SidecarError, match=r"store\.url must be UTF-8 without NUL") as caught:
            load(write(tmp_path, "{}\n"), **{"environ": {}, **sources})
        assert "hush" not in str(caught.value)
    assert "UTF-8" in refused(tmp_path, 'gateway: {tools: [{name: "a\\0"}]}\n')
    folder = tmp_path / "x\udcff"
    folder.mkdir()
    with pytest.raises(SidecarError, match="name is not UTF-8"):
        load(write(folder, "{}\n"), environ={})


def test_a_budget_of_organisations_needs_one_and_projects_know_theirs(tmp_path):
    text = "budgets: [{scope: organisation, limit: '1', currency: EUR}]\n"
    file = tmp_path / "sidecar.yaml"
    file.write_text(text)
    with pytest.raises(SidecarError) as error:
        load(str(file), environ={})
    assert "budgets.0.scope there are no organisations" in str(error.value)
    file.write_text(
        text
        + "projects: [{name: a}, {name: b}, {name: c}]\n"
        + "organisations: [{name: x, projects: [a, b]}]\n"
    )
    assert load(str(file), environ={}).config.organisations_of == {"a": ("x",), "b": ("x",)}


def test_a_sign_in_that_no_provider_could_tell_of_is_not_demanded(tmp_path):
    told = refused(
        tmp_path,
        "gateway:\n  upstreams: [{name: u, url: 'http://u.example'}]\n  tools:\n"
        "    - {name: t, upstream: u, match: {method: POST, path: /t}, step_up: {acr: [gold]}}\n",
    )
    assert "gateway.tools.0.step_up no sign-in can meet it" in told


def test_a_tool_of_an_mcp_server_takes_no_headers_that_nobody_sends(tmp_path):
    path = tmp_path / "sidecar.yaml"
    path.write_text(
        'gateway: {mcp: [{name: crm, url: "https://crm.example/mcp"}], '
        "tools: [{name: note, upstream: crm, class: write, match: {tool: note}, "
        "headers: [x-trace]}]}\n"
    )
    with pytest.raises(SidecarError) as refused:
        load(str(path))
    assert "gets no headers of the caller" in refused.value.text()
