"""Agents that meet in a small shop."""

import pytest
from hall_rig import SHIPPED, SUITE, TWIN
from msgspec import Struct

from sidecar.analyse.fuzz.campaign import Plan, campaign
from sidecar.analyse.fuzz.driver import agent
from sidecar.twins.files import load_suite


class Fuzzed(Struct):
    """A shipped example that a test fuzzes."""

    name: str

    def plan(self, tried, reference=None, **more):
        loaded = load_suite(SHIPPED / self.name / "suite.yaml")
        return Plan(
            suite=loaded.suite,
            group=loaded.group,
            agent=self.agent(tried),
            reference=self.agent(reference) if reference else None,
            **more,
        )

    def agent(self, name):
        return agent(f"py:sidecar.demo.fuzzing.{self.name}.agents:{name}", option="--agent")

    def run(self, tried, reference=None, *, until=None, **more):
        """The report after the budget, or after the first finding of a mode."""
        made = campaign(self.plan(tried, reference, **more))
        while made.discovery.episodes < more["episodes"]:
            found = made.step()
            if until is not None and found is not None and found.signature.mode == until:
                break
        return made.report()


@pytest.fixture
def hall(tmp_path):
    (tmp_path / "twin.yaml").write_text(TWIN)
    (tmp_path / "suite.yaml").write_text(SUITE)
    return load_suite(tmp_path / "suite.yaml")


@pytest.fixture
def forklifts():
    return Fuzzed("forklifts")


@pytest.fixture
def memo():
    return Fuzzed("memo")
