"""Nothing of ours is killed while it still finishes calls that it took."""

import re

import pytest
import yaml
from deployed import CHART, compose, manifests, pods

from sidecar.listen.fault import ConnectionLimits

CLOSING_SECONDS = 20
"""For what ends after the calls: connections, the pipeline's step, exporters, the stores."""


def given():
    """How long each of our containers has from SIGTERM to SIGKILL, in seconds."""
    found = {}
    for name, service in compose()["services"].items():
        if service["image"].split(":")[0] == "agenttwin-sidecar":
            found[f"compose {name}"] = int(re.fullmatch(r"(\d+)s", service["stop_grace_period"])[1])
    for path, each in manifests():
        for pod in pods([each]) if each["kind"] != "Job" else ():  # which takes no calls
            found[f"kubernetes {path.parent.name}"] = pod["spec"]["terminationGracePeriodSeconds"]
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    return {**found, "helm": values["terminationGracePeriodSeconds"]}


@pytest.mark.parametrize("where", list(given()))
def test_a_container_is_given_the_time_that_calls_on_their_way_are(where):
    assert given()[where] >= ConnectionLimits().flight_seconds + CLOSING_SECONDS
