"""Two reports of one model call find each other by time: the plain search says which, fast."""

import time

from hypothesis import given, settings
from hypothesis import strategies as st
from tier import examples

from processors.assemble.gather import Node
from processors.assemble.twice import models_agree, same_calls
from processors.model.fragment import Fragment, Reading
from processors.model.step import Model, Usage


def node(number, start, length, scope, tokens=(7, 3), model="gpt", status="unset"):
    reading = Reading(
        dialect="gen_ai",
        kind="model_call",
        model=Model(request_model=model) if model is not None else None,
        usage=Usage(input=tokens[0], output=tokens[1]) if tokens else None,
        status=status,
    )
    fragment = Fragment(
        trace_id="a" * 32,
        span_id=f"{number:016x}",
        source="span",
        scope=scope,
        start_ns=start,
        end_ns=start + length,
        reading=reading,
    )
    return Node(key=f"{number:016x}", fragment=fragment, sources=())


def searched(calls):
    """The pairs by the rule as it is written: the last call around a call that is like it."""
    taken, pairs = set(), []
    for number, inner in enumerate(calls):
        for outer in reversed(calls[:number]):
            if outer.key not in taken and alike(outer, inner):
                taken |= {outer.key, inner.key}
                pairs.append((outer.key, inner.key))
                break
    return pairs


def alike(outer, inner):
    left, right = outer.reading, inner.reading
    if outer.fragment.scope == inner.fragment.scope or inner.end_ns > outer.end_ns:
        return False
    if not models_agree(left.model, right.model):
        return False
    if left.status == right.status == "error":
        return left.model is not None and right.model is not None
    known = left.usage and right.usage and None not in (left.usage.input, left.usage.output)
    return bool(known) and (left.usage == right.usage)


calls = st.lists(
    st.tuples(
        st.integers(1, 12),
        st.integers(0, 9),
        st.sampled_from("ab"),
        st.sampled_from([None, (1, 1), (2, 1), (1, None)]),
        st.sampled_from([None, "", "gpt", "gpt-4", "o3"]),
        st.sampled_from(["unset", "error"]),
    ),
    max_size=14,
)


@settings(max_examples=examples(400))
@given(calls)
def test_pairs_are_those_of_the_plain_search(drawn):
    nodes = [node(number, *one) for number, one in enumerate(sorted(drawn, key=lambda c: c[0]))]
    assert [(left.key, right.key) for left, right in same_calls(nodes)] == searched(nodes)


def test_thousands_of_calls_at_once_cost_little_each():
    """Each is around all before it, alike in all but time: a search through all would be 10^8."""
    size = 10_000
    outer = [node(n, n + 1, 10 * size, "a") for n in range(size)]
    inner = [node(size + n, size + n + 1, 20 * size, "b") for n in range(size)]
    started = time.process_time()
    assert same_calls([*outer, *inner]) == []
    assert time.process_time() - started < 5
