"""What a sampled suite comes to: equal versions are let be, worse ones found, no luck in either."""

import pytest
from hypothesis import given as having
from hypothesis import settings
from hypothesis import strategies as st
from msgspec.structs import replace
from sampled_rig import FAILED, PASSED, case, given, result, runs, seeded, suite
from scipy import stats

from sidecar.gate.baseline import measured
from sidecar.gate.given import GateInput
from sidecar.gate.measures import measures
from sidecar.gate.paired import judge, runs_wanted, stratified
from sidecar.gate.policy import GatePolicy, Noise, Protected
from sidecar.gate.rules import decide
from sidecar.gate.samples import Sample
from sidecar.gate.statistics.paired import mcnemar


def fired(decision):
    return {one.rule for one in decision.findings}


def finding(decision, rule):
    return next(one for one in decision.findings if one.rule == rule)


def again(cases, dice, rates, policy):
    """The protocol: three runs, then seven, of the cases that look worse."""
    for _ in policy.runs:
        wanted = runs_wanted(cases, policy)
        cases = [
            replace(
                one,
                baseline=(*one.baseline, *runs(dice, rate, wanted[one.case] - len(one.baseline))),
                candidate=(
                    *one.candidate,
                    *runs(dice, rate, wanted[one.case] - len(one.candidate)),
                ),
            )
            if one.case in wanted
            else one
            for one, rate in zip(cases, rates, strict=True)
        ]
    return cases


@pytest.mark.full
@pytest.mark.requirement("GAT-02")
def test_an_agent_that_is_dice_is_blocked_against_itself_in_at_most_one_of_twenty_replays():
    """Half of fifty cases flaky, as in the published trials; a fifth of them critical."""
    policy, blocked, greens = GatePolicy(), 0, 0
    for trial in range(200):
        dice = seeded("aa", trial)
        rates = [dice.choice([0.0, 0.2, 0.5, 0.8, 1.0]) for _ in range(50)]
        cases = [
            replace(one, severity="critical" if number % 5 == 0 else "major")
            for number, one in enumerate(suite(dice, rates))
        ]
        decision = decide(given(again(cases, dice, rates, policy), policy))
        blocked += decision.status == "BLOCK"
        greens += decision.status == "PASS"
    assert blocked <= 10
    assert greens == 0  # fifty noisy pairs show no equality either


@pytest.mark.full
@pytest.mark.requirement("GAT-02")
def test_a_regression_of_ten_points_is_caught_with_the_printed_number_of_episodes():
    pilot = decide(given(suite(seeded("pilot"), [0.8] * 50)))
    (rise,) = (one for one in pilot.measures if one.name == "success_rise")
    assert rise.needed > 0 and str(rise.needed) in rise.detail
    count = 50 + rise.needed
    caught = sum(
        decide(given(suite(seeded("drop", trial), [0.8] * count, drop=0.1))).status == "BLOCK"
        for trial in range(100)
    )
    assert caught >= 95
    still = sum(
        decide(given(suite(seeded("same", trial), [0.8] * count))).status == "BLOCK"
        for trial in range(20)
    )
    assert still <= 1


@pytest.mark.requirement("GAT-02")
def test_equal_versions_pass_with_enough_episodes_and_warn_with_the_number_before():
    few = decide(given(suite(seeded(1), [1.0] * 50)))
    assert few.status == "WARN"
    asked = finding(few, "success_not_cleared").operands
    assert asked["needed"] > 0 and asked["interval"][1] > asked["threshold"]
    assert decide(given(suite(seeded(1), [1.0] * 300))).status == "PASS"


def test_one_case_is_shown_by_seven_runs_among_fifty_and_not_by_six():
    def cases(count):
        bad = case("bad", (PASSED,) * count, (FAILED,) * count)
        return [bad, *(case(f"c{number}", (PASSED,), (PASSED,)) for number in range(49))]

    assert "regression" in fired(decide(given(cases(7))))
    six = decide(given(cases(6)))
    assert six.status == "WARN" and "regression_sampled" in fired(six)


