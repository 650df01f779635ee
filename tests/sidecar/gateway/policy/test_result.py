"""A policy's answer: what is contract is read, and all the rest denies."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from processors.model.call import Action
from sidecar.gateway.policy.limits import exceeded
from sidecar.gateway.policy.result import read_answer

REASON = {"code": "reads_are_allowed", "message": "a read", "rule": "tool_calls.reads"}
ALLOW = {"effect": "allow", "reasons": [REASON]}


@pytest.mark.requirement("GW-02")
@pytest.mark.parametrize(
    ("raw", "effect"),
    [
        (ALLOW, "allow"),
        ({"effect": "deny"}, "deny"),
        ({"effect": "deny", "reasons": [REASON], "advice": {"x": 1}}, "deny"),
        ({"effect": "require_approval", "approval": {"min": 2, "ttl_s": 60}}, "require_approval"),
        (
            {
                "effect": "require_approval",
                "approval": {"execute_s": 5, "step_up": {"acr": ["gold"], "max_age_s": 60}},
                "obligations": [{"type": "step_up", "properties": {"amr": ["hwk"]}}],
            },
            "require_approval",
        ),
        (
            {
                "effect": "allow_with_limits",
                "reasons": [REASON],
                "limits": {"max_amount": "12.50", "currency": "EUR", "timeout_ms": 100},
            },
            "allow_with_limits",
        ),
        ({**ALLOW, "obligations": [{"id": "1", "type": "require_receipt"}]}, "allow"),
    ],
)
def test_the_contract_is_read(raw, effect):
    answer = read_answer(raw)
    assert (answer.effect, answer.error) == (effect, None)
    assert answer.decision("d").effect == effect


@pytest.mark.requirement("GW-04")
@pytest.mark.parametrize(
    "raw",
    [
        *(None, "<undefined>", True, 1, [], [ALLOW], {}, {"decision": "allow"}),
        *({"effect": "ALLOW", "reasons": [REASON]}, {"effect": ["allow"]}, {"effect": True}),
        *({"effect": "allow"}, {"effect": "allow", "reasons": []}, {**ALLOW, "reasons": REASON}),
        *({**ALLOW, "reasons": [{}]}, {**ALLOW, "reasons": [{"code": "No Code"}]}),
        *({**ALLOW, "rewrite": {}}, {**ALLOW, "obligation": []}, {**ALLOW, "ttl_s": 1}),
        {**ALLOW, "obligations": [{"id": "1", "type": "step_up"}]},
        {"effect": "require_approval", "approval": {"step_up": {}}},
        {"effect": "require_approval", "approval": {"step_up": {"acr": []}}},
        *({**ALLOW, "limits": {"timeout_ms": 1}}, {**ALLOW, "effect": "allow_with_limits"}),
        {**ALLOW, "effect": "allow_with_limits", "limits": {"rate": []}},
        {**ALLOW, "effect": "allow_with_limits", "limits": {"timeout_ms": float("nan")}},
        {**ALLOW, "effect": "allow_with_limits", "limits": {"timeout_ms": True}},
        {**ALLOW, "effect": "allow_with_limits", "limits": {"max_amount": "1"}},
        {
            **ALLOW,
            "effect": "allow_with_limits",
            "limits": {"max_amount": "NaN", "currency": "EUR"},
        },
        {**ALLOW, "effect": "allow_with_limits", "limits": {"max_amount": 1.5, "currency": "EUR"}},
        {**ALLOW, "approval": {"min": 1}},
        {"effect": "require_approval", "approval": {"min": 0}},
        {"effect": "require_approval", "approval": {"on_timeout": "allow"}},
        {"effect": "require_approval", "approval": {"roles": [1]}},
    ],
)
def test_whatever_else_comes_denies_with_policy_error(raw):
    answer = read_answer(raw)
    assert answer.effect == "deny"
    assert answer.reasons[0].code == "policy_error"
    assert answer.error


ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from(["allow", "deny", "x"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["effect", "reasons", "limits", "code", "approval", "obligations", "x"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(ANYTHING)
def test_any_answer_without_a_coded_reason_never_allows(raw):
    answer = read_answer(raw)
    if answer.effect in ("allow", "allow_with_limits"):
        assert isinstance(raw, dict) and raw["reasons"] and answer.error is None


ACTION = Action(
    tenant="t", agent="a", tool="pay", upstream="u", class_="irreversible", method="POST", path="/",
    cost_amount="100.00", cost_currency="EUR",
)  # fmt: skip


@pytest.mark.parametrize(
    ("limits", "change", "code"),
    [
        ({"max_amount": "100", "currency": "EUR"}, {}, None),
        ({"max_amount": "99.99", "currency": "EUR"}, {}, "limit_amount"),
        ({"max_amount": "1000", "currency": "USD"}, {}, "limit_currency"),
        ({"max_amount": "1000", "currency": "EUR"}, {"cost_amount": None}, "limit_currency"),
        ({"timeout_ms": 5}, {}, None),
    ],
)
def test_an_amount_is_held_to_its_limit_as_a_decimal(limits, change, code):
    reason = exceeded(limits, msgspec.structs.replace(ACTION, **change))
    assert (reason.code if reason else None) == code


@pytest.mark.requirement("GW-02")
@pytest.mark.parametrize(
    ("constraint", "arguments", "is_beyond"),
    [
        ({"name": "to", "one_of": ["a", 1, None]}, {"to": "a"}, False),
        ({"name": "to", "one_of": ["a", 1, None]}, {"to": None}, False),
        ({"name": "to", "one_of": ["a", 1, None]}, {"to": 1.0}, False),
        ({"name": "to", "one_of": ["a", 1, None]}, {"to": True}, True),
        ({"name": "to", "one_of": ["a", 1, None]}, {"to": "1"}, True),
        ({"name": "to", "one_of": ["a", 1, None]}, {"to": ["a"]}, True),
        ({"name": "to", "one_of": ["a", 1, None]}, {}, True),
        ({"name": "n", "max": "5.5"}, {"n": "5.50"}, False),
        ({"name": "n", "max": "5.5"}, {"n": 5.5}, False),
        ({"name": "n", "max": "5.5"}, {"n": "5.500000000000000000001"}, True),
        ({"name": "n", "max": "5.5"}, {"n": 6}, True),
        ({"name": "n", "max": 5}, {"n": -1}, False),
        ({"name": "n", "max": 5}, {"n": "-1"}, True),
        ({"name": "n", "max": 5}, {"n": True}, True),
        ({"name": "n", "max": 5}, {"n": None}, True),
        ({"name": "n", "min": 5, "max": 9}, {"n": 4}, True),
        ({"name": "n", "min": 5, "max": 9}, {"n": 9}, False),
    ],
)
def test_an_argument_is_held_to_its_limit_and_must_be_there(constraint, arguments, is_beyond):
    raw = {**ALLOW, "effect": "allow_with_limits", "limits": {"arguments": [constraint]}}
    answer = read_answer(raw)
    assert answer.error is None
    reason = exceeded(answer.limits, msgspec.structs.replace(ACTION, arguments=arguments))
    assert (reason.code if reason else None) == ("limit_argument" if is_beyond else None)
