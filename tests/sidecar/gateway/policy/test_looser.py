"""Answers of one effect: which of them asks less."""

import pytest

from processors.model.call import ApprovalTerms, Obligation, Reason
from processors.model.principal import StepUp
from sidecar.gateway.policy.live.change import kind_of
from sidecar.gateway.policy.live.looser import looser
from sidecar.gateway.policy.result import PolicyAnswer


def limited(**limits):
    return PolicyAnswer(effect="allow_with_limits", reasons=(Reason(code="x"),), limits=limits)


def asking(**terms):
    return PolicyAnswer(effect="require_approval", approval=ApprovalTerms(**terms))


def obliged(*each):
    return PolicyAnswer(effect="allow", obligations=each)


MASK = Obligation(id="a", type="mask_response", properties={"paths": ["/iban"]})
SPEND = {"limit": "500", "window_s": 86400}
RATE = {"n": 5, "window_s": 60}
PAIRS = [
    (limited(max_amount="50", currency="EUR"), limited(max_amount="50.01", currency="EUR")),
    (limited(max_amount="50", currency="EUR"), limited(max_amount="50", currency="JPY")),
    (limited(max_amount="50", currency="EUR"), limited(timeout_ms=1)),
    (limited(count=9), limited(count=10)),
    (limited(timeout_ms=9, count=1), limited(count=1)),
    (limited(allowed_hosts=["a"]), limited(allowed_hosts=["a", "b"])),
    (
        limited(spend=[SPEND], currency="EUR"),
        limited(spend=[SPEND | {"limit": "501"}], currency="EUR"),
    ),
    (
        limited(spend=[SPEND], currency="EUR"),
        limited(spend=[SPEND | {"scope": "tool"}], currency="EUR"),
    ),
    (limited(rate=[RATE]), limited(rate=[RATE | {"window_s": 1}])),
    (limited(rate=[RATE, RATE | {"key": "tool"}]), limited(rate=[RATE])),
    (
        limited(arguments=[{"name": "n", "one_of": [1]}]),
        limited(arguments=[{"name": "n", "one_of": [1, 2]}]),
    ),
    (
        limited(arguments=[{"name": "n", "one_of": [1]}]),
        limited(arguments=[{"name": "n", "one_of": [True]}]),
    ),
    (limited(arguments=[{"name": "n", "max": 5}]), limited(arguments=[{"name": "n", "max": 6}])),
    (
        limited(arguments=[{"name": "n", "min": "5"}]),
        limited(arguments=[{"name": "n", "min": "4"}]),
    ),
    (limited(arguments=[{"name": "n", "min": 5}]), limited(arguments=[{"name": "m", "min": 5}])),
    (asking(roles=("finance",)), asking()),
    (asking(roles=("finance",)), asking(roles=("finance", "owner"))),
    (asking(ttl_s=60), asking(ttl_s=61)),
    (asking(execute_s=60), asking()),
    (asking(step_up=StepUp(acr=("gold",))), asking()),
    (asking(step_up=StepUp(acr=("gold",))), asking(step_up=StepUp(acr=("gold", "tin")))),
    (asking(step_up=StepUp(amr=("hwk", "pin"))), asking(step_up=StepUp(amr=("pin",)))),
    (asking(step_up=StepUp(max_age_s=60)), asking(step_up=StepUp(max_age_s=600))),
    (obliged(MASK), obliged()),
    (obliged(MASK), obliged(Obligation(id="a", type="mask_response", properties={"paths": []}))),
]


@pytest.mark.requirement("GW-02")
@pytest.mark.parametrize(("strict", "loose"), PAIRS)
def test_what_asks_less_under_the_same_effect_is_looser(strict, loose):
    assert looser(strict, loose)
    assert kind_of(strict, loose) == "loosened"
    assert not looser(strict, strict) and not looser(loose, loose)
    assert kind_of(strict, strict) == "same"


def test_what_asks_more_is_no_looser():
    assert not looser(limited(count=2), limited(count=1, rate=[RATE]))
    assert not looser(asking(), asking(roles=("a",), ttl_s=5, step_up=StepUp(amr=("pin",))))
    assert not looser(asking(roles=("a", "b")), asking(roles=("b",)))
    assert not looser(obliged(), obliged(MASK))
    assert not looser(
        limited(max_amount=50, currency="EUR"), limited(max_amount="49.9", currency="EUR")
    )
    assert kind_of(limited(count=2), limited(count=1)) == "changed"