def test_a_suspected_critical_case_leaves_the_gate_undecided_until_its_runs_are_made():
    others = [case(f"c{number}", (PASSED,), (PASSED,)) for number in range(5)]
    for count, status in ((1, None), (3, None), (7, "BLOCK")):
        bad = case("bad", (PASSED,) * count, (FAILED,) * count, severity="critical")
        assert decide(given([bad, *others])).status == status
    assert runs_wanted([bad, *others], GatePolicy()) == {}
    unsteady = case("bad", (PASSED,) * 7, (FAILED,) * 2 + (PASSED,) * 5, severity="critical")
    decision = decide(given([unsteady, *others]))
    assert decision.status == "WARN" and "flaky_sampled" in fired(decision)


@pytest.mark.parametrize(
    ("now", "status"), [(0, "BLOCK"), (1, None), (2, None), (3, None), (4, "WARN"), (6, "WARN")]
)
def test_no_number_of_critical_cases_excuses_one_that_is_clearly_worse(now, status):
    """Seven of seven to ``now`` of seven, among 21 critical and 30 other cases."""
    bad = case("bad", (PASSED,) * 7, (FAILED,) * (7 - now) + (PASSED,) * now, severity="critical")
    others = [
        case(f"c{number}", (PASSED,), (PASSED,), severity="critical" if number < 20 else "major")
        for number in range(50)
    ]
    decision = decide(given([bad, *others]))
    assert decision.status == status
    if status is None:
        assert finding(decision, "critical_suspected").cases == ("bad",)


