"""The Compose file: valid, complete, and a cage for the agent."""

import shutil
import subprocess

import pytest
import yaml
from built_tools import program
from deployed import COMPOSE, DEPLOY, ROOT, compose, script

FOLDER = COMPOSE.parent
OURS = ("sidecar", "embedded", "bundle", "opa", "governed", "agent", "model", "commerce")

SIDECARS = {"full": "sidecar", "embedded": "embedded", "opa": "governed"}


def merged(name):
    """A service; YAML merge keys are resolved by the reader."""
    return compose()["services"][name]


@pytest.mark.requirement("DEP-01")
def test_it_is_valid_compose():
    command = [script("check-jsonschema"), "--builtin-schema", "vendor.compose-spec", str(COMPOSE)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def test_what_a_service_names_is_there():
    document = compose()
    for name, service in document["services"].items():
        for source in service.get("configs", []):
            file = document["configs"][source["source"]]["file"]
            assert (FOLDER / file).is_file(), f"{name}: {file}"
        assert set(service.get("secrets", [])) <= set(document["secrets"]), name
        networks = service.get("networks", [])
        assert set(networks) <= set(document["networks"]), name
        for volume in service.get("volumes", []):
            assert volume.split(":")[0] in document["volumes"], name
        assert set(service.get("depends_on", {})) <= set(document["services"]), name
        assert service["profiles"], f"{name} would start with no profile named"


@pytest.mark.parametrize("name", OURS)
def test_our_containers_can_write_nowhere_and_gain_nothing(name):
    service = merged(name)
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert "no-new-privileges:true" in service["security_opt"]
    assert not service.get("privileged")


@pytest.mark.parametrize("profile", ["full", "embedded", "opa"])
def test_the_agent_reaches_its_tools_only_through_the_sidecar(profile):
    services = {
        name: set(each["networks"])
        for name, each in compose()["services"].items()
        if profile in each["profiles"]
    }
    sidecar = services.pop(SIDECARS[profile])
    assert not services["agent"] & services["commerce"]
    assert services["agent"] & sidecar and services["commerce"] & sidecar
    both = {name for name, on in services.items() if services["agent"] <= on and "tools" in on}
    assert not both, "another way from the agent to the tools"
    assert compose()["networks"]["agents"]["internal"] is True


def test_only_the_sidecar_reaches_the_opa_server():
    document = compose()
    on = {name for name, each in document["services"].items() if "policy" in each["networks"]}
    assert on == {"governed", "opa", "bundle"}
    assert document["networks"]["policy"]["internal"] is True
    assert "ports" not in merged("opa")


def test_the_agent_is_given_its_own_key_and_no_other_secret():
    assert merged("agent")["secrets"] == ["agent-key"]
    for name in ("model", "commerce", "collector"):
        assert "secrets" not in merged(name)


def test_only_people_and_metrics_are_published_and_only_to_this_machine():
    for name, service in compose()["services"].items():
        for port in service.get("ports", []):
            assert port.startswith("127.0.0.1:"), name
            assert port.rsplit(":", 1)[1] in ("4320", "4321", "4322"), name


def test_secrets_are_made_once_and_kept(tmp_path):
    shutil.copy(FOLDER / "secrets.sh", tmp_path)

    def run():
        done = subprocess.run(["sh", str(tmp_path / "secrets.sh")], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return {path.name: path.read_text() for path in (tmp_path / "secrets").iterdir()}

    first = run()
    assert first == run()
    assert set(first) == set(compose()["secrets"])
    assert (tmp_path / "secrets").stat().st_mode & 0o077 == 0
    ignored = (ROOT / ".gitignore").read_text().splitlines()
    assert "/deploy/compose/secrets/" in ignored


def test_a_seal_key_made_anywhere_in_a_checkout_cannot_be_added_by_mistake():
    ignored = (ROOT / ".gitignore").read_text().splitlines()
    assert {"*.seal-key", "sidecar-data/", "/demo-data/"} <= set(ignored)


def test_the_collector_takes_its_configuration():
    path = DEPLOY / "compose" / "config" / "collector.yaml"
    command = [program("otelcol"), "validate", f"--config={path}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert yaml.safe_load(path.read_text())["service"]["pipelines"]
