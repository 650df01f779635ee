"""What the fuzzer finds in the shipped examples, from scenarios that do not mention it."""

import pytest
from msgspec import structs

from sidecar.analyse.fuzz.campaign import campaign
from sidecar.analyse.fuzz.files import write_finding
from sidecar.analyse.fuzz.judged import Bench
from sidecar.analyse.together.driver import CallableAgent
from sidecar.errors import SidecarError
from sidecar.twins.files import load_suite

DEADLOCK = "deadlock:inbound+outbound:places/aisle+places/dock"


@pytest.mark.requirement("FUZ-02")
def test_two_forklifts_and_one_dock_are_a_deadlock_of_one_switch(forklifts):
    report = forklifts.run("greedy", "ordered", until="deadlock", episodes=200, seed=1)
    found = report.findings[-1]
    assert found.signature.rule == DEADLOCK
    assert [one.operator for one in found.genome] == ["beside", "switch"]
    assert (found.hits, found.whole) == (5, True)


@pytest.mark.full
@pytest.mark.requirement("FUZ-02")
@pytest.mark.parametrize("seed", range(12))
def test_the_deadlock_is_found_whatever_the_seed(forklifts, seed):
    report = forklifts.run("greedy", "ordered", until="deadlock", episodes=400, seed=seed)
    assert report.findings[-1].signature.rule == DEADLOCK
    assert len(report.findings[-1].genome) == 2


@pytest.mark.requirement("FUZ-02")
def test_drivers_who_claim_in_one_order_never_deadlock(forklifts):
    report = forklifts.run("ordered", "ordered", episodes=60, seed=1, layers=("concurrency",))
    assert report.findings == ()
    assert report.as_it_is == ()


@pytest.mark.requirement("FUZ-01")
def test_a_clerk_who_obeys_a_memo_is_found_out_from_clean_data(memo):
    report = memo.run("obedient", "careful", until="toolNotCalled", episodes=200, seed=1)
    found = report.findings[-1]
    assert found.signature.rule == "toolNotCalled:pay_invoice"
    assert [one.told() for one in found.genome] == ["injection: in invoices I-1 memo"]


@pytest.mark.full
@pytest.mark.requirement("FUZ-01")
@pytest.mark.parametrize("seed", range(12))
def test_the_obedience_is_found_whatever_the_seed(memo, seed):
    report = memo.run("obedient", "careful", until="toolNotCalled", episodes=400, seed=seed)
    assert [one.layer for one in report.findings[-1].genome] == ["injection"]


@pytest.mark.requirement("FUZ-01")
def test_a_careful_clerk_passes_every_valid_mutant(memo):
    assert memo.run("careful", "careful", episodes=80, seed=2).findings == ()


@pytest.mark.requirement("FUZ-01")
@pytest.mark.row("R61")
def test_the_same_seed_finds_the_same(memo):
    assert memo.run("obedient", episodes=40, seed=5) == memo.run("obedient", episodes=40, seed=5)


@pytest.mark.requirement("FUZ-01", "FUZ-02")
@pytest.mark.parametrize("name", ["forklifts", "memo"])
def test_a_finding_on_disk_fails_the_agent_and_not_the_reference(request, name, tmp_path):
    each = request.getfixturevalue(name)
    bad, good = {"forklifts": ("greedy", "ordered"), "memo": ("obedient", "careful")}[name]
    mode = {"forklifts": "deadlock", "memo": "toolNotCalled"}[name]
    report = each.run(bad, good, until=mode, episodes=200, seed=1)
    suite = each.plan(bad, episodes=0).suite
    path = write_finding(
        tmp_path / "found",
        report.findings[-1],
        suite,
        suite_path=shipped(each),
        agent=bad,
        seed=1,
    )
    loaded = load_suite(path)
    bench = Bench(loaded.suite, loaded.group, each.plan(bad, episodes=0).limits)
    scenario = loaded.suite.scenarios[0]
    again = bench.run(scenario, each.agent(bad))
    assert again.failed.signature == report.findings[-1].signature
    assert bench.run(scenario, each.agent(good)).failed is None


def shipped(each):
    from hall_rig import SHIPPED

    return SHIPPED / each.name / "suite.yaml"


@pytest.mark.requirement("FUZ-01")
def test_an_agent_that_fails_everything_as_it_is_leaves_nothing_to_mutate(memo):
    plan = structs.replace(memo.plan("careful", episodes=10), agent=lambda: CallableAgent(idle))
    with pytest.raises(SidecarError, match="no scenario passes as it is"):
        campaign(plan)


def idle(request, call):
    return "Nothing to do."
