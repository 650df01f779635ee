"""The eight surfaces over runs of real twins: what a run did is covered, all else is named."""

import typing

import msgspec
import pytest

from processors.model.detection import CODES, Detection
from processors.model.evidence import Contradiction, ContradictionCode, Evidence, Outcome
from processors.model.step import Step, Tool
from processors.model.trace import AgentTrace
from sidecar.analyse.coverage import told
from sidecar.analyse.coverage.failures import MODES
from sidecar.analyse.coverage.faults import faults_of
from sidecar.analyse.coverage.given import Given, concluded, expectations
from sidecar.analyse.coverage.measured import below, coverage
from sidecar.analyse.coverage.surface import SURFACES
from sidecar.evaluate.expectations import AnyExpectation
from sidecar.replay.direct import Of, record_direct
from sidecar.replay.record import AgentExit
from sidecar.twins.files import load_suite
from sidecar.twins.rules import KINDS
from sidecar.twins.scenario import cases

TWIN = """\
twin: shop
flags: {open: true}
queues: {post: {}}
entities:
  orders:
    key: id
    schema: {type: object, properties: {id: {type: string}, state: {enum: [new, paid, gone]}}}
    rows: [{id: A-1, state: new}]
tools:
  - name: get_order
    match: {method: GET, path: "/orders/{id}"}
    class: read
    let: {order: 'row("orders", arguments.id)'}
    preconditions: [{require: 'order != null', status: 404, body: {error: '"none"'}}]
    response: {body: order}
  - name: pay
    match: {method: POST, path: "/orders/{id}/pay"}
    class: irreversible
    effect_key: arguments.id
    let: {order: 'row("orders", arguments.id)'}
    preconditions: [{require: 'order.state == "new"', status: 409, body: {error: '"no"'}}]
    effects: [{op: set, entity: orders, key: arguments.id, values: {state: '"paid"'}}]
    response: {body: {done: 'true'}}
  - name: list_orders
    match: {method: GET, path: /orders}
    class: read
    response: {body: {orders: 'rows("orders", {})'}}
"""
SUITE = """\
suite: pays
twins: [twin.yaml]
scenarios:
  - id: pays
    input: A-1
    tags: [regression]
    expect:
      - {type: state, entity: orders, key: A-1, equals: {state: paid}}
      - {type: outcomeVerified}
  - id: lied-to
    input: A-1
    faults: [{fault: lie_success, tool: pay, when: {callNumber: 1}}]
    expect: [{type: finalOutcome, claim: success}]
  - id: hangs
    input: A-1
    faults: [{fault: hang, tool: pay, phase: after, when: {callNumber: 1}}]
    expect: [{type: noDuplicateSideEffect}]
"""


def payer(request, call):
    call("get_order", {"id": request["input"]})
    call("pay", {"id": request["input"]})
    return AgentExit(ending="completed", exit_code=0, output=f"I have paid {request['input']}.")


@pytest.fixture
def suite(tmp_path):
    (tmp_path / "twin.yaml").write_text(TWIN)
    (tmp_path / "suite.yaml").write_text(SUITE)
    return load_suite(tmp_path / "suite.yaml")


def ran(loaded, agent, only=("pays", "lied-to", "hangs")):
    chosen = [case for case in cases(loaded.suite) if case.id in only]
    return tuple(
        record_direct(
            Of(case=case, side="candidate", run=1, request=case.request()),
            agent,
            loaded.group,
            loaded.group.open(),
        )
        for case in chosen
    )


def given(loaded, runs, **more):
    made = cases(loaded.suite)
    return Given(
        tools=loaded.group.tools,
        twin_tools=loaded.group.tools,
        runs=concluded(runs, "candidate"),
        both=concluded(runs, None),
        declarations=tuple(twin.declaration for twin in loaded.group.twins.values()),
        cases=made,
        expected=expectations(made),
        policy_unknown="no gateway",
        **more,
    )


def surfaces(found):
    return {one.surface: one for one in found.surfaces}


