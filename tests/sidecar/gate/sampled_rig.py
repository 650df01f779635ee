"""Made-up sampled suites: agents that are dice, as the gate's input."""

import random

from sidecar.gate.given import GateInput
from sidecar.gate.policy import GatePolicy
from sidecar.gate.samples import CaseSamples, Sample
from sidecar.replay.compare import CaseResult

PASSED, FAILED = Sample(run=1, passed=True), Sample(run=1, passed=False)
TOOLS = ("find", "read", "pay", "tell")


def runs(dice, rate, count, *, tools=TOOLS, violation=0.0):
    return tuple(
        Sample(
            run=number,
            passed=dice.random() < rate,
            violations={"failed:noPolicyViolation": 1} if dice.random() < violation else {},
            tools=tuple(dice.choice(tools) for _ in range(4)),
            signature="",
        )
        for number in range(1, count + 1)
    )


def case(name, baseline, candidate, *, severity="major", recorded=False):
    return CaseSamples(
        case=name, severity=severity, baseline=baseline, candidate=candidate, recorded=recorded
    )


def result(one):
    before, now = one.baseline[0].passed, one.candidate[0].passed
    kind = "unchanged"
    if before is None or now is None:
        kind = "incomplete"
    elif before and not now:
        kind = "new_critical" if one.severity == "critical" else "regressed"
    elif now and not before:
        kind = "improved"
    words = {True: "passed", False: "failed", None: "incomplete"}
    return CaseResult(
        case=one.case,
        title=one.case,
        severity=one.severity,
        case_class=kind,
        baseline=words[before],
        candidate=words[now],
    )


def given(cases, policy=None, **more):
    return GateInput(
        results=tuple(result(one) for one in cases),
        deterministic=False,
        samples=tuple(cases),
        policy=policy or GatePolicy(),
        **more,
    )


def suite(dice, rates, *, drop=0.0, count=1, **more):
    """Cases that pass at ``rates`` on one side, and less often by ``drop`` on the other."""
    return [
        case(f"c{number}", runs(dice, rate, count), runs(dice, rate - drop, count), **more)
        for number, rate in enumerate(rates)
    ]


def seeded(*parts):
    return random.Random("|".join(map(str, parts)))
