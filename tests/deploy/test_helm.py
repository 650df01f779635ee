"""The Helm chart, by the real Helm: linted, rendered, valid, and refusing what cannot be safe."""

import re
import subprocess
from urllib.parse import urlsplit

import pytest
import yaml
from deployed import CHART, KUBE_VERSION, ROOT, containers_of, helm, pods, rendered, script

POSTGRES = "config.store.url=postgresql://sidecar@db:5432/sidecar"
VALUES = {
    "defaults": (),
    "two replicas": ("--set", f"replicas=2,{POSTGRES}"),
    "everything": (
        "--set",
        f"replicas=3,{POSTGRES},networkPolicy.onlyWayOutOf={{agents,batch}}",
        "--set",
        "persistence.storageClass=fast,imagePullSecrets[0].name=pull,image.tag=9.9.9",
        "--set",
        "metrics.dashboard.enabled=true",
        "--set-string",
        "podLabels.team=payments,podAnnotations.note=x,nodeSelector.disk=ssd,files.a=b",
    ),
}
OPERATOR = ("--set", "metrics.serviceMonitor.enabled=true,metrics.rules.enabled=true")


def kinds(objects):
    return sorted(each["kind"] for each in objects)


def test_it_is_linted():
    out = helm("lint", "--strict", str(CHART))
    assert "0 chart(s) failed" in out


@pytest.mark.requirement("DEP-01")
@pytest.mark.parametrize("values", list(VALUES))
def test_what_it_renders_fits_the_api(values, tmp_path):
    path = tmp_path / "rendered.yaml"
    path.write_text(yaml.safe_dump_all(rendered(*VALUES[values])))
    command = [script("kubernetes-validate"), "--strict", "--quiet", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def test_two_replicas_on_sqlite_are_refused_with_the_reason():
    refused = ("template", "r", str(CHART), "--kube-version", KUBE_VERSION, "--set", "replicas=2")
    done = helm(*refused, check=False)
    assert done.returncode != 0
    assert "postgresql://" in done.stderr and "two effects" in done.stderr


def test_a_misspelt_value_is_refused():
    refused = ("template", "r", str(CHART), "--kube-version", KUBE_VERSION, "--set", "replica=2")
    done = helm(*refused, check=False)
    assert done.returncode != 0 and "replica" in done.stderr


def test_a_disruption_budget_only_where_it_can_hold():
    assert "PodDisruptionBudget" not in kinds(rendered())
    assert "PodDisruptionBudget" in kinds(rendered(*VALUES["two replicas"]))


def test_a_port_that_is_configured_is_the_port_everywhere():
    objects = rendered("--set", "config.gateway.listen=0.0.0.0:9319")
    (template,) = pods(objects)
    (container,) = containers_of(template, "chart")
    ports = {port["name"]: port["containerPort"] for port in container.spec["ports"]}
    assert ports["gateway"] == 9319
    (policy,) = (each for each in objects if each["kind"] == "NetworkPolicy")
    assert {"protocol": "TCP", "port": 9319} in policy["spec"]["ingress"][0]["ports"]


def test_a_changed_configuration_makes_new_pods():
    def checksum(*values):
        (template,) = pods(rendered(*values))
        return template["metadata"]["annotations"]["checksum/config"]

    assert checksum() == checksum()
    assert checksum() != checksum("--set", "config.assemble.idle=5s")


def test_each_namespace_named_gets_the_gateway_as_its_only_way_out():
    policies = {
        each["metadata"].get("namespace"): each["spec"]
        for each in rendered(*VALUES["everything"])
        if each["kind"] == "NetworkPolicy"
    }
    assert set(policies) == {None, "agents", "batch"}
    for name in ("agents", "batch"):
        assert policies[name]["policyTypes"] == ["Ingress", "Egress"]
        spaces = [rule["to"][0]["namespaceSelector"] for rule in policies[name]["egress"]]
        names = {each["matchLabels"]["kubernetes.io/metadata.name"] for each in spaces}
        assert names == {"agenttwin", "kube-system"}


def test_the_howtos_gateway_may_go_to_its_database_and_its_tools(tmp_path):
    text = (ROOT / "docs" / "howto" / "kubernetes.md").read_text()
    path = tmp_path / "values.yaml"
    path.write_text(re.search(r"^```yaml\n(# values.yaml\n.*?)^```", text, re.M | re.S)[1])
    config = yaml.safe_load(path.read_text())["config"]
    policy = next(each for each in rendered("-f", str(path)) if each["kind"] == "NetworkPolicy")
    allowed = {
        (rule["to"][0]["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"], port)
        for rule in policy["spec"]["egress"]
        for port in [each["port"] for each in rule.get("ports", [])] or [None]
    }
    assert (urlsplit(config["store"]["url"]).hostname.split(".")[1], 5432) in allowed
    for upstream in config["gateway"]["upstreams"]:
        assert (urlsplit(upstream["url"]).hostname.split(".")[1], None) in allowed


def test_what_monitoring_operators_read_is_rendered():
    objects = rendered(*OPERATOR)
    (rules,) = (each for each in objects if each["kind"] == "PrometheusRule")
    alerts = yaml.safe_load((CHART / "monitoring" / "alerts.yaml").read_text())
    assert rules["spec"] == alerts
    assert "ServiceMonitor" in kinds(objects)
