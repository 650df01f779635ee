"""The demo's regression dataset: linted, varied, passed by 1.2.4, and failed by 1.3.0 exactly where
it was built to.
"""

import asyncio
import sys
from importlib import resources
from pathlib import Path

import pytest
from msgspec import structs

from sidecar.app.loading import load_config
from sidecar.app.mutating import mutation_score
from sidecar.app.replaying import replay_ports
from sidecar.demo.processes import Family, python
from sidecar.demo.stage import _LISTENING, clean_environment
from sidecar.replay import linting
from sidecar.replay.driver import replay
from sidecar.replay.planning import Asked, suite_plan
from sidecar.replay.reference import read_reference, recorded
from sidecar.twins.files import load_suite

ASSETS = Path(str(resources.files("sidecar.demo"))) / "assets"
SURVIVORS = {"skip_confirmation get_refund_policy"}
"""What the dataset meets and does not notice: a policy that is read after a refund changes nothing.
"""
PLANTED = ("planted:policy-first", "planted:false-success")


@pytest.fixture(scope="module")
def dataset():
    return load_suite(ASSETS / "regression.yaml")


@pytest.mark.requirement("SCN-01", "DEM-01", "EVL-01")
@pytest.mark.parametrize("name", ["regression.yaml", "suite.yaml"])
def test_every_scenario_can_be_passed_and_none_by_doing_nothing(name):
    loaded = load_suite(ASSETS / name)
    assert linting.problems(linting.lint(loaded.suite, loaded.group)) == []


@pytest.mark.requirement("EVL-01")
def test_there_are_fifty_and_more_of_many_kinds(dataset):
    scenarios = dataset.suite.scenarios
    assert len(scenarios) >= 50
    assert {one.severity for one in scenarios if one.severity} >= {"critical", "minor"}
    tags = {tag for one in scenarios for tag in one.tags}
    kinds = {"boundary", "fault", "retry", "injection", "approval", "tenant", "turns", "email"}
    assert tags >= {*kinds, "path", "read", "fairness", *PLANTED}
    assert len({fault.fault for one in scenarios for fault in one.faults}) >= 5
    assert sum(one.user is not None for one in scenarios) >= 5
    used = {type(each).__struct_config__.tag for one in scenarios for each in one.expect}
    assert len(used) >= 25, sorted(used)


@pytest.mark.full
@pytest.mark.requirement("DEM-01", "EVL-01")
def test_1_2_4_passes_all_and_1_3_0_fails_what_was_planted(dataset, tmp_path):
    with Family() as family:
        command = python("sidecar.demo.model_server")
        log = tmp_path / "model.log"
        model = family.start("model", command, log=log, environment=clean_environment())
        url = f"{model.wait_for(_LISTENING)[1]}/v1"

        def agent(version):
            text = (
                f"cmd:{sys.executable} -m sidecar.demo.agent --version {version} --model-url {url}"
            )
            return read_reference(text, option="--agent", python=sys.executable)

        # Each case once a side: that two runs of one are equal is checked by the demo's own suite.
        suite = structs.replace(dataset.suite, deterministic=False)
        chosen = structs.replace(dataset, suite=suite)
        asked = Asked(project="default", baseline=agent("1.2.4"), candidate=agent("1.3.0"))
        config = load_config(None, f"sqlite:///{tmp_path}/store")

        async def whole():
            async with replay_ports(config) as ports:
                return await replay(suite_plan(chosen, asked), ports)

        result = asyncio.run(whole())
    kinds = {one.case: one.case_class for one in result.results}
    for one in dataset.suite.scenarios:
        planted = not set(PLANTED).isdisjoint(one.tags)
        worse = "new_critical" if one.severity == "critical" else "regressed"
        assert kinds[one.id] == (worse if planted else "unchanged"), one.id
    assert all(one.baseline == "passed" for one in result.results)


@pytest.mark.full
@pytest.mark.requirement("COV-01")
def test_the_dataset_kills_the_mutants_that_it_can_meet(dataset, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    asked = Asked(
        project="default",
        baseline=recorded(),
        candidate=read_reference(
            "py:sidecar.demo.in_process:good", option="--agent", python=sys.executable
        ),
    )
    suite = structs.replace(dataset.suite, deterministic=False)
    plan = suite_plan(structs.replace(dataset, suite=suite), asked)
    config = load_config(None, f"sqlite:///{tmp_path}/store")
    found = asyncio.run(
        mutation_score(
            plan,
            config,
            seed=0,
            targets=("agent", "policy", "twin"),
            operators=(),
            progress=None,
        )
    )
    assert (found.cases, found.unusable, found.void) == (len(dataset.suite.scenarios), {}, 0)
    met = {one.mutant.id for one in found.judged if one.ending == "survived" and one.acted}
    assert met == SURVIVORS
