"""CEL: what is refused at load, what an evaluation yields, and that nothing hostile runs away."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.expression.cel import ExpressionFailed, ExpressionInvalid, compile_expression

ARGUMENTS = frozenset({"arguments"})


def value(text, functions=None, **bindings):
    names = frozenset(functions or {})
    return compile_expression(text, variables=frozenset(bindings), functions=names).evaluate(
        bindings, functions
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("arguments.amount", 12.5),
        ("arguments.amount == 12.50", True),
        ("arguments.count == 3.0", True),
        ("arguments.items.filter(x, x.n > 1).size()", 2),
        ("arguments.items.exists(x, arguments.items.exists(y, x.n == y.n))", True),
        ("has(arguments.absent)", False),
        ("type(arguments.count) == int", True),
        ("'issue' in ['issue', r'a\\b'] // x.y", True),
        ('"""a"b""".size() + 1', 4),
        ("{'k': arguments.count}.k", 3),
        ("arguments.count > 2 ? 'many' : 'few'", "many"),
    ],
)
def test_an_expression_yields_its_value(text, expected):
    arguments = {"amount": 12.5, "count": 3, "items": [{"n": 1}, {"n": 2}, {"n": 3}]}
    assert value(text, arguments=arguments) == expected


def test_callers_functions_are_called_and_unknown_ones_refused():
    assert value("find('a') + 1", {"find": lambda key: {"a": 1}[key]}) == 2
    with pytest.raises(ExpressionInvalid, match="no function 'find'"):
        compile_expression("find('a')", variables=frozenset())


@pytest.mark.parametrize(
    ("text", "line", "column", "why"),
    [
        ("1 +", 1, 4, "EOF"),
        ("arguments.a ==\n  other.b", 2, 3, "no variable 'other'"),
        ("[1].exists(x, x > 0) && x", 1, 25, "no variable 'x'"),
        ("arguments.a.frob()", 1, 13, "no function 'frob'"),
        (".other", 1, 2, "no variable 'other'"),
        ("(" * 40 + "1" + ")" * 40, 1, 33, "nests deeper"),
        ("!" * 40 + "true", 1, 17, "in a row"),
        ("1 + " * 2000 + "1", 1, 1, "characters long"),
    ],
)
def test_what_is_wrong_is_refused_at_load_with_its_position(text, line, column, why):
    with pytest.raises(ExpressionInvalid, match=why) as caught:
        compile_expression(text, variables=ARGUMENTS)
    assert (caught.value.line, caught.value.column) == (line, column)


def test_macros_are_bounded_in_depth_and_number():
    deep = "arguments.a"
    for name in "wxyz":
        deep = f"arguments.a.exists({name}, {deep} == 1)"
    with pytest.raises(ExpressionInvalid, match="macros deeper"):
        compile_expression(deep, variables=ARGUMENTS)
    with pytest.raises(ExpressionInvalid, match="more than 8 macros"):
        compile_expression(" && ".join(["[1].all(x, x == 1)"] * 9), variables=ARGUMENTS)


def test_a_nested_macro_over_a_large_list_is_refused_rather_than_run():
    expression = compile_expression(
        "arguments.a.exists(x, arguments.a.exists(y, x == -y))", variables=ARGUMENTS
    )
    with pytest.raises(ExpressionFailed, match="visit more than"):
        expression.evaluate({"arguments": {"a": list(range(1, 10_000))}})
    assert expression.evaluate({"arguments": {"a": list(range(1, 100))}}) is False


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("arguments.absent", "no member 'absent'"),
        ("arguments.amount + 1", "Unsupported operation"),
        ("1 / 0", "division by zero"),
        ("9223372036854775807 + 1", "overflow"),
        ("arguments.none.member", "No such overload"),
        ("arguments.list[7]", "out of bounds"),
    ],
)
def test_an_evaluation_without_a_value_says_why(text, why):
    expression = compile_expression(text, variables=ARGUMENTS)
    with pytest.raises(ExpressionFailed, match=why):
        expression.evaluate({"arguments": {"amount": 1.5, "none": None, "list": [1]}})


def test_a_condition_must_be_true_or_false():
    expression = compile_expression("arguments.amount", variables=ARGUMENTS)
    with pytest.raises(ExpressionFailed, match="true or false"):
        expression.holds({"arguments": {"amount": 1}})


def test_a_failing_function_is_a_failed_expression():
    with pytest.raises(ExpressionFailed):
        value("f(1)", {"f": lambda number: number / 0})


@given(st.text(alphabet="ax.()[]{}!-+?:,'\"\\ 1&|=<>\nmapexists", max_size=60))
def test_any_text_is_compiled_or_refused_and_then_yields_or_fails(text):
    try:
        expression = compile_expression(text, variables=frozenset({"a", "x"}))
    except ExpressionInvalid:
        return
    try:
        expression.evaluate({"a": [1, 2], "x": {"a": 1}})
    except ExpressionFailed:
        pass