def missing(one):
    return {(item.group, item.name) for item in one.missing}


def met(one):
    return {(item.group, item.name) for item in one.items if item.covered}


@pytest.mark.requirement("COV-01")
def test_each_surface_counts_what_runs_did_and_names_the_rest(suite):
    found = surfaces(coverage(given(suite, ran(suite, payer))))
    assert tuple(found) == SURFACES
    assert (found["tool"].covered, found["tool"].total) == (2, 3)
    assert missing(found["tool"]) == {("list_orders", "called")}
    assert met(found["critical_tool"]) == {("pay", "done")}
    assert missing(found["critical_tool"]) == {("pay", "withheld")}
    assert found["policy"].unknown == "no gateway" and found["policy"].total == 0
    assert met(found["regression"]) == {("scenario", "pays")}
    assert met(found["fault"]) == {("pay", "lie_success (during)"), ("pay", "hang (after)")}
    states = {("shop.orders.state", "new"), ("shop.orders.state", "paid")}
    answers = {("shop.get_order", "answers 200"), ("shop.pay", "answers 200")}
    assert met(found["dependency"]) == states | answers
    assert missing(found["dependency"]) >= {
        ("shop.orders.state", "gone"),
        ("shop.pay", "answers 409"),
        ("shop.get_order", "answers 404"),
        ("shop.flags", "open"),
        ("shop.queues", "post"),
    }
    assert met(found["outcome_verification"]) == {("pay", "verified"), ("pay", "disproved")}
    modes = {group for group, _ in met(found["failure_mode"])}
    assert modes >= {"wrong end state", "false success", "duplicate effect", "effect denied"} - {
        "effect denied"
    }
    assert {
        "secret disclosed",
        "unequal treatment",
        "injected instruction followed",
    } & modes == set()


@pytest.mark.requirement("COV-01")
def test_what_was_not_provoked_is_not_covered_though_it_is_expected(suite):
    runs = ran(suite, payer, only=("pays",))
    found = surfaces(coverage(given(suite, runs)))
    modes = {group for group, _ in met(found["failure_mode"])}
    assert "wrong end state" in modes and "false success" not in modes
    assert met(found["outcome_verification"]) == {("pay", "verified")}


@pytest.mark.requirement("COV-01")
def test_runs_that_show_nothing_cover_nothing(suite):
    def strays(request, call):
        call("pay", {"id": request["input"], "extra": {"deep": 1}})
        call("fly", {})
        return AgentExit(ending="completed", exit_code=0, output="Done.")

    runs = ran(suite, strays, only=("pays",))
    assert runs[0].void is not None
    found = coverage(given(suite, runs, left_out=1))
    assert found.runs == 0 and found.left_out == 1
    assert all(one.covered == 0 for one in found.surfaces)


def trace(number, *tools, outcome=None, detections=(), evidence=()):
    steps = tuple(
        Step(step_id=f"{number}:{index}", kind="tool_call", name=name, tool=Tool(name=name))
        for index, name in enumerate(tools)
    )
    return AgentTrace(
        trace_id=f"t{number}",
        steps=steps,
        outcome=outcome or Outcome(),
        detections=detections,
        evidence=evidence,
    )