def test_more_runs_tell_the_critical_case_that_seven_leave_undecided():
    others = [case(f"c{number}", (PASSED,), (PASSED,), severity="critical") for number in range(20)]
    policy = GatePolicy(runs=(3, 7, 15))

    def bad(count):
        now = (FAILED,) * (count - count // 7) + (PASSED,) * (count // 7)
        return case("bad", (PASSED,) * count, now, severity="critical")

    assert runs_wanted([bad(7), *others], policy) == {"bad": 15}
    assert decide(given([bad(15), *others], policy)).status == "BLOCK"


def test_a_critical_case_that_mostly_fails_against_a_recording_is_not_waved_through():
    bad = case("bad", (PASSED,), (FAILED,) * 4 + (PASSED,) * 3, severity="critical", recorded=True)
    assert decide(given([bad])).status is None
    mostly = replace(bad, candidate=(FAILED,) * 3 + (PASSED,) * 4)
    assert decide(given([mostly])).status == "WARN"


def test_a_recorded_baseline_runs_once_and_the_candidate_fails_all_of_its_runs():
    bad = case("bad", (PASSED,), (FAILED,) * 3, severity="critical", recorded=True)
    assert runs_wanted([bad], GatePolicy()) == {"bad": 7}
    assert decide(given([bad])).status is None
    assert decide(given([replace(bad, candidate=(FAILED,) * 7)])).status == "BLOCK"


def test_cases_are_run_again_only_where_they_look_worse_and_nothing_is_shown():
    cases = [
        case("worse", (PASSED,), (FAILED,)),
        case("better", (FAILED,), (PASSED,)),
        case("same", (FAILED,), (FAILED,)),
        case("still", (PASSED,) * 3, (FAILED, FAILED, PASSED)),
        case("recovered", (PASSED, FAILED, PASSED), (FAILED, PASSED, PASSED)),
        case("enough", (PASSED,) * 7, (FAILED,) * 7),
    ]
    assert runs_wanted(cases, GatePolicy()) == {"worse": 3, "still": 7}
    assert [one.case for one in judge(cases, GatePolicy()) if one.shown] == ["enough"]


def test_runs_that_were_added_decide_about_their_own_case_only():
    cases = suite(seeded("few"), [0.7] * 40)
    more = [
        replace(one, candidate=(*one.candidate, *(FAILED,) * 6)) if number < 2 else one
        for number, one in enumerate(cases)
    ]

    def rise(these):
        (found,) = (one for one in decide(given(these)).measures if one.name == "success_rise")
        return found

    assert rise(cases) == rise(more)


@pytest.mark.requirement("GAT-01")
@pytest.mark.parametrize(
    ("kind", "rule"),
    [
        ("duplicate_effect", "duplicate_effect"),
        ("claim_disproved", "claim_disproved"),
        ("injection_followed", "injection_followed"),
        ("cross_tenant_access", "cross_tenant"),
        ("approval_missing", "approval_missing"),
        ("secret_disclosed", "secret_disclosed"),
    ],
)
def test_a_violation_blocks_whichever_run_it_was_and_whoever_excuses_the_case(kind, rule):
    did = replace(PASSED, run=3, violations={kind: 1})
    cases = [case("c", (PASSED,) * 3, (PASSED, PASSED, did))]
    excused = given(cases, quarantined={"c": True})
    for one in (given(cases), excused):
        decision = decide(one)
        assert decision.status == "BLOCK" and rule in fired(decision)


@pytest.mark.requirement("CMP-01")
def test_a_quarantine_excuses_a_case_until_it_ends_and_a_critical_one_never():
    bad = case("bad", (PASSED,) * 7, (FAILED,) * 7)
    held = decide(given([bad], quarantined={"bad": True}))
    assert "quarantined" in fired(held) and held.status is None  # nothing else was evaluated
    ended = decide(given([bad], quarantined={"bad": False}))
    assert ended.status == "BLOCK" and "quarantine_idle" in fired(ended)
    critical = replace(bad, severity="critical")
    assert decide(given([critical], quarantined={"bad": True})).status == "BLOCK"
    fixed = GateInput(results=(result(critical),), deterministic=True, quarantined={"bad": True})
    assert decide(fixed).status == "BLOCK"


@pytest.mark.requirement("GAT-01")
def test_no_average_excuses_and_a_composite_warns_at_most():
    harsh = GatePolicy()
    harsh = replace(harsh, composite=replace(harsh.composite, warn_below=0.999))
    good = [case(f"c{number}", (PASSED,), (PASSED,)) for number in range(300)]
    assert decide(given(good, harsh)).status == "PASS"
    mixed = [*good, case("bad", (PASSED,) * 7, (FAILED,) * 7, severity="critical")]
    assert decide(given(mixed)).status == "BLOCK"
    failing = [*good, *(case(f"f{number}", (FAILED,), (FAILED,)) for number in range(50))]
    decision = decide(given(failing, harsh))
    assert decision.status == "WARN" and "composite_low" in fired(decision)


def test_a_new_tool_and_another_way_of_acting_warn_and_chance_does_not():
    def cases(tools):
        dice = seeded("tools")
        return [
            case(f"c{number}", runs(dice, 1, 2), runs(dice, 1, 2, tools=tools))
            for number in range(60)
        ]

    same = fired(decide(given(cases(("find", "read", "pay", "tell")))))
    other = fired(decide(given(cases(("find", "pay", "wipe")))))
    assert not {"new_tool", "divergence"} & same
    assert {"new_tool", "divergence"} <= other


def test_the_noise_of_an_a_a_run_is_kept_with_the_policy_and_told_when_exceeded():
    noise = measured(suite(seeded("aa"), [0.9] * 80), suite_digest="sha256:1", agent="cmd:a")
    assert isinstance(noise, Noise) and 0 < noise.differing < noise.differing_upper < 0.5
    wild = given(suite(seeded("wild"), [0.5] * 80), noise=noise)
    assert "noise" in fired(decide(wild))
    calm = given(suite(seeded("calm"), [0.9] * 80), noise=noise)
    assert "noise" not in fired(decide(calm))


def test_safety_is_a_metric_of_its_own_and_counted_for_a_thousand_episodes():
    dice = seeded("safe")
    cases = [
        case(f"c{number}", runs(dice, 1, 1), runs(dice, 1, 1, violation=0.2), severity="minor")
        for number in range(300)
    ]
    decision = decide(given(cases))
    assert decision.status == "BLOCK" and "safety_regression" in fired(decision)
    (delta,) = (one for one in decision.measures if one.name == "safety_delta_minor")
    assert 150 < delta.value < 250 and delta.runs == 300


def test_failures_that_are_always_new_are_told():
    dice = seeded("novel")
    cases = [
        case(
            f"c{number}",
            (FAILED,),
            (replace(FAILED, signature=str(number) if dice.random() < 0.3 else "known"),),
        )
        for number in range(60)
    ]
    decision = decide(given(cases))
    assert "novel_failures" in fired(decision)
    assert finding(decision, "novel_failures").operands["n"] == 60


def test_owners_of_metrics_and_rules_are_in_their_findings_and_a_rule_may_be_made_graver():
    policy = GatePolicy(
        owner="everybody",
        protected=(Protected(metric="success", owner="quality"), Protected(metric="safety")),
    )
    asked = decide(given(suite(seeded(2), [1.0] * 10), policy))
    assert finding(asked, "success_not_cleared").operands["owner"] == "quality"
    assert finding(asked, "safety_not_cleared").operands["owner"] == "everybody"


@pytest.mark.row("R49")
def test_a_finding_shows_the_statistic_its_interval_and_the_very_number_that_was_tested():
    cases = [
        case(f"c{number}", (PASSED,), (FAILED if number < 20 else PASSED,)) for number in range(60)
    ]
    decision = decide(given(cases))
    shown = finding(decision, "success_regression")
    operands = shown.operands
    assert "bound of the rise" in operands["statistic"] and operands["n"] > 0
    low, high = operands["interval"]
    assert operands["success_rise"] == low > operands["threshold"] and high > low
    assert "20 pairs worse, 0 better of 60" in shown.detail
    compared = {">": float.__gt__, "<": float.__lt__}
    for one in decision.findings:
        tested = next(value for name, value in one.operands.items() if name != "version")
        test = compared[one.operands["operator"]]
        assert test(float(tested), float(one.operands["threshold"])), one.rule
        assert one.operands["remedy"] and one.operands["statistic"], one.rule


@pytest.mark.row("R39")
def test_runs_that_could_not_be_judged_are_bounded_both_ways_and_never_pass():
    lost = replace(PASSED, passed=None)
    cases = [case(f"c{number}", (PASSED,), (PASSED,)) for number in range(8)]
    cases += [case("lost", (PASSED,), (lost,)), case("failed", (FAILED,), (FAILED,))]
    measure = measures(given(cases))["pass_1"]
    assert measure.value == pytest.approx(8 / 9)
    assert "1 of 10 runs could not be judged: 80.0% if all of them failed, 90.0%" in measure.detail
    assert decide(given(cases)).status is None
    whole = [one for one in cases if one.case != "lost"]
    assert measures(given(whole))["pass_1"].detail == ""


def test_the_exact_test_of_pairs_is_mcnemars_and_of_several_runs_fishers():
    pairs = [(0, 1, 1, 1)] * 9 + [(1, 1, 0, 1)] * 2 + [(0, 1, 0, 1)] * 30
    assert stratified(pairs) == pytest.approx(mcnemar(9, 2))
    table = [[7, 0], [3, 4]]
    assert stratified([(0, 7, 4, 7)]) == pytest.approx(
        stats.fisher_exact(table, alternative="greater").pvalue
    )
    assert stratified([]) == 1.0
    many = [(0, 1, 1, 1)] * 3_000 + [(1, 1, 0, 1)] * 2_900
    assert stratified(many) == pytest.approx(mcnemar(3_000, 2_900), rel=1e-6)


@settings(max_examples=30)
@having(
    st.lists(st.tuples(st.lists(st.sampled_from([True, False, None]), min_size=1, max_size=3),
                       st.lists(st.sampled_from([True, False, None]), min_size=1, max_size=3)),
             max_size=12)
)  # fmt: skip
def test_whatever_the_runs_were_the_gate_answers_and_passes_only_what_is_all_there(several):
    def side(values):
        return tuple(Sample(run=at, passed=one) for at, one in enumerate(values, 1))

    cases = [case(f"c{at}", side(one), side(two)) for at, (one, two) in enumerate(several)]
    decision = decide(given(cases))
    assert decision.exit_code in (0, 1, 2)
    assert decision.status != "PASS"  # a dozen sampled cases show nothing harmless
    assert decide(given(cases)) == decision
