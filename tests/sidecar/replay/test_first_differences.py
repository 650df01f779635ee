"""Where two traces part: the longest common prefix per agent, without ids and times."""

from hypothesis import given
from hypothesis import strategies as st

from processors.model.evidence import Evidence
from processors.model.step import Agent, Message, Model, Part, Step, Tool
from processors.model.trace import AgentTrace
from sidecar.replay.acts import Told, acts, first_difference, pointer
from sidecar.replay.scrub import Scrubber

UUID = "01a22aa5-3a69-7d0a-843b-f76eb27f7ee8"
OTHER = "01a22aa5-3a70-7b31-84ed-b010f3ebb771"


def call(name, tool, *, arguments=None, result=None, status="ok", agent="a"):
    return Step(
        step_id=name,
        kind="tool_call",
        status=status,
        agent=Agent(name=agent),
        tool=Tool(name=tool, arguments=arguments, result=result),
    )


def model(name, *decided, agent="a", shown="x"):
    parts = tuple(Part(type="tool_call", name=tool, content=args) for tool, args in decided)
    return Step(
        step_id=name,
        kind="model_call",
        agent=Agent(name=agent),
        model=Model(request_model="m"),
        messages_in=(Message(role="user", parts=(Part(type="text", content=shown),)),),
        messages_out=(Message(role="assistant", parts=parts),),
    )


def told(*steps, answer="ok", evidence=()):
    trace = AgentTrace(trace_id="t", steps=steps, evidence=evidence)
    return Told(acts=acts(trace), answer=answer, scrub=Scrubber())


def test_equal_behaviour_has_no_difference_whatever_the_ids_times_and_prompts():
    left = told(
        Step(step_id="0", kind="agent"),
        model("1", ("refund", {"k": UUID}), shown="version 1"),
        call(
            "2", "refund", arguments={"k": UUID}, result={"at": "2026-01-01T00:00:00Z", "id": UUID}
        ),
        answer=f"done {UUID}",
    )
    right = told(
        model("9", ("refund", {"k": OTHER}), shown="version 2"),
        call(
            "8",
            "refund",
            arguments={"k": OTHER},
            result={"at": "2027-02-02T10:00:00Z", "id": OTHER},
        ),
        answer=f"done {OTHER}",
    )
    assert first_difference(left, right) is None


def test_ids_that_were_equal_must_stay_equal():
    left = told(
        call("1", "pay", arguments={"key": UUID}), call("2", "pay", arguments={"key": UUID})
    )
    right = told(
        call("1", "pay", arguments={"key": UUID}), call("2", "pay", arguments={"key": OTHER})
    )
    found = first_difference(left, right)
    assert (found.kind, found.index, found.pointer) == ("input_changed", 2, "/key")


def test_what_was_done_comes_before_with_what_and_what_came_of_it():
    read = call("1", "read", arguments={"id": 1})
    cases = [
        ((read, call("2", "pay")), (read, call("2", "mail")), "replaced", 2),
        ((read,), (call("1", "read", arguments={"id": 2}),), "input_changed", 1),
        (
            (call("1", "read", result={"rows": [1, 2]}),),
            (call("1", "read", result={"rows": [1, 3]}),),
            "output_changed",
            1,
        ),
        ((read,), (call("1", "read", arguments={"id": 1}, status="error"),), "status_changed", 1),
        ((read,), (read, call("2", "pay")), "insert", 2),
        ((read, call("2", "pay")), (read,), "delete", 2),
    ]
    for left, right, kind, index in cases:
        found = first_difference(told(*left), told(*right))
        assert (found.kind, found.index) == (kind, index)
        assert "step" in found.text()


def test_model_calls_part_where_they_decide_differently():
    found = first_difference(
        told(model("1", ("policy", {}))), told(model("1", ("refund", {"amount": 5})))
    )
    assert found.decided
    assert found.text() == (
        "step 1 of a: the candidate's model asks for refund(amount=5);"
        " the baseline's asks for policy()"
    )


def test_agents_are_compared_each_for_itself():
    left = told(call("1", "x", agent="a"), call("2", "y", agent="b"), call("3", "z", agent="a"))
    right = told(call("2", "y", agent="b"), call("1", "x", agent="a"), call("3", "w", agent="a"))
    found = first_difference(left, right)
    assert (found.agent, found.index, found.kind) == ("a", 2, "replaced")


def test_what_one_side_did_not_record_is_no_difference():
    assert (
        first_difference(
            told(call("1", "read", arguments={"a": 1}, result={"b": 2})), told(call("1", "read"))
        )
        is None
    )


def test_the_gateways_answer_is_part_of_an_act():
    def answered(status):
        return told(
            call("1", "pay"),
            evidence=(
                Evidence(
                    evidence_id="e",
                    source="receipt",
                    name="gateway",
                    held=None,
                    step_id="1",
                    data={"status": status},
                ),
            ),
        )

    assert first_difference(answered(201), answered(409)).kind == "status_changed"
    assert first_difference(answered(201), answered(201)) is None


def test_an_answer_alone_may_differ():
    found = first_difference(told(answer={"a": [1]}), told(answer={"a": [2]}))
    assert (found.kind, found.pointer) == ("answer", "/a/0")


def test_pointers_are_escaped_and_lead_to_the_first_difference():
    assert pointer({"a/b": {"~": 1}}, {"a/b": {"~": 2}}) == "/a~1b/~0"
    assert pointer([1], [1, 2]) == "/1"
    assert pointer(1, 2) == ""


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from(["", "x", UUID, OTHER]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner),
    max_leaves=8,
)


@given(value=JSON)
def test_scrubbing_depends_on_the_shape_of_ids_alone_and_renaming_them_changes_nothing(value):
    def renamed(item):
        if isinstance(item, str):
            return {UUID: OTHER, OTHER: UUID}.get(item, item)
        if isinstance(item, list):
            return [renamed(one) for one in item]
        if isinstance(item, dict):
            return {key: renamed(one) for key, one in item.items()}
        return item

    assert Scrubber()(value) == Scrubber()(renamed(value))
    assert UUID not in str(Scrubber()(value))


def test_known_ids_are_taken_out_whatever_their_shape():
    scrub = Scrubber(["call_7", "call_77"])
    assert scrub("call_77 then call_7 then call_77") == "#1 then #2 then #1"
