"""Twin and suite files: read by YAML 1.2, checked whole, every problem with its line."""

import pytest

from sidecar.errors import SidecarError
from sidecar.expression.document import convert, read
from sidecar.twins.files import load_suite, load_twins
from sidecar.twins.scenario import Suite, cases, drawn_seed

TWIN = """\
twin: shop
entities:
  orders:
    key: id
    schema: {type: object, required: [id, state], properties: {state: {enum: [no, yes]}}}
    rows: [{id: o1, state: no}]
tools:
  - name: get_order
    match: {method: GET, path: "/orders/{id}"}
    class: read
    response: {body: 'row("orders", arguments.id)'}
  - name: cancel
    match: {method: POST, path: "/orders/{id}/cancel"}
    effects: [{op: set, entity: orders, key: arguments.id, values: {state: '"yes"'}}]
"""
SUITE = """\
suite: cancel
twins: [twin.yaml]
seed: 5
scenarios:
  - id: one
    input: cancel o1
    expect: [{type: state, entity: orders, key: o1, equals: {state: yes}}]
"""


def write(folder, twin=TWIN, suite=SUITE):
    (folder / "twin.yaml").write_text(twin)
    (folder / "suite.yaml").write_text(suite)
    return folder / "suite.yaml"


def problems(folder, **files):
    with pytest.raises(SidecarError) as error:
        load_suite(write(folder, **files))
    return str(error.value)


def test_a_suite_is_read_with_its_twins_and_yes_is_text(tmp_path):
    loaded = load_suite(write(tmp_path))
    (case,) = cases(loaded.suite)
    assert case.expect[0].equals == {"state": "yes"}
    assert case.expect[0].id == "state:orders"
    assert case.severity == "major" and case.permissions == ("*",)
    assert case.seed == drawn_seed(5, "one")
    assert set(loaded.files) == {"suite.yaml", "twin.yaml"}


def test_every_problem_of_a_twin_is_named_with_its_line(tmp_path):
    text = problems(
        tmp_path,
        twin=TWIN.replace("state: no}]", "state: maybe}]")
        .replace('row("orders", arguments.id)', 'row("ordres", argument.id)')
        .replace('"yes"', "yes +"),
    )
    assert "twin.yaml:6: entities.orders.rows.0.state" in text
    assert "twin.yaml:11: tools.0.response.body there is no entity 'ordres'" in text
    assert "twin.yaml:11: tools.0.response.body CEL" in text and "'argument'" in text
    assert "twin.yaml:14: tools.1.effects.0.values.state CEL" in text


def test_unknown_keys_and_missing_ones_are_named_together(tmp_path):
    text = problems(
        tmp_path,
        twin=TWIN.replace("class: read", "klass: read").replace(
            "{op: set, entity: orders, key: arguments.id", "{op: sett, entity: orders"
        ),
    )
    assert "tools.0.klass is unknown; known: " in text
    assert "tools.1.effects.0.op 'sett' is unknown; known: append, delete" in text


def test_every_problem_of_a_suite_is_named_with_its_line(tmp_path):
    suite = SUITE + (
        "  - id: one\n"
        "    expect: []\n"
        "    state: {order: [{id: x}]}\n"
        "  - id: three\n"
        "    faults: [{fault: lie_success, tool: refund, when: {probability: 2}}]\n"
        "    expect:\n"
        "      - {type: toolCalled, tool: refund, times: 1, min: 2}\n"
        "      - {type: finalOutcome}\n"
        '      - {type: state, that: "nope(1)"}\n'
        "      - {type: stateUnchanged, entities: [ordres]}\n"
    )
    text = problems(tmp_path, suite=suite)
    for expected in (
        "suite.yaml:8: scenarios.1.id 'one' is empty or stands twice",
        "suite.yaml:9: scenarios.1.expect is empty",
        "suite.yaml:10: scenarios.1.state.order there is no entity 'order'",
        "suite.yaml:12: scenarios.2.faults.0.tool there is no tool 'refund'",
        "suite.yaml:12: scenarios.2.faults.0.when.probability must be between 0 and 1",
        "suite.yaml:14: scenarios.2.expect.0 names the tool 'refund'",
        "suite.yaml:14: scenarios.2.expect.0 has times beside min or max",
        "suite.yaml:15: scenarios.2.expect.1 needs claim, contains",
        "suite.yaml:16: scenarios.2.expect.2.that CEL",
        "suite.yaml:17: scenarios.2.expect.3 there is no entity 'ordres'",
    ):
        assert expected in text


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("a: [", "not YAML"),
        ("a: 1\na: 2\n", "key 'a' stands twice"),
        ("a: &x [*x]\n", "it is refused: the alias .x stands in what it names"),
        ("- 1\n", "must be a mapping"),
        ("suite: 3\n", "suite must be text, not 3"),
    ],
)
def test_a_file_of_no_use_is_refused_in_words(text, wanted):
    with pytest.raises(SidecarError, match=wanted):
        convert(read(text, name="suite.yaml"), Suite)


def test_an_agent_cannot_be_its_own_approver(tmp_path):
    approvals = "defaults: {approvals: [{decision: approve, by: Cancel}]}\nscenarios:"
    text = problems(tmp_path, suite=SUITE.replace("scenarios:", approvals))
    assert "suite.yaml:4: defaults.approvals.0.by 'Cancel' is the agent's own name" in text


def test_a_schema_file_is_part_of_the_digest(tmp_path):
    twin = TWIN.replace("schema: {type", "schema: {file: order.json}\n    #")
    (tmp_path / "order.json").write_text('{"type": "object"}')
    suite = write(tmp_path, twin=twin)
    before = load_suite(suite)
    (tmp_path / "order.json").write_text('{"type": "object", "required": ["id"]}')
    assert "order.json" in before.files
    assert load_suite(suite).digest() != before.digest()


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(SidecarError, match=r"cannot be read: No such file.*nowhere\.yaml"):
        load_twins([tmp_path / "nowhere.yaml"])


def test_two_twins_cannot_declare_one_tool(tmp_path):
    (tmp_path / "other.yaml").write_text(TWIN.replace("twin: shop", "twin: other"))
    text = problems(tmp_path, suite=SUITE.replace("[twin.yaml]", "[twin.yaml, other.yaml]"))
    assert "the tool 'get_order' is declared by 2 twins" in text
    assert "there is no entity 'orders'" in text  # plain names must be unique


def test_the_example_of_the_specification_loads(tmp_path, request):
    folder = request.config.rootpath / "docs" / "specs"
    for name in ("twin", "suite"):
        block = (folder / f"{name}.md").read_text().split("```yaml\n")[1].split("```")[0]
        (tmp_path / f"{name}.yaml").write_text(block)
    tool = "  - {name: get_refund_policy, match: {method: GET, path: /policy}, class: read}\n"
    with (tmp_path / "twin.yaml").open("a") as file:
        file.write(tool)
    (tmp_path / "world").mkdir()
    (tmp_path / "world" / "orders.json").write_text("[]")
    assert load_suite(tmp_path / "suite.yaml").suite.deterministic
