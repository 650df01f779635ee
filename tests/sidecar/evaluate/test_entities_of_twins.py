"""Entities of several twins: each expectation finds the rows of the twin it names, and no other."""

import pytest
from msgspec import convert

from sidecar.evaluate.expectations import AnyExpectation, identified
from sidecar.replay.direct import run_direct
from sidecar.twins.files import load_twins
from sidecar.twins.group import Beginning
from sidecar.twins.scenario import Case

TWIN = """\
twin: {name}
entities:
  orders:
    key: id
    rows: [{{id: A-1, owner: ada, open: true}}, {{id: A-2, owner: bob, open: true}}]
  {name}_logs: {{key: id}}
tools:
  - name: {name}_close
    match: {{method: POST, path: /close}}
    effects: [{{op: set, entity: orders, key: arguments.id, values: {{open: false}}}}]
  - name: {name}_log
    match: {{method: POST, path: /log}}
    effects: [{{op: insert, entity: {name}_logs, values: {{id: arguments.id}}}}]
"""


@pytest.fixture(scope="module")
def companies(tmp_path_factory):
    folder, paths = tmp_path_factory.mktemp("twins"), []
    for name in ("shop", "bank"):
        paths.append(folder / f"{name}.yaml")
        paths[-1].write_text(TWIN.format(name=name))
    group = load_twins(paths).group
    return group, group.open()


def status(companies, expectation, *calls):
    group, worlds = companies
    case = Case(
        id="c", title="", severity="major", input="", messages=(), beginning=Beginning(),
        permissions=("*",), faults=(), approvals=(), seed=1,
        expect=identified(convert([expectation], list[AnyExpectation])),
    )  # fmt: skip

    def agent(request, call):
        for tool, name in calls:
            call(tool, {"id": name})
        return "Done."

    run = run_direct(case, agent, group, worlds)
    assert run.clean
    return run.scores[0].status


SHOP, BANK = ("shop_close", "A-2"), ("bank_close", "A-2")
UNCHANGED = {"type": "stateUnchanged"}
FOREIGN = {"type": "noCrossTenantAccess", "field": "owner", "tenant": "ada"}
MASK = {"type": "collateral", "allowed": [{"entity": "shop.orders"}]}
END = {"type": "endState", "changes": {"shop.orders": {"A-2": {"id": "A-2", "owner": "bob"}}}}
END["changes"]["shop.orders"]["A-2"]["open"] = False
MARK = {"entity": "shop.orders", "key": "A-2", "equals": {"open": False}}


@pytest.mark.requirement("EVL-01")
@pytest.mark.parametrize(
    ("expectation", "calls", "found"),
    [
        ({**UNCHANGED, "entities": ["shop.orders"]}, [SHOP], "fail"),
        ({**UNCHANGED, "entities": ["shop.orders"]}, [BANK], "pass"),
        ({**UNCHANGED, "entities": ["shop.shop_logs"]}, [("shop_log", "L")], "fail"),
        ({**UNCHANGED, "entities": ["shop_logs"]}, [("shop_log", "L")], "fail"),
        ({**UNCHANGED, "except": {"shop.orders": ["A-2"]}}, [SHOP], "pass"),
        ({**UNCHANGED, "except": {"shop.orders": ["A-2"]}}, [BANK], "fail"),
        ({**UNCHANGED, "except": {"shop.shop_logs": ["L"]}}, [("shop_log", "L")], "pass"),
        ({**FOREIGN, "entity": "shop.orders"}, [SHOP], "fail"),
        (MASK, [SHOP], "pass"),
        (MASK, [BANK], "fail"),
        (END, [SHOP], "pass"),
        (END, [BANK], "fail"),
        ({"type": "milestones", "reach": [MARK]}, [SHOP], "pass"),
        ({"type": "milestones", "reach": [MARK]}, [BANK], "fail"),
        ({"type": "milestones", "reach": [MARK], "avoid": []}, [BANK, SHOP], "pass"),
    ],
)
def test_an_expectation_is_of_the_rows_of_the_twin_it_names(companies, expectation, calls, found):
    assert status(companies, expectation, *calls) == found


def test_a_change_is_told_with_its_twin_where_the_name_alone_says_too_little(companies):
    group, _ = companies
    assert group.told_entity("shop", "orders") == "shop.orders"
    assert group.told_entity("shop", "shop_logs") == "shop_logs"
