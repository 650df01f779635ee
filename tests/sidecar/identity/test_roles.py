"""The table of what each role may do, as people read it, and in which project a caller acts."""

from typing import get_args

import pytest

from processors.model.names import PrincipalKind
from processors.model.principal import Grant, KeyKind, Principal, Role
from sidecar.identity.roles import (
    ACTOR_OF_KIND,
    KIND_OF_ROLE,
    PERMISSIONS,
    ROLES,
    Forbidden,
    Permission,
    acting_in,
    actor,
    allows,
    projects_of,
    require,
)

#                     agent owner admin engineer reviewer viewer
TABLE = {
    "telemetry.write": "  x     .     .      .        .      .   ",
    "tools.call":      "  x     .     .      .        .      .   ",
    "store.read":      "  .     x     x      x        x      x   ",
    "approvals.decide": " .     x     .      .        x      .   ",
    "calls.stop":      "  .     x     x      x        x      .   ",
    "calls.resume":    "  .     x     x      .        x      .   ",
    "calls.resolve":   "  .     x     .      .        x      .   ",
    "keys.agents":     "  .     x     x      x        .      .   ",
    "keys.people":     "  .     x     x      .        .      .   ",
    "keys.owners":     "  .     x     .      .        .      .   ",
}  # fmt: skip
ACTORS = ("agent", *ROLES)


@pytest.mark.requirement("CTL-01")
def test_the_table_of_permissions_is_this_one():
    expected = {
        permission: {who for who, mark in zip(ACTORS, marks.split(), strict=True) if mark == "x"}
        for permission, marks in TABLE.items()
    }
    assert {name: set(actors) for name, actors in PERMISSIONS.items()} == expected
    assert set(PERMISSIONS) == set(get_args(Permission)) and get_args(Role) == ROLES


@pytest.mark.requirement("GW-07")
def test_nobody_who_decides_calls_tools_and_nobody_who_calls_tools_reads():
    assert not PERMISSIONS["approvals.decide"] & PERMISSIONS["tools.call"]
    assert not PERMISSIONS["calls.resolve"] & PERMISSIONS["tools.call"]
    assert not PERMISSIONS["store.read"] & PERMISSIONS["tools.call"]


def test_each_kind_of_credential_is_a_row_and_each_role_has_a_kind():
    assert set(ACTOR_OF_KIND) == set(get_args(PrincipalKind))
    assert set(KIND_OF_ROLE) == set(ROLES) and set(KIND_OF_ROLE.values()) <= set(get_args(KeyKind))
    for kind in ("approver", "reader", "admin"):  # what a kind says is what its role says
        assert KIND_OF_ROLE[ACTOR_OF_KIND[kind]] == kind


@pytest.mark.requirement("GW-07")
@pytest.mark.parametrize("kind", ["agent", "episode"])
@pytest.mark.parametrize("role", ROLES)
def test_a_role_makes_no_more_of_an_agent(kind, role):
    principal = Principal(id="x", kind=kind, project="p", role=role,
                          grants=(Grant(project="q", role=role),))  # fmt: skip
    assert actor(principal) == "agent"
    assert {each for each in PERMISSIONS if allows(principal, each)} == {
        "telemetry.write", "tools.call",
    }  # fmt: skip
    for project in ("p", "q"):
        with pytest.raises(Forbidden):
            acting_in(principal, project)


def test_a_refusal_says_what_is_missing():
    with pytest.raises(Forbidden, match=r"kind reader and role engineer has no permission keys.p"):
        require(Principal(id="x", kind="reader", project="p", role="engineer"), "keys.people")


def test_a_caller_acts_in_the_projects_of_its_credential_with_the_role_it_has_there():
    grants = (Grant(project="a", role="viewer"), Grant(project="b", role="owner"))
    person = Principal(id="x", kind="reader", project="a", role="viewer", grants=grants)
    assert projects_of(person) == ("a", "b")
    assert acting_in(person, None) == person
    assert not allows(acting_in(person, "a"), "approvals.decide")
    in_b = acting_in(person, "b")
    assert (in_b.project, in_b.kind) == ("b", "admin") and allows(in_b, "approvals.decide")
    for other in ("c", "", "A", "a "):
        with pytest.raises(Forbidden):
            acting_in(person, other)
    one = Principal(id="x", kind="admin", project="a")
    assert acting_in(one, "a").project == "a"
    with pytest.raises(Forbidden):
        acting_in(one, "b")
