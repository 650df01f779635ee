"""The behaviour digest: equal over every permitted interleaving, and over nothing else."""

import json

import pytest
from hypothesis import given, settings
from msgspec.structs import replace
from tape_rig import codecs, examined, interleaved, lines

from sidecar.tape.compose import Fact

END = Fact(kind="terminal", status="ok")


def seal_of(facts_, **more):
    found = examined(lines(facts_, **more))
    assert found.holds, found.faults
    return found.seal


@pytest.mark.requirement("TAP-01")
@settings(max_examples=30)
@given(interleaved())
def test_the_behaviour_digest_does_not_depend_on_a_permitted_interleaving(pair):
    run, turned = pair
    assert seal_of(run).behavior_digest == seal_of(turned).behavior_digest


def call(name, value=1, *, agent="a", cause=(), kind="tool_call"):
    side = "output" if kind == "tool_result" else "input"
    return Fact(kind=kind, seam="tool", agent=agent, name=name, cause=cause, **{side: value})


PARALLEL = [
    Fact(kind="llm_call", seam="provider", agent="a", name="m", input="q"),
    call("x", cause=(0,)),
    call("y", cause=(0,)),
    call("x", kind="tool_result", cause=(1,)),
    call("y", kind="tool_result", cause=(2,)),
    Fact(kind="llm_call", seam="provider", agent="a", name="m", input="q2"),
    END,
]


def test_parallel_calls_may_be_written_in_any_order_and_sequential_ones_may_not():
    turned = [
        PARALLEL[0],
        PARALLEL[2],
        PARALLEL[1],
        call("x", kind="tool_result", cause=(2,)),
        call("y", kind="tool_result", cause=(1,)),
        *PARALLEL[5:],
    ]
    one, other = seal_of(PARALLEL), seal_of(turned)
    assert one.behavior_digest == other.behavior_digest
    assert one.exact_digest != other.exact_digest
    first, second = call("x"), call("y")
    assert (
        seal_of([first, second, END]).behavior_digest
        != seal_of([second, first, END]).behavior_digest
    )


@pytest.mark.parametrize(
    "change",
    [
        {"name": "z"},
        {"input": 2},
        {"status": "error"},
        {"agent": "b"},
        {"cause": ()},
        {"kind": "state_patch"},
    ],
)
def test_another_behaviour_has_another_digest(change):
    changed = [*PARALLEL]
    changed[2] = replace(changed[2], **change)
    assert seal_of(changed).behavior_digest != seal_of(PARALLEL).behavior_digest


@pytest.mark.parametrize("change", [{"start_ns": 5}, {"usage": {"input": 3}}, {"output": 7}])
def test_times_usage_and_results_are_no_behaviour(change):
    changed = [*PARALLEL]
    changed[3] = replace(changed[3], **change)
    assert seal_of(changed).behavior_digest == seal_of(PARALLEL).behavior_digest


IDS = codecs(output={"ids": ("/id", "/rows/*/id")})


def with_ids(one, two, *, used=None, turned=False):
    """Two tickets are opened at the same time, the first is closed, in text and as a value."""
    opened = [
        call("open", {"who": 1}, cause=(0,)),
        call("open", {"who": 2}, cause=(0,)),
    ]
    results = [("1", one, 1), ("2", two, 2)]
    if turned:
        opened.reverse()
        results = [("2", two, 1), ("1", one, 2)]
    return [
        PARALLEL[0],
        *opened,
        *(
            call(f"open{who}", {"id": made}, kind="tool_result", cause=(n,))
            for who, made, n in results
        ),
        call("close", {"ticket": used or one, "why": f"see ({one})."}),
        END,
    ]


@pytest.mark.requirement("TAP-01")
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.row("R22")
def test_identifiers_are_called_by_where_they_were_minted(turned):
    base = seal_of(with_ids("T-17", "T-18"), codecs=IDS)
    other = seal_of(with_ids("T-901", "T-44", turned=turned), codecs=IDS)
    assert base.behavior_digest == other.behavior_digest
    assert base.exact_digest != other.exact_digest
    swapped = seal_of(with_ids("T-17", "T-18", used="T-18"), codecs=IDS)
    assert swapped.behavior_digest != base.behavior_digest
    unknown = seal_of(with_ids("T-17", "T-18", used="T-99"), codecs=IDS)
    assert unknown.behavior_digest != base.behavior_digest


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        "see {}.",
        "/tickets/{}?x=1",
        '{{"id":"{}"}}',
        "a_{}_b",
        "{} {}",
        "--{}--",
        ["x", {"k": "{}"}],
    ],
)
def test_an_identifier_is_known_wherever_it_stands_as_a_word(text):
    def run(made):
        used = json.loads(
            json.dumps(text).replace("{}", made).replace("{{", "{").replace("}}", "}")
        )
        minted = call("open", {"id": made}, kind="tool_result", cause=(0,))
        return [call("open"), minted, call("close", used), END]

    one = seal_of(run("T-17.a/b:c"), codecs=IDS)
    other = seal_of(run("0193-ab_cd"), codecs=IDS)
    assert one.behavior_digest == other.behavior_digest
    assert one.behavior_digest != seal_of(run("0193-ab_cd")).behavior_digest


def test_an_identifier_inside_a_longer_word_is_none():
    def run(made, text):
        minted = call("open", {"id": made}, kind="tool_result", cause=(0,))
        return [call("open"), minted, call("close", text), END]

    one = seal_of(run("12345", "x12345y"), codecs=IDS)
    other = seal_of(run("54321", "x54321y"), codecs=IDS)
    assert one.behavior_digest != other.behavior_digest


def test_an_identifier_of_a_branch_that_does_not_come_before_is_not_used():
    def run(first, second):
        return [
            PARALLEL[0],
            call("x", {"id": first}, kind="tool_result", cause=(0,)),
            call("y", {"id": second}, kind="tool_result", cause=(0,)),
            call("use", second, cause=(2,)),
            END,
        ]

    same = seal_of(run("T-1", "T-1"), codecs=IDS)
    apart = seal_of(run("T-1", "T-2"), codecs=IDS)
    assert same.behavior_digest == apart.behavior_digest
