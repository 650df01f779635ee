"""The published schema of answers takes what the gateway reads, and nothing else."""

import json
from pathlib import Path

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.gateway.policy.result import read_answer

SCHEMAS = Path(__file__).parents[4] / "policies/schema"
RESULT = jsonschema_rs.validator_for(json.loads((SCHEMAS / "result.json").read_text()))

POSITIVE = st.sampled_from([1, 5, 600, 0, -1, 2**53 - 1, 2**53, 1.5, "1", None, True])
AMOUNT = st.sampled_from(["12.50", "0", 5, 0, "00", "1e3", ".5", "-1", -1, 1.5, "", None, "9" * 31])
WINDOW = st.sampled_from([1, 3600, 366 * 86_400, 366 * 86_400 + 1, 0, "60"])
SUBJECT = st.sampled_from(["project", "agent", "tool", "session", "agent_tool", "team", 1])
REASON = st.fixed_dictionaries(
    {"code": st.sampled_from(["because", "a.b_1", "A", "", "x" * 81, 1])},
    optional={"message": st.sampled_from(["m", 1]), "rule": st.just("r"), "odd": st.just(1)},
)
RATE = st.fixed_dictionaries(
    {"n": POSITIVE, "window_s": WINDOW}, optional={"key": SUBJECT, "scope": st.just("agent")}
)
SPEND = st.fixed_dictionaries({"limit": AMOUNT, "window_s": WINDOW}, optional={"scope": SUBJECT})
CONSTRAINT = st.fixed_dictionaries(
    {},
    optional={
        "name": st.sampled_from(["a", "", 1]),
        "one_of": st.sampled_from([["x"], [1, None], [], "x", [1] * 101]),
        "min": AMOUNT,
        "max": AMOUNT,
        "equals": st.just(1),
    },
)
LIMITS = st.fixed_dictionaries(
    {},
    optional={
        "max_amount": AMOUNT,
        "currency": st.sampled_from(["EUR", "eur", "EURO", 1]),
        "spend": st.lists(SPEND, max_size=2) | st.just([{"limit": "1", "window_s": 1}] * 21),
        "rate": st.lists(RATE, max_size=2) | st.just({}),
        "arguments": st.lists(CONSTRAINT, max_size=2),
        "count": POSITIVE,
        "allowed_hosts": st.lists(st.sampled_from(["a.example", 1]), max_size=2),
        "timeout_ms": POSITIVE,
        "max_response_bytes": POSITIVE,
    },
)
APPROVAL = st.fixed_dictionaries(
    {},
    optional={
        "min": st.sampled_from([1, 2, 20, 21, 0, "1"]),
        "roles": st.lists(st.sampled_from(["finance", "a b", "", 1]), max_size=2),
        "ttl_s": st.sampled_from([1, 600, 30 * 86_400, 30 * 86_400 + 1]),
        "execute_s": st.sampled_from([1, 0, True]),
        "step_up": st.deferred(lambda: STEP_UP),
        "on_timeout": st.just("allow"),
    },
)
WORDS = st.lists(st.sampled_from(["gold", "urn:x", "a b", "", 1, 'a"']), max_size=2)
STEP_UP = (
    st.just({"max_age_s": 60})
    | st.just({"acr": ["gold"]})
    | st.fixed_dictionaries(
        {},
        optional={
            "acr": WORDS | st.just(["a"] * 17),
            "amr": WORDS | st.just("pwd"),
            "max_age_s": st.sampled_from([1, 300, 86_400, 86_401, 0, True, "5"]),
            "loa": st.just(1),
        },
    )
)
PROPERTIES = STEP_UP | st.sampled_from(
    [
        *({}, {"a": 1}, [], {"paths": ["/a"]}, {"paths": []}, {"paths": ["a"]}, {"paths": "/a"}),
        *({"paths": ["/a"], "b": 1}, {"paths": ["/a"] * 65}, {"reason": "x"}, {"reason": 1}),
        *({"webhook": "a"}, {"webhook": ""}, {"fields": {"a": "b"}}, {"fields": {}}, {"fields": 1}),
        *({"fields": {"a": 1}}, {"fields": {"a": ""}}, {"fields": {"": "b"}}, {"seconds": 1}),
        *({"seconds": 0}, {"seconds": 1.5}, {"seconds": 2_592_001}, {"time_ns": 2**63 - 1}),
        *({"time_ns": 2**63}, {"acr": ["mfa"]}, {"acr": []}, {"acr": [""]}, {"max_age_s": 60}),
        *({"acr": ["mfa"], "max_age_s": 0}, {"acr": "mfa"}, {"max_age_s": True}),
    ]
)
OBLIGATION = st.fixed_dictionaries(
    {
        "type": st.sampled_from(
            [
                *("require_receipt", "mask_response", "quarantine_agent", "step_up", "", 1),
                *("notify", "log_extra", "cool_off", "delay_until", "dance"),
            ]
        )
    },
    optional={"id": st.sampled_from(["1", 1]), "properties": PROPERTIES},
)
ANSWER = st.fixed_dictionaries(
    {},
    optional={
        "effect": st.sampled_from(
            ["deny", "require_approval", "allow_with_limits", "allow", "ALLOW", None]
        ),
        "reasons": st.lists(REASON, max_size=2) | st.just([{"code": "because"}]) | st.just("x"),
        "limits": LIMITS,
        "approval": APPROVAL,
        "obligations": st.lists(OBLIGATION, max_size=1) | st.just({}),
        "advice": st.just(1),
        "rewrite": st.just({}),
    },
)
OBLIGED = {"effect": "deny"}
GOOD = {"effect": "allow_with_limits", "reasons": [{"code": "because"}]}


@pytest.mark.requirement("GW-02")
@given(
    ANSWER
    | OBLIGATION.map(lambda one: {**OBLIGED, "obligations": [one]})
    | CONSTRAINT.map(lambda one: {**GOOD, "limits": {"arguments": [one]}})
    | LIMITS.map(lambda limits: {**GOOD, "limits": limits})
)
def test_an_answer_is_read_where_the_schema_takes_it_and_denies_where_it_does_not(raw):
    answer = read_answer(raw)
    assert RESULT.is_valid(raw) == (answer.error is None), (raw, answer.error)


@pytest.mark.parametrize(
    "raw",
    [
        {"effect": "deny"},
        {"effect": "require_approval", "approval": {"min": 2, "roles": ["finance"], "ttl_s": 60}},
        {**GOOD, "limits": {"rate": [{"n": 5, "window_s": 60, "key": "agent_tool"}], "count": 3}},
        {
            **GOOD,
            "limits": {"currency": "EUR", "spend": [{"limit": "500.00", "window_s": 86_400}]},
        },
    ],
)
def test_what_policies_ordinarily_answer_is_taken(raw):
    assert RESULT.is_valid(raw) and read_answer(raw).error is None
