"""What is read without the engine is what the engine says of it, or nothing is said."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tier import examples

from sidecar.expression.cel import ExpressionFailed, compile_expression
from sidecar.replay.scrub import Scrubber
from sidecar.twins.names import FUNCTIONS
from sidecar.twins.plainly import ASK, read_plainly
from sidecar.twins.value import Lean
from sidecar.twins.world import key_text

VARIABLES = frozenset({"order", "arguments"})
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 5),
    st.sampled_from([2**63 - 1, 2**63, -(2**63), 2**70, 0.0, 1.0, 2.5, float("nan")]),
    st.sampled_from(["", "a", "b", "ä", "o1", "null"]),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=2), st.dictionaries(st.sampled_from("ab"), inner, max_size=2)
    ),
    max_leaves=4,
)
OPERANDS = st.sampled_from(
    [
        *("order", "order.a", "arguments.a", "arguments.b", "null", "true", "1", "3"),
        *('"a"', "''", "size(order)", "size(arguments.a)"),
    ]
)
CONDITIONS = st.builds(
    lambda left, mark, right: f"{left} {mark} {right}",
    OPERANDS,
    st.sampled_from(["==", "!=", "<", "<=", ">", ">="]),
    OPERANDS,
)
TEXTS = st.lists(CONDITIONS, min_size=1, max_size=3).map(" && ".join)
ROWS = {"o1": {"id": "o1", "n": [1, 2.5, None]}, "1": {"id": 1}, "huge": {"id": 2**70}}


def functions():
    given_out = []
    return {
        "row": lambda entity, key: ROWS.get(key_text(key)),
        "rows": lambda entity: list(ROWS.values())[:2],
        "count": lambda entity: len(ROWS),
        "next_id": lambda prefix: given_out.append(1) or f"{prefix}-{len(given_out)}",
    }


def both(text, bindings):
    """What the engine comes to, and what is read plainly."""
    expression = compile_expression(text, variables=VARIABLES, functions=FUNCTIONS)
    named = {name: bindings[name] for name in VARIABLES if name in text}
    called = {name: each for name, each in functions().items() if f"{name}(" in text}
    try:
        by_engine = expression.evaluate(named, called)
    except ExpressionFailed:
        by_engine = ExpressionFailed
    read = read_plainly(text)
    assert read is not None, text
    return by_engine, read(bindings, functions())


@settings(max_examples=examples(400), deadline=None)
@given(TEXTS, VALUES, st.dictionaries(st.sampled_from("ab"), VALUES))
def test_a_plain_condition_is_what_the_engine_says(text, order, arguments):
    by_engine, plain = both(text, {"order": order, "arguments": arguments})
    if plain is not ASK:
        assert plain is by_engine


@settings(max_examples=examples(100), deadline=None)
@given(
    st.sampled_from(
        [
            *('row("orders", order)', 'row("orders", arguments.a)', "row('orders', \"o1\")"),
            *('row("orders", 1)', 'rows("orders")', 'count("orders")', 'next_id("RF")'),
        ]
    ),
    VALUES,
    st.dictionaries(st.sampled_from("ab"), st.one_of(VALUES, st.sampled_from([*ROWS]))),
)
def test_a_plain_call_answers_what_the_engine_hands_on(text, order, arguments):
    by_engine, plain = both(text, {"order": order, "arguments": arguments})
    if plain is not ASK:
        assert (plain, type(plain)) == (by_engine, type(by_engine))


def test_a_plain_call_is_made_once_and_its_row_is_not_copied():
    made = []
    lean = Lean(compile_expression('next_id("N")', variables=VARIABLES, functions=FUNCTIONS))
    assert lean.evaluate({}, {"next_id": lambda prefix: made.append(prefix) or "N-1"}) == "N-1"
    assert made == ["N"]
    read = read_plainly('row("orders", arguments.a)')
    assert read({"arguments": {"a": "o1"}}, functions()) is ROWS["o1"]
    assert read({"arguments": {"a": "huge"}}, functions()) is ASK
    assert read({"arguments": {}}, functions()) is ASK


@pytest.mark.parametrize(
    "text",
    [
        *("order.a + 1 > 2", "a || b", "!order.a", "order['a'] == 1", "order.a"),
        *('"a\\n" == order', "rows(order)", 'count("x", {"a": 1})', "size(order, 1) == 1"),
        *("1.5 < order", "order.f() == 1", "", "==", "row('x'", "order == 1 &&"),
        *("9999999999999999999 == order", "order in [1]"),
    ],
)
def test_what_takes_an_engine_is_left_to_it(text):
    assert read_plainly(text) is None


def test_a_false_part_makes_all_of_it_false_whatever_the_others_come_to():
    read = read_plainly("order.missing == 1 && arguments.a == 2")
    assert read({"order": {}, "arguments": {"a": 1}}, {}) is False
    assert read({"order": {}, "arguments": {"a": 2}}, {}) is ASK


@given(
    VALUES, st.lists(st.sampled_from(["call-0000001", "o1", "2026-01-05T09:00:00Z"]), max_size=3)
)
def test_an_id_has_one_number_wherever_and_however_often_it_stands(value, ids):
    value = {"b": [*ids, *ids, value], "a": f"{'|'.join(ids)} call-0000001"}
    scrub = Scrubber(["call-0000001"])
    once = scrub(value)
    assert once == Scrubber(["call-0000001"])(value)
    assert scrub(value) == once
    assert list(once) == ["a", "b"]
    seen = [one for one in once["b"][: 2 * len(ids)] if one.startswith("#")]
    assert set(seen) <= {"#1"} and "2026" not in str(once["b"][: 2 * len(ids)])
