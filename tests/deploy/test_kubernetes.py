"""The Kubernetes manifests: valid, consistent, and closed where they say so."""

import subprocess

import pytest
import yaml
from deployed import KUBERNETES, containers_of, manifests, pods, script

from sidecar.cli.root import root


def of(kind, folder):
    return [
        each for path, each in manifests() if path.parent.name == folder and each["kind"] == kind
    ]


@pytest.mark.requirement("DEP-01")
def test_every_manifest_fits_the_api():
    command = [script("kubernetes-validate"), "--strict", "--quiet", *map(str, KUBERNETES)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("folder", ["sidecar", "gateway", "replay"])
def test_kustomizations_name_every_file_beside_them(folder):
    here = KUBERNETES[0].parents[1] / folder
    named = yaml.safe_load((here / "kustomization.yaml").read_text())["resources"]
    assert set(named) == {path.name for path in here.glob("*.yaml")} - {"kustomization.yaml"}


@pytest.mark.parametrize("folder", ["sidecar", "gateway"])
def test_pods_satisfy_the_restricted_standard(folder):
    for template in pods(of("StatefulSet", folder)):
        pod = template["spec"]
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"]["type"] == "RuntimeDefault"
        assert pod["automountServiceAccountToken"] is False
        for each in containers_of(template, folder):
            security = each.spec["securityContext"]
            assert security["allowPrivilegeEscalation"] is False, each.where
            assert security["readOnlyRootFilesystem"] is True, each.where
            assert security["capabilities"] == {"drop": ["ALL"]}, each.where
            mounts = {mount["name"] for mount in each.spec.get("volumeMounts", [])}
            known = {volume["name"] for volume in pod["volumes"]} | {"data"}
            assert mounts <= known, each.where


@pytest.mark.requirement("CRV-01")
@pytest.mark.requirement("ISO-01")
@pytest.mark.row("R60")
def test_a_replay_in_parts_runs_each_of_them_and_reaches_nobody():
    (job,) = of("Job", "replay")
    spec, pod = job["spec"], job["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert spec["completionMode"] == "Indexed"
    assert f"--shards={spec['completions']}" in container["args"]
    command = root.get_command(None, container["args"][0])
    read = command.make_context("replay", container["args"][1:]).params
    assert read["parts"].as_posix() in {one["mountPath"] for one in container["volumeMounts"]}
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    mounts = {mount["name"] for mount in container["volumeMounts"]}
    assert mounts == {volume["name"] for volume in pod["volumes"]}
    (policy,) = of("NetworkPolicy", "replay")
    assert policy["spec"] == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}


@pytest.mark.parametrize("folder", ["sidecar", "gateway"])
def test_probes_and_services_name_ports_that_containers_have(folder):
    for template in pods(of("StatefulSet", folder)):
        labels = template["metadata"]["labels"]
        names = set()
        for each in containers_of(template, folder):
            ports = {port["name"] for port in each.spec.get("ports", [])}
            names |= ports
            for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
                if probe in each.spec:
                    assert each.spec[probe]["httpGet"]["port"] in ports
        for service in of("Service", folder):
            assert service["spec"]["selector"].items() <= labels.items()
            assert {port["targetPort"] for port in service["spec"]["ports"]} <= names


def test_the_sidecar_is_native_and_the_agent_gets_its_own_key_only():
    (template,) = pods(of("StatefulSet", "sidecar"))
    (sidecar,) = template["spec"]["initContainers"]
    assert sidecar["restartPolicy"] == "Always"
    (agent,) = template["spec"]["containers"]
    assert "volumeMounts" not in agent
    keys = [
        each["valueFrom"]["secretKeyRef"]["key"] for each in agent["env"] if "valueFrom" in each
    ]
    assert keys == ["agent-key"]


def test_the_gateway_is_the_only_way_out_of_the_agents_namespace():
    policies = {each["metadata"]["name"]: each for each in of("NetworkPolicy", "gateway")}
    out = policies["only-way-out-is-the-gateway"]
    assert out["metadata"]["namespace"] == "agents"
    assert out["spec"]["podSelector"] == {}
    assert set(out["spec"]["policyTypes"]) == {"Ingress", "Egress"} and "ingress" not in out["spec"]
    ways = set()
    for rule in out["spec"]["egress"]:
        assert rule["ports"] and all("ipBlock" not in to for to in rule["to"])
        for to in rule["to"]:
            assert to["podSelector"]["matchLabels"], "a whole namespace is too wide"
            ways.add(to["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"])
    assert ways == {"agenttwin", "kube-system"}
    gateway = policies["gateway"]["spec"]["ingress"]
    agents = [
        {port["port"] for port in rule["ports"]}
        for rule in gateway
        if rule["from"][0]["namespaceSelector"]["matchLabels"] == {"agenttwin.dev/role": "agents"}
    ]
    assert agents == [{4317, 4318, 4319}], "agents reach neither control nor metrics"
    tools = policies["only-through-the-gateway"]["spec"]
    assert [rule["from"][0]["podSelector"]["matchLabels"] for rule in tools["ingress"]] == [
        {"app.kubernetes.io/name": "gateway"}
    ]


def test_every_agents_namespace_is_known_to_the_gateways_policy():
    labels = {
        each["metadata"]["name"]: each["metadata"].get("labels", {})
        for each in of("Namespace", "gateway")
    }
    assert labels["agents"]["agenttwin.dev/role"] == "agents"
    named = {each["metadata"]["namespace"] for each in of("NetworkPolicy", "gateway")}
    assert named <= set(labels)
