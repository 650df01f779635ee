"""Python reprs become values; nothing is run, nothing raises."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from processors.model.reprs import read_repr


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("Message(role=<Role.USER: 'user'>, n=-1)", {"role": "user", "n": -1}),
        (
            "[A(x=None), B(y=('a', 2.5), z={'k': True})]",
            [{"x": None}, {"y": ["a", 2.5], "z": {"k": True}}],
        ),
        ("A(text=\"it's <Role.USER: 'no'>\")", {"text": "it's <Role.USER: 'no'>"}),
        ("A(ctx=<workflows.Context object at 0x7f>)", {"ctx": None}),
        ("A(at=datetime.datetime(2026, 1, 1))", {"at": {}}),
        ("__import__('os').system('x')", {}),
        ("A(x=", None),
        ("a cut text...", None),
        (3, None),
        ("(" * 5000, None),
        ("'" * 300_000, None),
    ],
)
def test_a_repr_is_read_or_nothing(text, value):
    assert read_repr(text) == value


@given(st.text(max_size=60))
def test_no_text_raises(text):
    read_repr(text)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(JSON)
def test_a_literals_repr_is_the_literal(value):
    assert read_repr(repr(value)) == value
