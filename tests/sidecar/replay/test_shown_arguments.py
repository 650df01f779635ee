"""The scripted approver reads back what the gateway shows."""

from hypothesis import given
from hypothesis import strategies as st

from processors.model.call import Action
from sidecar.gateway.shown import summary
from sidecar.replay.shown import shown_arguments

TEXT = st.text("ab/~ =\"'.\\", max_size=8)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)


def shown(arguments):
    return shown_arguments(
        summary(
            Action(
                tenant="p",
                agent="a",
                tool="t",
                class_="irreversible",
                upstream="u",
                method="POST",
                path="/x",
                headers=(("x-note", "/amount = 1"),),
                arguments=arguments,
            )
        )
    )


@given(arguments=st.dictionaries(TEXT, VALUES, max_size=4))
def test_arguments_come_back_as_they_were(arguments):
    assert shown(arguments) == arguments


def test_what_is_not_shown_whole_is_not_there():
    assert shown({"long": "x" * 300, "hidden": "a\u200bb", "amount": 49}) == {"amount": 49}
    assert shown_arguments("tool: t\nbody = 1\nbody/0 = 2\n/a = \n/b\n") == {}