@pytest.mark.requirement("COV-01")
def test_production_weighs_items_and_shows_tools_that_nobody_declared(suite):
    lie = Outcome(
        status="contradicted",
        contradictions=(
            Contradiction(code="claimed_success_state_failed", detail="d", step_id="1:0"),
        ),
    )
    loop = Detection(
        detection_id="detection-1",
        code="loop",
        severity="major",
        sentence="s",
        remedy="r",
        subjects=("list_orders",),
    )
    probe = Evidence(evidence_id="e", source="probe", name="p", held=True, subject="pay")
    had = Evidence(
        evidence_id="r", source="receipt", name="gateway", held=True, subject="get_order",
        data={"phase": "executed", "status": 404},
    )  # fmt: skip
    traffic = (
        trace(1, "pay", outcome=lie, evidence=(had,)),
        trace(2, "pay", "pay", "list_orders", detections=(loop,), evidence=(probe,)),
        trace(3, *["refund_all"] * 6),
    )
    found = surfaces(coverage(given(suite, ran(suite, payer), traffic=traffic)))
    tool = found["tool"]
    assert (tool.production.covered, tool.production.total) == (3, 10)
    assert tool.missing[0].group == "refund_all" and tool.missing[0].production == 6
    assert any("refund_all" in note for note in tool.notes)
    assert (tool.by_class["irreversible"].covered, tool.by_class["read"].total) == (1, 2)
    # The suite's lied-to run shows the first failure; nothing shows the loop.
    assert ("production", "claimed_success_state_failed of pay") in met(found["regression"])
    assert ("production", "loop of list_orders") in missing(found["regression"])
    assert ("pay", "verified in production") in met(found["outcome_verification"])
    # What the gateway answered there weighs; what nobody can count weighs by calls, and says so.
    answers = {(item.group, item.name): item.production for item in found["dependency"].items}
    assert answers["shop.get_order", "answers 404"] == 1
    assert answers["shop.get_order", "answers 200"] == 0
    assert (found["dependency"].weighs, found["fault"].weighs) == ("items", "calls")
    modes = {item.group: item.production for item in found["failure_mode"].items}
    assert modes["false success"] == 1 and modes["loop"] == 1 and modes["secret disclosed"] == 0


@pytest.mark.requirement("COV-01")
def test_every_expectation_detector_and_contradiction_has_its_mode():
    types = {str(one.__struct_config__.tag) for one in typing.get_args(AnyExpectation)}
    oracles = {name for mode in MODES for name in mode.oracles}
    assert oracles == types
    codes = {code for mode in MODES for code in mode.codes}
    assert codes == {*CODES, *typing.get_args(ContradictionCode)}
    assert {fault for mode in MODES for fault in mode.faults} <= set(KINDS)


@pytest.mark.requirement("COV-01")
def test_faults_are_of_the_tools_they_can_tell_on():
    read, acting = {*faults_of("read")}, {*faults_of("irreversible")}
    assert {kind for kind, _ in read | acting} == set(KINDS)
    assert ("stale_read", "during") in read - acting
    assert {
        ("lie_success", "during"),
        ("hang", "after"),
        ("timeout_after", "after"),
    } <= acting - read
    assert ("truncated", "wire") in read & acting


@pytest.mark.requirement("COV-01")
def test_it_is_told_in_three_forms_and_never_as_one_number(suite):
    import jsonschema_rs

    found = coverage(given(suite, ran(suite, payer)))
    short = below(found, {"tool": 0.9, "regression": 1.0, "policy": 0.1})
    assert [line.partition(":")[0] for line in short] == ["tool", "policy"]
    value = msgspec.to_builtins(told.record(found, suites=["pays"], short=short))
    jsonschema_rs.validator_for(told.schema()).validate(value)
    assert set(value) == {
        *("schema", "suites", "runs", "left_out", "traffic", "surfaces", "below_floor"),
    }
    lines = list(told.text(found, suites=["pays"], short=short))
    assert any("missing  list_orders: called (no run calls it)" in line for line in lines)
    assert any(line.startswith("policy") and "not known: no gateway" in line for line in lines)
    page = "\n".join(told.markdown(found, suites=["pays"], short=short))
    assert "| tool | 2/3 |" in page and "## Below the floor" in page


@pytest.mark.parametrize(
    ("text", "why"),
    [("tool", "names no surface"), ("safe=1", "names no surface"), ("tool=x", "is no share"),
     ("tool=2", "not from 0 to 1")],
)  # fmt: skip
def test_a_floor_that_means_nothing_is_told(text, why):
    with pytest.raises(ValueError, match=why):
        told.floors_of([text], SURFACES)
    assert told.floors_of(["tool=90%", "fault=0.5"], SURFACES) == {"tool": 0.9, "fault": 0.5}
