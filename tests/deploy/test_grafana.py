"""Dashboard and alert rules: every metric and label they name is one the sidecar has."""

import importlib
import json
import re

import pytest
import yaml
from deployed import DEPLOY, ROOT

from sidecar.telemetry import REGISTRY

for path in sorted((ROOT / "sidecar").rglob("*.py")):
    if "registry=REGISTRY" in path.read_text():  # no metric is missed because it is loaded late
        importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))

DASHBOARD = json.loads((DEPLOY / "grafana" / "dashboard.json").read_text())
RULES = yaml.safe_load((DEPLOY / "grafana" / "alerts.yaml").read_text())["groups"][0]["rules"]
_METRIC = re.compile(r"\b((?:sidecar|process)_[a-z0-9_]+)")
_GROUPED = re.compile(r"by \(([a-z, ]+)\)")
_TARGET_LABELS = {"job", "instance", "le"}


def known():
    """Every name a scrape shows, with its labels."""
    found = {}
    for family in REGISTRY.collect():
        for sample in family.samples:
            found.setdefault(sample.name, set())
    for collector in list(REGISTRY._collector_to_names):
        for name in REGISTRY._collector_to_names[collector]:
            found[name] = set(getattr(collector, "_labelnames", ()))
    return found


NAMES = known()
EXPRESSIONS = [
    *(
        (panel["title"], target["expr"])
        for panel in DASHBOARD["panels"]
        for target in panel.get("targets", [])
    ),
    *((rule["alert"], rule["expr"]) for rule in RULES),
]


@pytest.mark.requirement("OBS-01")
@pytest.mark.parametrize(("title", "expression"), EXPRESSIONS)
def test_what_is_asked_for_is_told(title, expression):
    metrics = _METRIC.findall(expression)
    assert metrics
    labels = set()
    for metric in metrics:
        assert metric in NAMES, f"{title}: there is no metric {metric}"
        labels |= NAMES[metric]
    for group in _GROUPED.findall(expression):
        assert {each.strip() for each in group.split(",")} <= labels | _TARGET_LABELS, title
    used = set(re.findall(r"([a-z]+)=~?\"", expression))
    assert used <= labels | _TARGET_LABELS, title
    assert expression.count("(") == expression.count(")")


def test_every_metric_of_ours_is_on_the_dashboard():
    shown = " ".join(expression for _, expression in EXPRESSIONS)
    ours = {name for name in NAMES if re.match(r"sidecar_.*(_total|_bytes|_seconds)$", name)}
    missing = {name for name in ours if not re.search(rf"\b{name}(_bucket)?\b", shown)}
    assert not missing


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_an_alert_says_what_holds_and_what_to_do(rule):
    assert rule["labels"]["severity"] in ("warning", "critical")
    assert rule["annotations"]["summary"] and rule["annotations"]["description"]
    grouped = {
        each.strip() for group in _GROUPED.findall(rule["expr"]) for each in group.split(",")
    }
    told = " ".join(rule["annotations"].values())
    named = set(re.findall(r"\$labels\.([a-z]+)", told))
    assert named <= grouped | {"instance"}


def test_panels_do_not_overlap():
    places = [(each["gridPos"]["x"], each["gridPos"]["y"]) for each in DASHBOARD["panels"]]
    assert len(places) == len(set(places))
