"""The refund agent without processes: the same script, the same retries, in turn."""

from importlib import resources
from pathlib import Path

import pytest

from sidecar.demo import in_process
from sidecar.replay.direct import run_direct
from sidecar.twins.episode import Reply
from sidecar.twins.files import load_suite
from sidecar.twins.scenario import cases

ASSETS = Path(str(resources.files("sidecar.demo"))) / "assets"
ORDER = {"order_id": "ORD-1", "status": "delivered", "days_since_delivery": 3, "total": "49.00",
         "refunded": "0.00", "currency": "EUR", "email": "a@b.c"}  # fmt: skip


@pytest.fixture(scope="module")
def suite():
    loaded = load_suite(ASSETS / "suite.yaml")
    return loaded, {one.id: one for one in cases(loaded.suite)}


def ran(suite, name, agent):
    loaded, known = suite
    return run_direct(known[name], agent, loaded.group, loaded.group.open())


def called(run):
    return [step.tool.name for step in run.trace.steps]


@pytest.mark.requirement("DEM-01")
def test_a_version_is_its_prompt(suite):
    good = ran(suite, "refund-in-window", in_process.good)
    hasty = ran(suite, "refund-in-window", in_process.hasty)
    assert called(good) == ["get_order", "get_refund_policy", "issue_refund", "get_order"]
    assert called(hasty) == ["get_order", "issue_refund", "get_refund_policy"]
    assert "I have refunded EUR" in good.trace.final_output
    assert called(ran(suite, "refund-in-window", in_process.repaired)) == called(good)


@pytest.mark.requirement("DEM-01")
def test_a_tool_that_lies_is_believed_by_the_hasty_one_alone(suite):
    assert "could not confirm" in ran(suite, "false-success", in_process.good).trace.final_output
    assert "I have refunded" in ran(suite, "false-success", in_process.hasty).trace.final_output


@pytest.mark.requirement("DEM-01")
def test_what_may_come_right_is_asked_again_with_the_same_key_and_nothing_else():
    asked, left = [], [503, None, 201]

    def call(tool, arguments, key=""):
        asked.append((tool, key))
        if tool == "issue_refund":
            status = left.pop(0)
            return Reply(status=status, value={"status": "succeeded"}, has_body=True)
        if tool == "get_refund_policy":
            return Reply(status=200, value={"statuses": ["delivered"], "window_days": 30})
        paid = "49.00" if not left else "0.00"
        return Reply(status=200, value={**ORDER, "refunded": paid})

    said = in_process.good({"input": "Please refund ORD-1."}, call)
    refunds = [key for tool, key in asked if tool == "issue_refund"]
    assert said == "I have refunded EUR 49.00 for order ORD-1."
    assert len(refunds) == 3 and len({*refunds}) == 1 and refunds[0]
    left[:] = [403]
    assert "could not refund" in in_process.good({"input": "Please refund ORD-1."}, call)
